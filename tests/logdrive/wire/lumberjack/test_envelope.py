"""Envelopes: which ones open, and which are refused: bombs, streams cut off or damaged, envelopes
inside envelopes.
"""

import gzip
import random
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from logdrive.errors import ProtocolError
from logdrive.model.units import KIB, MIB
from logdrive.wire.lumberjack import envelope
from logdrive.wire.lumberjack.envelope import Codec, EnvelopeError, pack, unpack
from logdrive.wire.lumberjack.frames import (
    EnvelopeFrame,
    JsonFrame,
    RefusalCode,
    RunFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, PLAIN_LUMBERJACK, LumberjackLimits
from logdrive.wire.lumberjack.reader import FrameDialect
from tests.logdrive.wire.lumberjack.streams import encoded, events, reader

EVENT = JsonFrame(1, b'{"message":"x"}')
FRAME = EVENT.encode()
RUN = encoded([RunFrame(0, 0, 0, 1 << 16, 0, 0, 1, 1), EVENT])
SMALL = LumberjackLimits(inflated=256 * KIB, ratio=100)


def plainly(payload: bytes, limits: LumberjackLimits = PLAIN_LUMBERJACK) -> bytes:
    return unpack(payload, limits, zstd=False, exact=False)


def exactly(payload: bytes, limits: LumberjackLimits = LOGDRIVE_1) -> bytes:
    return unpack(payload, limits, zstd=True, exact=True)


def streamed_zstd(data: bytes, **parameters: int) -> bytes:
    """Return a zstd frame without its size in the header."""
    chosen = zstandard.ZstdCompressionParameters(compression_level=1, **parameters)
    stream = zstandard.ZstdCompressor(compression_params=chosen).compressobj()
    return stream.compress(data) + stream.flush()


@given(
    st.lists(st.binary(max_size=50), max_size=8),
    st.sampled_from(["zlib", "zstd"]),
    st.integers(1, 3),
)
def test_packed_bytes_unpack(parts: list[bytes], codec: Codec, level: int) -> None:
    data = b"".join(parts)
    assert pack(parts, codec, level) == pack(data, codec, level)
    if data or codec == "zlib":
        assert exactly(pack(parts, codec, level)) == data


def test_packed_bytes_open_with_other_libraries() -> None:
    data = FRAME * 1000
    assert zlib.decompress(pack(data)) == data
    assert zstandard.decompress(pack(data, "zstd")) == data


@pytest.mark.parametrize("level", range(10))
def test_every_level_of_zlib_opens(level: int) -> None:
    data = FRAME * 1000
    assert plainly(zlib.compress(data, level)) == data


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (zlib.compress(FRAME)[:-1], "cut off"),
        (zlib.compress(FRAME)[:-4], "cut off"),
        (zlib.compress(FRAME)[:9], "cut off"),
        (b"\x78", "cut off"),
        (zlib.compress(FRAME)[:-4] + b"\0\0\0\0", "does not inflate"),
        (zlib.compress(FRAME)[2:-4], "does not inflate"),
        (gzip.compress(FRAME), "does not inflate"),
        (b"\x78\x9c" + b"\xff" * 20, "does not inflate"),
        (b"plain text", "does not inflate"),
    ],
    ids=[
        "one byte short",
        "no checksum",
        "a few bytes",
        "the first byte",
        "a wrong checksum",
        "raw deflate",
        "gzip",
        "garbage behind the header",
        "plain text",
    ],
)
def test_an_incomplete_or_damaged_zlib_stream_is_refused(payload: bytes, reason: str) -> None:
    for open_it in (plainly, exactly):
        with pytest.raises(EnvelopeError, match=reason) as refused:
            open_it(payload)
        assert not refused.value.limit


