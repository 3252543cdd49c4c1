"""zstd frames made and read with contexts that threads use again."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.units import KIB, MIB
from logdrive.packs import zstd


@given(st.lists(st.binary(min_size=1, max_size=4 * KIB), max_size=5), st.sampled_from([1, 3, 9]))
def test_each_frame_holds_its_content_whatever_was_compressed_before(
    contents: list[bytes], level: int
) -> None:
    for content in contents:
        frame = zstd.compress(content, level)
        said = zstandard.get_frame_parameters(frame)
        assert (said.content_size, said.has_checksum) == (len(content), False)
        assert zstd.decompress(frame, MIB) == content
        assert zstandard.ZstdDecompressor().decompress(frame) == content


def test_threads_that_compress_and_decompress_at_once_do_not_disturb_each_other() -> None:
    def travel(seed: int) -> bool:
        random = Random(seed)
        contents = [
            b"%d " % seed * random.randrange(1, 5_000) + random.randbytes(random.randrange(2_000))
            for _ in range(100)
        ]
        frames = [zstd.compress(content, 1 + seed % 3) for content in contents]
        return [zstd.decompress(frame, MIB) for frame in frames] == contents

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(travel, range(32)))


def test_a_frame_that_is_broken_or_cut_off_does_not_spoil_the_next() -> None:
    content = Random(1).randbytes(300) * 1_000
    frame = zstd.compress(content, 1)
    for broken in (frame[:-1], frame[:20], frame + b"more", bytes(4) + frame[4:]):
        with pytest.raises(zstandard.ZstdError):
            zstd.decompress(broken, MIB)
        assert zstd.decompress(frame, MIB) == content


def test_a_frame_that_needs_a_larger_window_than_allowed_is_refused() -> None:
    # without its size the frame names the window
    packer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=20)
    ).compressobj()
    frame = packer.compress(bytes(3 * MIB)) + packer.flush()
    with pytest.raises(zstandard.ZstdError):
        zstd.decompress(frame, MIB // 2)
