"""The payload of a C frame: packing, and unpacking that never takes more memory than it may.

Lumberjack knows zlib (RFC 1950) only; `logdrive/1` takes zstd (RFC 8878) too. The two can't be mistaken: zstd's first two
bytes fail zlib's header check.
"""

from collections.abc import Sequence
from typing import Final, Literal, cast

import zstandard
from isal import isal_zlib

from logdrive.limits import KIB, MIB, LumberjackLimits

Codec = Literal["zlib", "zstd"]

ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_RATIO_FREE: Final = 64 * KIB  # so much may come out whatever went in
_STEP: Final = 8 * MIB  # unpacked at a time; what is longer is copied once more, to join the steps, and so is what is packed after a step
_MEASURED_STEP: Final = 64 * KIB  # unpacked at a time where only the size is asked for
_InflateError: Final = cast("type[Exception]", isal_zlib.error)  # its type stub takes the class for an instance


class EnvelopeError(Exception):
    """The payload can't be unpacked; *limit* tells whether a limit forbade it. Never leaves this package."""

    def __init__(self, reason: str, *, limit: bool = False) -> None:
        super().__init__(reason)
        self.limit = limit


def pack(payload: bytes | Sequence[bytes], codec: Codec = "zlib", level: int = 1) -> bytes:
    """Return *payload*, or its parts one after the other, as the payload of a C frame.

    Level 1 is the fast one of both: isal's for zlib (0 to 3), zstd's own. Releases the interpreter while it works.
    """
    data = payload if isinstance(payload, bytes) else b"".join(payload)
    if codec == "zlib":
        return bytes(isal_zlib.compress(data, level))
    return zstandard.ZstdCompressor(level=level).compress(data)


def unpack(payload: bytes | memoryview, limits: LumberjackLimits, *, zstd: bool, exact: bool) -> bytes:
    """Return what *payload* holds. Raises `EnvelopeError`, having written at most one byte more than is allowed.

    With *exact* nothing may follow the stream's end (`logdrive/1`, rule D1); without, what follows is skipped, as deployed
    readers do, and a payload of no bytes holds nothing.
    """
    if not payload and not exact:
        return b""
    allowed = min(limits.inflated, max(_RATIO_FREE, limits.ratio * len(payload)))
    if zstd and payload[:4] == ZSTD_MAGIC:
        return _unpack_zstd(payload, allowed, limits.zstd_window)
    return _unpack_zlib(payload, allowed, exact=exact)


def _unpack_zlib(payload: bytes | memoryview, allowed: int, *, exact: bool) -> bytes:
    inflater = isal_zlib.decompressobj()
    source = payload
    pieces: list[bytes] = []
    room = allowed + 1  # one byte more tells that there is more
    try:
        while not inflater.eof:
            piece = inflater.decompress(source, min(_STEP, room))
            if not piece and not source:
                raise EnvelopeError("an envelope whose zlib stream is cut off")
            pieces.append(piece)
            room -= len(piece)
            if not room:
                raise _too_much(allowed)
            source = inflater.unconsumed_tail
    except _InflateError as error:
        raise EnvelopeError(f"an envelope that does not inflate: {error}") from error
    if exact and inflater.unused_data:
        raise EnvelopeError("an envelope with bytes after its zlib stream")
    return b"".join(pieces) if len(pieces) > 1 else pieces[0]


def _unpack_zstd(payload: bytes | memoryview, allowed: int, window: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=window)
    try:
        head = zstandard.get_frame_parameters(payload)
        if head.window_size > window:
            raise EnvelopeError(f"an envelope whose zstd window of {head.window_size} bytes is over {window}", limit=True)
        if head.content_size == 0:
            raise EnvelopeError("an envelope that holds nothing")
        if head.content_size == zstandard.CONTENTSIZE_UNKNOWN:
            return _unpack_untold(unpacker, payload, allowed)
        if head.content_size > allowed:
            raise _too_much(allowed)
        return unpacker.decompress(payload, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise EnvelopeError(f"an envelope that zstd can't unpack: {error}") from error


def _unpack_untold(unpacker: zstandard.ZstdDecompressor, payload: bytes | memoryview, allowed: int) -> bytes:
    """Unpack a frame that does not tell its size: once to measure it, in small steps, and once to have it.

    None of the library's calls both stops at a size and sees what follows the frame. Our own writers tell the size.
    """
    size = 0
    with unpacker.stream_reader(payload) as reader:
        while step := reader.read(_MEASURED_STEP):
            size += len(step)
            if size > allowed:
                raise _too_much(allowed)
    stream = unpacker.decompressobj()
    data = stream.decompress(payload)
    if not stream.eof:
        raise EnvelopeError("an envelope whose zstd frame is cut off")
    if stream.unused_data:
        raise EnvelopeError(f"an envelope with {len(stream.unused_data)} bytes after its zstd frame")
    return data


def _too_much(allowed: int) -> EnvelopeError:
    return EnvelopeError(f"an envelope that unpacks to more than {allowed} bytes", limit=True)