@given(st.data())
def test_a_zlib_stream_opens_wherever_it_is_cut_into_steps_or_as_zlib_refuses_it(
    draw: st.DataObject,
) -> None:
    data = draw.draw(st.binary(max_size=60)) * draw.draw(st.integers(1, 30))
    payload = bytearray(zlib.compress(data, draw.draw(st.integers(0, 9))))
    damaged = draw.draw(st.booleans())
    if damaged:
        payload[draw.draw(st.integers(0, len(payload) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    payload = payload[: draw.draw(st.integers(1, len(payload)) | st.just(len(payload)))]
    payload += draw.draw(st.binary(max_size=9))
    try:
        other = zlib.decompressobj()
        opened = other.decompress(bytes(payload))
        whole, rest = other.eof, other.unused_data
    except zlib.error:
        opened, whole, rest = b"", False, b""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "_FED", draw.draw(st.integers(1, 9) | st.just(MIB)))
        patch.setattr(envelope, "_STEP", draw.draw(st.integers(1, 99) | st.just(MIB)))
        for open_it, wanted in ((plainly, whole), (exactly, whole and not rest)):
            if wanted:
                assert open_it(bytes(payload)) == opened
            else:
                with pytest.raises(EnvelopeError):
                    open_it(bytes(payload))


def test_long_parts_make_the_stream_that_isal_makes_of_them() -> None:
    parts = [FRAME * 20_000, bytes(KIB), FRAME * 9_999]
    for level in (1, 2, 3):
        packer = isal_zlib.compressobj(level)
        packed = b"".join([*(packer.compress(part) for part in parts), packer.flush()])
        assert pack(parts, "zlib", level) == packed
    assert zlib.decompress(pack(parts)) == b"".join(parts)


def test_a_preset_dictionary_is_refused() -> None:
    packer = zlib.compressobj(zdict=b"message")
    with pytest.raises(EnvelopeError, match="does not inflate"):
        plainly(packer.compress(FRAME) + packer.flush())


def test_what_follows_zlib_stream_is_skipped_for_plain_peers_and_refused_in_logdrive_1() -> None:
    for payload in (zlib.compress(FRAME) + b"junk", zlib.compress(FRAME) * 2):
        assert plainly(payload) == FRAME
        with pytest.raises(EnvelopeError, match="after its zlib stream"):
            exactly(payload)


def test_no_bytes_hold_nothing_for_plain_peers_and_are_refused_in_logdrive_1() -> None:
    assert plainly(b"") == b""
    with pytest.raises(EnvelopeError):
        exactly(b"")


@pytest.mark.parametrize("sized", [True, False])
def test_a_zstd_frame_opens_with_and_without_its_size(sized: bool) -> None:
    data = FRAME * 1000
    assert exactly(pack(data, "zstd") if sized else streamed_zstd(data)) == data


@pytest.mark.parametrize("sized", [True, False])
def test_one_zstd_frame_exactly(sized: bool) -> None:
    """Rule D1: one frame; neither bytes nor a frame after it, nor one that is cut off."""
    whole = pack(FRAME, "zstd") if sized else streamed_zstd(FRAME)
    for payload in (
        whole + b"x",
        whole * 2,
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:5],
        whole[:4],
    ):
        with pytest.raises(EnvelopeError):
            exactly(payload)


def test_a_zstd_frame_of_nothing_or_to_be_skipped_is_refused() -> None:
    for payload in (
        zstandard.compress(b""),
        zstandard.compress(b"") + b"x",
        b"\x50\x2a\x4d\x18\x03\0\0\0abc",
    ):
        with pytest.raises(EnvelopeError):
            exactly(payload)


def test_a_wrong_zstd_checksum_is_refused() -> None:
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(FRAME)
    assert exactly(packed) == FRAME
    with pytest.raises(EnvelopeError):
        exactly(packed[:-1] + bytes([packed[-1] ^ 1]))


def test_plain_peers_have_no_zstd() -> None:
    with pytest.raises(EnvelopeError):
        plainly(pack(FRAME, "zstd"))


def test_a_zstd_window_over_the_limit_is_refused_from_the_header() -> None:
    packed = streamed_zstd(random.Random(1).randbytes(100 * KIB), window_log=24)
    assert zstandard.get_frame_parameters(packed).window_size == 16 * MIB
    with pytest.raises(EnvelopeError, match="zstd window") as refused:
        exactly(packed[:12])
    assert refused.value.limit
    assert exactly(streamed_zstd(FRAME, window_log=23)) == FRAME


BOMBS = {
    "zlib": zlib.compress(bytes(64 * MIB), 9),
    "zstd that tells its size": zstandard.compress(bytes(64 * MIB)),
    "zstd that does not": streamed_zstd(bytes(64 * MIB)),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("limits", [LOGDRIVE_1, SMALL], ids=["logdrive/1", "small"])
def test_a_bomb_is_stopped_while_it_unpacks(bomb: str, limits: LumberjackLimits) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(EnvelopeError) as refused:
            exactly(BOMBS[bomb], limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused.value.limit
    assert peak < 2 * limits.inflated + 64 * KIB


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
def test_the_unpacked_size_has_a_limit(codec: Codec) -> None:
    data = random.Random(1).randbytes(SMALL.inflated + 1)
    assert exactly(pack(data[:-1], codec), SMALL) == data[:-1]
    with pytest.raises(EnvelopeError, match=f"more than {SMALL.inflated} bytes") as refused:
        exactly(pack(data, codec), SMALL)
    assert refused.value.limit


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
def test_beyond_64_kib_the_ratio_has_a_limit(codec: Codec) -> None:
    small, large = pack(bytes(64 * KIB), codec), pack(bytes(64 * KIB + 1), codec)
    assert len(large) * SMALL.ratio < 64 * KIB
    assert len(exactly(small, SMALL)) == 64 * KIB
    with pytest.raises(EnvelopeError, match="more than 65536 bytes") as refused:
        exactly(large, SMALL)
    assert refused.value.limit


def test_deflates_own_best_is_within_the_default_ratio() -> None:
    assert len(plainly(zlib.compress(bytes(8 * MIB), 9))) == 8 * MIB


@pytest.mark.parametrize("dialect", ["lumberjack", "logdrive/1"])
def test_a_bomb_in_a_stream_is_a_limit_in_the_peers_words(dialect: FrameDialect) -> None:
    limits = LumberjackLimits(inflated=MIB)
    with pytest.raises(ProtocolError, match="unpacks to more than") as refused:
        reader(dialect, limits=limits).receive_data(EnvelopeFrame(BOMBS["zlib"]).encode())
    assert refused.value.code == RefusalCode.LIMIT


def test_a_plain_peers_stream_has_no_zstd() -> None:
    with pytest.raises(ProtocolError, match="does not inflate"):
        reader().receive_data(EnvelopeFrame(pack(FRAME, "zstd")).encode())


def test_a_logdrive_stream_has_nothing_after_what_an_envelope_packs() -> None:
    """Rule D1: one frame."""
    with pytest.raises(ProtocolError, match="after its zlib stream"):
        reader("logdrive/1").receive_data(EnvelopeFrame(pack(RUN) + b"x").encode())


def test_an_envelope_in_an_envelope_is_refused() -> None:
    inner = EnvelopeFrame(pack(RUN)).encode()
    for dialect in ("lumberjack", "logdrive/1"):
        with pytest.raises(ProtocolError, match="an envelope inside an envelope"):
            reader(dialect).receive_data(EnvelopeFrame(pack(inner)).encode())
        with pytest.raises(ProtocolError, match="an envelope inside an envelope"):
            reader(dialect).receive_data(
                EnvelopeFrame(pack((RUN if dialect == "logdrive/1" else FRAME) + inner)).encode()
            )


@pytest.mark.parametrize("cut", [1, 5, 9, 10, len(FRAME) - 1])
def test_an_envelope_holds_whole_frames_only(cut: int) -> None:
    with pytest.raises(ProtocolError, match="ends within a frame"):
        reader().receive_data(
            EnvelopeFrame(pack(FRAME + FRAME[:cut])).encode()
            + EnvelopeFrame(pack(FRAME[cut:])).encode()
        )


def test_an_envelope_cut_in_a_data_frame_is_refused() -> None:
    with pytest.raises(ProtocolError, match="ends within a frame"):
        reader().receive_data(EnvelopeFrame(pack(b"1D\0\0\0\1\0\0\0\1\0\0\0\1k\0\0\0")).encode())


def test_plain_envelopes_may_hold_windows_and_nothing() -> None:
    stream = (
        EnvelopeFrame(pack(WindowFrame(1).encode() + FRAME)).encode()
        + EnvelopeFrame(b"").encode()
        + EnvelopeFrame(pack(b"")).encode()
    )
    assert events(reader().receive_data(stream)) == [WindowFrame(1), EVENT]


@pytest.mark.parametrize(
    "content", [WindowFrame(1).encode(), b"2S" + bytes(24), b"2A\0\0\0\0", b"1J\0\0\0\1\0\0\0\2{}"]
)
def test_envelopes_of_logdrive_1_hold_runs_only(content: bytes) -> None:
    """Rule D1: never an S inside a C, and a W before it."""
    with pytest.raises(ProtocolError, match="can't stand here"):
        reader("logdrive/1").receive_data(EnvelopeFrame(pack(content)).encode())


def test_refused_envelopes_say_why_in_the_peers_words() -> None:
    with pytest.raises(ProtocolError, match="cut off") as refused:
        reader().receive_data(WindowFrame(1).encode() + EnvelopeFrame(pack(FRAME)[:-2]).encode())
    assert (refused.value.code, refused.value.offset) == (RefusalCode.PROTOCOL, 6)


@pytest.mark.parametrize("size", [MIB - 1, MIB, MIB + 1, 3 * MIB])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_streams_longer_than_a_step_unpack(size: int, level: int) -> None:
    """Packed and unpacked bytes go in steps; what follows the stream may lie in a later step than
    its end.
    """
    data = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
    packed = zlib.compress(data, level)
    assert exactly(packed) == plainly(packed) == plainly(packed + bytes(300 * KIB)) == data
    for broken in (packed + bytes(300 * KIB), packed[:-1], packed[: len(packed) // 2]):
        with pytest.raises(EnvelopeError):
            exactly(broken)
