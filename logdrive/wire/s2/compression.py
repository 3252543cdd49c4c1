"""Compression of bodies and of messages in frames, and the headers that choose it.

See docs/protocols/s2.md#compression.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, cast

import zstandard
from isal import isal_zlib

from logdrive.model.units import KIB
from logdrive.packs import zstd
from logdrive.wire.s2.errors import S2Error, unsupported_media_type
from logdrive.wire.s2.limits import COMPRESSED_FROM_BYTES, UNARY_BODY_BYTES, ZSTD_WINDOW_BYTES


class Compression(IntEnum):
    """How bytes are compressed; the values are those of a frame's flag byte."""

    NONE = 0
    ZSTD = 1
    GZIP = 2

    @property
    def encoding(self) -> str:
        """The name in Content-Encoding."""
        return "identity" if self is Compression.NONE else self.name.lower()


class DecompressionError(Exception):
    """Bytes that can't be decompressed; *limit* is True if they are too many then.

    Callers convert it to the `S2Error` that their place asks for.
    """

    def __init__(self, reason: str, *, limit: bool = False) -> None:
        super().__init__(reason)
        self.limit = limit


_GZIP_BITS: Final = 31  # a window of 32 KiB, in gzip's wrapping
_LEVEL: Final = 1  # the fast one of both
_STEP: Final = 256 * KIB
# its type stub takes the class for an instance
_InflateError: Final = cast("type[Exception]", isal_zlib.error)

_ENCODINGS: Final = {
    "": Compression.NONE,
    "identity": Compression.NONE,
    "zstd": Compression.ZSTD,
    "gzip": Compression.GZIP,
    "x-gzip": Compression.GZIP,
}


def accepted_compression(accept_encoding: str | None) -> Compression:
    """Return what an answer is compressed with, from the request's Accept-Encoding: zstd before
    gzip before nothing, whatever the weights, except that `q=0` forbids one.
    """
    weights: dict[str, bool] = {}
    for item in (accept_encoding or "").split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        weights[name] = not any(_is_zero(parameter) for parameter in parameters)
    for compression in (Compression.ZSTD, Compression.GZIP):
        if weights.get(compression.encoding):
            return compression
    return Compression.NONE


def _is_zero(parameter: str) -> bool:
    key, _, value = parameter.partition("=")
    return key.strip() == "q" and value.strip().strip("0") in ("", ".")


def content_compression(content_encoding: str | None) -> Compression:
    """Return how a body is compressed; raise `S2Error`, 415, for other encodings."""
    compression = _ENCODINGS.get((content_encoding or "").strip().lower())
    if compression is None:
        raise unsupported_media_type()
    return compression


def compress(data: bytes, compression: Compression) -> bytes:
    """Return *data* compressed, however short it is."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.ZSTD:
            return zstd.compress(data, _LEVEL)
        case Compression.GZIP:
            packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP_BITS)
            return bytes(packer.compress(data) + packer.flush())


def compress_long(data: bytes, compression: Compression) -> tuple[bytes, Compression]:
    """Return *data* compressed and how; short data stays as it is."""
    if compression is Compression.NONE or len(data) < COMPRESSED_FROM_BYTES:
        return data, Compression.NONE
    return compress(data, compression), compression


def decompress(data: bytes, compression: Compression, limit: int) -> bytes:
    """Return what *data* holds, taking memory for *limit* bytes at most.

    Raises `DecompressionError` for damaged or incomplete data, for bytes after its end, and for
    more than *limit* bytes, which is seen before they are taken.
    """
    match compression:
        case Compression.NONE:
            if len(data) > limit:
                raise _too_much(limit)
            return data
        case Compression.ZSTD:
            return _unpack_zstd(data, limit)
        case Compression.GZIP:
            return _unpack_gzip(data, limit)


def unpack_body(
    data: bytes, content_encoding: str | None, error: Callable[[str], S2Error]
) -> bytes:
    """Return the body of a unary request, decompressed.

    Raises `S2Error`: 415 for an unknown encoding, else *error*, which is that of the body's type:
    bad_json or bad_proto.
    """
    try:
        return decompress(data, content_compression(content_encoding), UNARY_BODY_BYTES)
    except DecompressionError as failure:
        raise error(
            f"length limit exceeded: {failure}" if failure.limit else str(failure)
        ) from None


def _unpack_zstd(data: bytes, limit: int) -> bytes:
    try:
        head = zstandard.get_frame_parameters(data)
        if head.window_size > ZSTD_WINDOW_BYTES:
            raise DecompressionError(
                f"a zstd window of {head.window_size} bytes, over {ZSTD_WINDOW_BYTES}", limit=True
            )
        # of a frame that says 0 the library's decompress reads the head only
        if head.content_size in (zstandard.CONTENTSIZE_UNKNOWN, 0):
            unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
            return _unpack_unsized_zstd(unpacker, data, limit)
        if head.content_size > limit:
            raise _too_much(limit)
        return zstd.decompress(data, ZSTD_WINDOW_BYTES)
    except zstandard.ZstdError as error:
        raise DecompressionError(f"bytes that zstd can't decompress: {error}") from error


def _unpack_unsized_zstd(unpacker: zstandard.ZstdDecompressor, data: bytes, limit: int) -> bytes:
    """Unpack a frame without its size in the header, by measuring it first.

    No call of the library both stops at a size and sees what follows the frame.
    """
    size = 0
    with unpacker.stream_reader(data) as reader:
        while step := reader.read(_STEP):
            size += len(step)
            if size > limit:
                raise _too_much(limit)
    stream = unpacker.decompressobj()
    unpacked = stream.decompress(data)
    if not stream.eof:
        raise DecompressionError("a zstd frame that is cut off")
    if stream.unused_data:
        raise DecompressionError("bytes after the zstd frame")
    return unpacked


def _unpack_gzip(data: bytes, limit: int) -> bytes:
    inflater = isal_zlib.decompressobj(_GZIP_BITS)
    try:
        # one byte more than allowed shows that there is more
        unpacked = bytes(inflater.decompress(data, limit + 1))
    except _InflateError as error:
        raise DecompressionError(f"bytes that gzip can't decompress: {error}") from error
    if len(unpacked) > limit:
        raise _too_much(limit)
    if not inflater.eof:
        raise DecompressionError("a gzip stream that is cut off")
    if inflater.unused_data:
        raise DecompressionError("bytes after the gzip stream")
    return unpacked


def _too_much(limit: int) -> DecompressionError:
    return DecompressionError(f"more than {limit} bytes after decompression", limit=True)
