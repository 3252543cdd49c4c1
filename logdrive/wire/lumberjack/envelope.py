"""The payload of a C frame: packing, and unpacking in pieces, so that memory can be asked for
first.

Lumberjack knows zlib (RFC 1950) only; `logdrive/1` takes zstd (RFC 8878) too. The two can't be
mistaken: zstd's first two bytes fail zlib's header check.

Nothing is given before the whole payload was found good: its size within the limits, its checksum
right. Up to 8 MiB are kept while that is looked at, and given in one piece. What is longer is
unpacked twice: once to look, keeping nothing, and once to give it piece by piece (adr/0019).
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, cast

import zstandard
from isal import isal_zlib

from logdrive.model.units import KIB, MIB
from logdrive.wire.lumberjack.limits import LumberjackLimits

Codec = Literal["zlib", "zstd"]

ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_RATIO_FREE: Final = 64 * KIB  # so much may come out whatever went in
_STEP: Final = 2 * MIB  # unpacked at a time
_FED: Final = 1 * MIB  # of what is packed, at a time: what a step leaves of it is copied
KEPT: Final = 8 * MIB
"""So much is kept while it is unpacked and given in one piece: any `logdrive/1` envelope is."""
_MEASURED_STEP: Final = 64 * KIB  # unpacked at a time where only the size is asked for
# its type stub takes the class for an instance
_InflateError: Final = cast("type[Exception]", isal_zlib.error)


class EnvelopeError(Exception):
    """The payload can't be unpacked; *limit* tells whether a limit forbade it.

    Never leaves this package.
    """

    def __init__(self, reason: str, *, limit: bool = False) -> None:
        super().__init__(reason)
        self.limit = limit


def pack(payload: bytes | Sequence[bytes], codec: Codec = "zlib", level: int = 1) -> bytes:
    """Return *payload*, or its parts one after the other, as the payload of a C frame.

    Level 1 is the fast one of both: isal's for zlib (0 to 3), zstd's own. Releases the interpreter
    while it works.
    """
    data = payload if isinstance(payload, bytes) else b"".join(payload)
    if codec == "zlib":
        return bytes(isal_zlib.compress(data, level))
    return zstandard.ZstdCompressor(level=level).compress(data)


def unpack(
    payload: bytes | memoryview, limits: LumberjackLimits, *, zstd: bool, exact: bool
) -> bytes:
    """Return all that *payload* holds, as `Unpacking` gives it. Raises `EnvelopeError`."""
    return b"".join(Unpacking(payload, limits, zstd=zstd, exact=exact).pieces())


class Unpacking:
    """The way of one payload out of its envelope, in steps of at most 2 MiB of zlib or one of zstd.

    With *exact* nothing may follow the stream's end (`logdrive/1`, rule D1); without, what follows
    is skipped, as deployed readers do, and a payload of no bytes holds nothing.
    """

    def __init__(
        self, payload: bytes | memoryview, limits: LumberjackLimits, *, zstd: bool, exact: bool
    ) -> None:
        self._payload, self._exact = payload, exact
        self._allowed = min(limits.inflated, max(_RATIO_FREE, limits.ratio * len(payload)))
        self._window = limits.zstd_window if zstd and payload[:4] == ZSTD_MAGIC else None
        self.held = 0
        """Bytes unpacked that are kept here, between one step and the next."""

    def pieces(self) -> Iterator[bytes]:
        """Give what the payload holds, b"" after a step that was only a look.

        Raises `EnvelopeError`, having written at most one byte more than is allowed, and before
        any piece that is not empty.
        """
        if not self._payload and not self._exact:
            return
        if self._window is not None:
            yield _unpack_zstd(self._payload, self._allowed, self._window)
            return
        kept: list[bytes] | None = []
        for step in self._inflated():
            if kept is not None and self.held + len(step) <= KEPT:
                kept.append(step)
                self.held += len(step)
            else:  # too long to be kept: this is only a look from here on
                kept, self.held = None, 0
            yield b""
        if kept is None:
            yield from self._inflated()
        else:
            self.held = 0
            yield kept[0] if len(kept) == 1 else b"".join(kept)

    def _inflated(self) -> Iterator[bytes]:
        """Give what zlib unpacks, a step at a time."""
        inflater, view = isal_zlib.decompressobj(), memoryview(self._payload)
        source: bytes | memoryview = b""
        at, room = 0, self._allowed + 1  # one byte more tells that there is more
        try:
            while not inflater.eof:
                if not source:
                    source = view[at : at + _FED]
                    at += len(source)
                step = inflater.decompress(source, min(_STEP, room))
                if not step and not source:
                    raise EnvelopeError("an envelope whose zlib stream is cut off")
                room -= len(step)
                if not room:
                    raise _too_much(self._allowed)
                source = inflater.unconsumed_tail
                yield step
        except _InflateError as error:
            raise EnvelopeError(f"an envelope that does not inflate: {error}") from error
        if self._exact and (inflater.unused_data or at < len(view)):
            raise EnvelopeError("an envelope with bytes after its zlib stream")


def _unpack_zstd(payload: bytes | memoryview, allowed: int, window: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=window)
    try:
        head = zstandard.get_frame_parameters(payload)
        if head.window_size > window:
            raise EnvelopeError(
                f"an envelope whose zstd window of {head.window_size} bytes is over {window}",
                limit=True,
            )
        if head.content_size == 0:
            raise EnvelopeError("an envelope that holds nothing")
        if head.content_size == zstandard.CONTENTSIZE_UNKNOWN:
            return _unpack_untold(unpacker, payload, allowed)
        if head.content_size > allowed:
            raise _too_much(allowed)
        return unpacker.decompress(payload, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise EnvelopeError(f"an envelope that zstd can't unpack: {error}") from error


def _unpack_untold(
    unpacker: zstandard.ZstdDecompressor, payload: bytes | memoryview, allowed: int
) -> bytes:
    """Unpack a frame that does not tell its size: once to measure it, in small steps, and once to
    have it.

    None of the library's calls both stops at a size and sees what follows the frame. Our own
    writers tell the size.
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
