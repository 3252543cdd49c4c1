"""The payload of a C frame: packing, and unpacking in parts, so that memory is asked for first.

Lumberjack has zlib (RFC 1950) only; `logdrive/1` takes zstd (RFC 8878), too. The two can't be
confused: zstd's first two bytes fail zlib's header check.

Nothing is returned before the whole payload is known to be good: its size within the limits, its
checksum right. Up to 8 MiB are kept during this check and returned as one part. A longer payload is
unpacked twice: once for the check, keeping nothing, and once part by part (adr/0019).
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import zstandard
from isal import isal_zlib

from logdrive.kernel.loops import adler32
from logdrive.model.framing import Part
from logdrive.model.units import KIB, MIB
from logdrive.packs import zstd
from logdrive.packs.pack import INFLATE_ERROR
from logdrive.wire.lumberjack.limits import LumberjackLimits

Codec = Literal["zlib", "zstd"]

_WINDOW_BITS: Final = 15
_ZLIB_HEAD: Final = b"\x78\x5e"
"""Deflate with a window of 32 KiB, a fast level, no dictionary (RFC 1950), as isal writes it."""
_CHECK_BYTES: Final = 4  # Adler-32, at the end of a zlib stream
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_RATIO_FREE: Final = 64 * KIB  # unpacked bytes allowed however small the payload is
_STEP: Final = 2 * MIB  # bytes unpacked at a time
_FED: Final = 1 * MIB  # packed bytes fed at a time; zlib copies what a step leaves of them
KEPT: Final = 8 * MIB
"""Limit on what is kept and returned as one part, as every `logdrive/1` envelope is."""
_LARGE_PART: Final = 64 * KIB
"""Size of the parts, on average, from which feeding each to zlib costs less than joining them."""
_MEASURED_STEP: Final = 64 * KIB  # bytes unpacked at a time to find only the size


class EnvelopeError(Exception):
    """The payload can't be unpacked; *limit* is True if it is over a limit.

    `FrameReader` converts it to `ProtocolError`.
    """

    def __init__(self, reason: str, *, limit: bool = False) -> None:
        super().__init__(reason)
        self.limit = limit


def pack(payload: bytes | Sequence[Part], codec: Codec = "zlib", level: int = 1) -> bytes:
    """Return *payload*, or its parts joined, packed as the payload of a C frame.

    Level 1 is the fast one of both codecs: isal's for zlib (0 to 3), and zstd's own. The
    interpreter's lock is released meanwhile.
    """
    if (
        codec == "zlib"
        and not isinstance(payload, bytes)
        and sum(map(len, payload)) >= len(payload) * _LARGE_PART
    ):
        return _deflate(payload, level)
    data = payload if isinstance(payload, bytes) else b"".join(payload)
    if codec == "zlib":
        return bytes(isal_zlib.compress(data, level))
    return zstd.compress(data, level)


def _deflate(parts: Sequence[Part], level: int) -> bytes:
    """Return *parts* as one zlib stream; they are not copied before."""
    # isal's own check of the parts would take a seventh of the time
    deflater = isal_zlib.compressobj(level, isal_zlib.DEFLATED, -_WINDOW_BITS)
    packed, check = [_ZLIB_HEAD], 1
    for part in parts:
        packed.append(deflater.compress(part))
        check = adler32(part, check)
    return b"".join((*packed, deflater.flush(), check.to_bytes(4, "big")))


def unpack(
    payload: bytes | memoryview, limits: LumberjackLimits, *, zstd: bool, exact: bool
) -> bytes:
    """Return all that *payload* holds; see `Unpacking`. Raises `EnvelopeError`."""
    return b"".join(Unpacking(payload, limits, zstd=zstd, exact=exact).parts())


class Unpacking:
    """Unpacks one payload, in steps of at most 2 MiB for zlib, and in one step for zstd.

    With *exact* nothing may follow the end of the stream (`logdrive/1`, rule D1). Without it, as
    deployed readers do, what follows is skipped, and an empty payload holds nothing.
    """

    def __init__(
        self, payload: bytes | memoryview, limits: LumberjackLimits, *, zstd: bool, exact: bool
    ) -> None:
        self._payload = payload
        self._exact = exact  # nothing may follow the end of the stream
        # limit on the unpacked bytes
        self._allowed = min(limits.inflated, max(_RATIO_FREE, limits.ratio * len(payload)))
        # limit on the history of a zstd frame, in bytes; None for a zlib stream
        self._window = limits.zstd_window if zstd and payload[:4] == ZSTD_MAGIC else None
        self.held = 0
        """Unpacked bytes that are kept here between two steps."""

    def parts(self) -> Iterator[bytes]:
        """Yield what the payload holds, and b"" after each step of the check.

        Raises `EnvelopeError`, having unpacked at most one byte more than is allowed, before the
        first part that is not empty.
        """
        if not self._payload and not self._exact:
            return
        # never more than 8 MiB, so it is unpacked in one step
        if self._window is not None:
            yield _unpack_zstd(self._payload, self._allowed, self._window)
            return

        kept: list[bytes] | None = []
        for step in self._inflated():
            if kept is not None and self.held + len(step) <= KEPT:
                kept.append(step)
                self.held += len(step)
            else:  # too long to be kept: from here on, only checked
                kept, self.held = None, 0
            yield b""

        # the check is passed: a payload that was not kept is unpacked once more
        if kept is None:
            yield from self._inflated()
        else:
            self.held = 0
            yield kept[0] if len(kept) == 1 else b"".join(kept)

    def _inflated(self) -> Iterator[bytes]:
        """Yield what zlib unpacks, a step at a time."""
        view = memoryview(self._payload)
        _check_head(view[: len(_ZLIB_HEAD)])
        # isal's own check of what it unpacks would take a fifth of the time
        inflater, check = isal_zlib.decompressobj(-_WINDOW_BITS), 1
        source: bytes | memoryview = b""
        at, room = len(_ZLIB_HEAD), self._allowed + 1  # one more byte shows that there is more
        try:
            while not inflater.eof:
                if not source:
                    source = view[at : at + _FED]
                    at += len(source)
                step = inflater.decompress(source, min(_STEP, room))
                # no input is left, and the stream has not ended
                if not step and not source:
                    raise _cut_off()
                room -= len(step)
                if not room:
                    raise _too_much(self._allowed)
                check = adler32(step, check)
                source = inflater.unconsumed_tail
                yield step
        except INFLATE_ERROR as error:
            raise _not_inflated(str(error)) from error

        rest = len(inflater.unused_data) + len(view) - at
        self._check_end(view[len(view) - rest :], check)

    def _check_end(self, rest: memoryview, check: int) -> None:
        """Raise `EnvelopeError` unless *rest*, which follows deflate's stream, begins with *check*,
        and ends there if it has to.
        """
        if len(rest) < _CHECK_BYTES:
            raise _cut_off()
        if int.from_bytes(rest[:_CHECK_BYTES], "big") != check:
            raise _not_inflated("its checksum is another one")
        if self._exact and len(rest) > _CHECK_BYTES:
            raise EnvelopeError("an envelope with bytes after its zlib stream")


def _check_head(head: memoryview) -> None:
    """Raise `EnvelopeError` unless *head* begins a zlib stream, without a dictionary (RFC 1950)."""
    if not head:
        raise _cut_off()
    method, window = head[0] & 0x0F, head[0] >> 4
    if method != 8 or window > 7:
        raise _not_inflated("it begins no zlib stream")
    if len(head) < len(_ZLIB_HEAD):
        raise _cut_off()
    if int.from_bytes(head, "big") % 31:
        raise _not_inflated("the check of its header is wrong")
    if head[1] & 0x20:
        raise _not_inflated("it asks for a dictionary")


def _cut_off() -> EnvelopeError:
    return EnvelopeError("an envelope whose zlib stream is cut off")


def _not_inflated(reason: str) -> EnvelopeError:
    return EnvelopeError(f"an envelope that does not inflate: {reason}")


def _unpack_zstd(payload: bytes | memoryview, allowed: int, window: int) -> bytes:
    try:
        head = zstandard.get_frame_parameters(payload)
        if head.window_size > window:
            raise EnvelopeError(
                f"an envelope whose zstd window of {head.window_size} bytes is over {window}",
                limit=True,
            )
        if head.content_size == 0:
            raise EnvelopeError("an envelope that holds nothing")
        # the size must be known before memory is taken for it
        if head.content_size == zstandard.CONTENTSIZE_UNKNOWN:
            unpacker = zstandard.ZstdDecompressor(max_window_size=window)
            return _unpack_unsized(unpacker, payload, allowed)
        if head.content_size > allowed:
            raise _too_much(allowed)
        return zstd.decompress(payload, window)
    except zstandard.ZstdError as error:
        raise EnvelopeError(f"an envelope that zstd can't unpack: {error}") from error


def _unpack_unsized(
    unpacker: zstandard.ZstdDecompressor, payload: bytes | memoryview, allowed: int
) -> bytes:
    """Unpack a frame without its size in the header: once to measure it, in small steps, and once
    for good.

    No call of the library both stops at a size and sees what follows the frame. Our own writers
    write the size.
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
        raise EnvelopeError(
            f"an envelope with {len(stream.unused_data)} bytes after its zstd frame"
        )
    return data


def _too_much(allowed: int) -> EnvelopeError:
    return EnvelopeError(f"an envelope that unpacks to more than {allowed} bytes", limit=True)
