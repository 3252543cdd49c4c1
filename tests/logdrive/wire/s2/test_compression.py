"""`logdrive.wire.s2.compression`: what is chosen, and what is refused."""

import gzip

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.s2.compression import (
    Compression,
    DecompressionError,
    accepted_compression,
    compress,
    compress_long,
    content_compression,
    decompress,
    unpack_body,
)
from logdrive.wire.s2.errors import bad_json, bad_proto
from logdrive.wire.s2.limits import UNARY_BODY_BYTES
from tests.logdrive.wire.s2.samples import refusal

COMPRESSED = [Compression.ZSTD, Compression.GZIP]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, Compression.NONE),
        ("", Compression.NONE),
        ("identity", Compression.NONE),
        ("br, deflate", Compression.NONE),
        ("gzip", Compression.GZIP),
        ("gzip, zstd", Compression.ZSTD),
        ("GZIP;q=1.0, ZSTD; q=0.1", Compression.ZSTD),
        ("zstd;q=0, gzip", Compression.GZIP),
        ("zstd; q=0.000,gzip;q=0", Compression.NONE),
        ("zstd;q=0.001", Compression.ZSTD),
        ("*", Compression.NONE),
    ],
)
def test_zstd_goes_before_gzip_and_a_weight_of_zero_forbids(
    header: str | None, expected: Compression
) -> None:
    assert accepted_compression(header) is expected


def test_a_body_is_read_in_the_encodings_that_are_named() -> None:
    for name in (None, "", "identity", "gzip", "x-gzip", "ZSTD"):
        content_compression(name)
    for name in ("br", "deflate", "gzip, zstd"):
        assert refusal(content_compression, name) == (415, None)


@given(st.binary(max_size=3000), st.sampled_from(Compression))
def test_bytes_are_read_as_they_were_written(data: bytes, compression: Compression) -> None:
    assert decompress(compress(data, compression), compression, len(data)) == data


@pytest.mark.parametrize("compression", COMPRESSED)
def test_other_writers_are_read(compression: Compression) -> None:
    data = b"some data" * 1000
    for level in (1, 9):
        packed = {
            Compression.GZIP: gzip.compress(data, level),
            Compression.ZSTD: zstandard.ZstdCompressor(level=2 * level).compress(data),
        }[compression]
        assert decompress(packed, compression, len(data)) == data


@given(st.binary(max_size=300), st.sampled_from(COMPRESSED))
def test_garbage_raises_nothing_else(data: bytes, compression: Compression) -> None:
    with pytest.raises(DecompressionError):
        decompress(data + b"\0garbage", compression, 1 << 20)


@given(st.binary(max_size=300), st.sampled_from(COMPRESSED), st.data())
def test_what_is_cut_off_is_refused(
    data: bytes, compression: Compression, draw: st.DataObject
) -> None:
    packed = compress(data, compression)
    size = draw.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(DecompressionError):
        decompress(packed[:size], compression, 1 << 20)


@pytest.mark.parametrize("compression", Compression)
def test_a_limit_is_kept(compression: Compression) -> None:
    packed = compress(b"x" * 1001, compression)
    assert len(decompress(packed, compression, 1001)) == 1001
    with pytest.raises(DecompressionError) as caught:
        decompress(packed, compression, 1000)
    assert caught.value.limit


@pytest.mark.parametrize("compression", COMPRESSED)
def test_bytes_after_the_end_are_refused(compression: Compression) -> None:
    packed = compress(b"x" * 100, compression)
    for more in (b"x", packed):
        with pytest.raises(DecompressionError):
            decompress(packed + more, compression, 1 << 20)


def test_a_zstd_window_that_takes_too_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = stream.compress(b"x") + stream.flush()
    with pytest.raises(DecompressionError):
        decompress(packed, Compression.ZSTD, 1 << 20)


def test_short_data_stays_as_it_is() -> None:
    assert compress_long(b"x" * 1023, Compression.GZIP) == (b"x" * 1023, Compression.NONE)
    assert compress_long(b"x" * 1024, Compression.GZIP)[1] is Compression.GZIP
    assert compress_long(b"x" * 1024, Compression.NONE)[1] is Compression.NONE


def test_a_body_over_its_limit_is_an_error_of_its_type() -> None:
    body = b"x" * UNARY_BODY_BYTES
    assert unpack_body(body, None, bad_json) == body
    assert unpack_body(compress(body, Compression.ZSTD), "zstd", bad_json) == body
    longer = compress(body + b"x", Compression.GZIP)
    assert refusal(unpack_body, longer, "gzip", bad_json) == (400, "bad_json")
    assert refusal(unpack_body, b"no gzip", "gzip", bad_proto) == (400, "bad_proto")
    assert refusal(unpack_body, body, "br", bad_proto) == (415, None)
