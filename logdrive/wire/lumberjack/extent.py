"""The length of a frame, from its header. Each length in it is compared with its limit before the
next byte is awaited.
"""

from collections.abc import Callable
from typing import Final

from logdrive.errors import ProtocolError
from logdrive.packs.pack import PACK_HEAD
from logdrive.wire.lumberjack.frames import (
    EVENT,
    LENGTH,
    POSITION,
    REFUSAL,
    RUN,
    SHORT,
    SOURCE,
    RefusalCode,
)
from logdrive.wire.lumberjack.limits import LumberjackLimits

KIND_HEAD: Final = 2
"""Bytes of a frame's version and type."""

_Bytes = bytes | bytearray


class FrameMeter:
    """Measures the frames of one stream.

    It remembers its place inside a half-read D frame, so that no byte of one is looked at twice.
    """

    __slots__ = ("_items", "_limits", "_reach")

    def __init__(self, limits: LumberjackLimits) -> None:
        self._limits = limits  # what a peer may send
        self._items = 0  # keys and values that the D frame at hand lacks
        self._reach = 0  # bytes of it that are measured; 0 between frames

    def least_length(self, data: _Bytes, at: int, offset: int) -> int:
        """Return the least length of the frame at *at*, from the bytes that are there.

        The frame is whole if *data* has that many bytes from *at* on; otherwise ask again once it
        has. There must be `KIND_HEAD` bytes, of a known type. Raises `ProtocolError` with *offset*
        if the frame is over a limit.
        """
        return _MEASURES[data[at + 1]](self, data, at, len(data) - at, offset)

    def _window(self, data: _Bytes, at: int, have: int, offset: int) -> int:
        if have >= SHORT.size:
            self._check(
                "a window of {} events", SHORT.unpack_from(data, at)[1], self._limits.window, offset
            )
        return SHORT.size

    def _envelope(self, data: _Bytes, at: int, have: int, offset: int) -> int:
        if have < SHORT.size:
            return SHORT.size
        return SHORT.size + self._check(
            "an envelope of {} bytes", SHORT.unpack_from(data, at)[1], self._limits.envelope, offset
        )

    def _json(self, data: _Bytes, at: int, have: int, offset: int) -> int:
        if have < EVENT.size:
            return EVENT.size
        length = self._check(
            "an event of {} bytes", EVENT.unpack_from(data, at)[2], self._limits.payload, offset
        )
        if length == 0:  # no event; deployed readers refuse it, too
            raise ProtocolError("a J frame without JSON", offset=offset)
        return EVENT.size + length

    def _pack(self, data: _Bytes, at: int, have: int, offset: int) -> int:
        if have < EVENT.size:
            return EVENT.size
        length = self._check(
            "a pack of {} bytes", EVENT.unpack_from(data, at)[2], self._limits.payload, offset
        )
        if length <= PACK_HEAD:
            raise ProtocolError(f"a pack of {length} bytes", offset=offset)
        return EVENT.size + length

    def _source(self, data: _Bytes, at: int, have: int, offset: int) -> int:
        if have < SOURCE.size:
            return SOURCE.size
        return SOURCE.size + self._check(
            "attributes of {} bytes",
            SOURCE.unpack_from(data, at)[3],
            self._limits.attributes,
            offset,
        )

    def _refusal(self, data: _Bytes, at: int, have: int, offset: int) -> int:
        if have < REFUSAL.size:
            return REFUSAL.size
        return REFUSAL.size + self._check(
            "a refusal of {} bytes",
            REFUSAL.unpack_from(data, at)[3],
            self._limits.error_text,
            offset,
        )

    def _data(self, data: _Bytes, at: int, have: int, offset: int) -> int:
        if self._reach == 0:
            if have < EVENT.size:
                return EVENT.size
            pairs = self._check(
                "an event of {} pairs", EVENT.unpack_from(data, at)[2], self._limits.pairs, offset
            )
            self._items, self._reach = 2 * pairs, EVENT.size

        # go from length to length, as far as the bytes reach
        items, reach, wanted = self._items, self._reach, 0
        length_at, limits = LENGTH.unpack_from, self._limits
        while items and reach <= have:
            if have - reach < LENGTH.size:
                wanted = LENGTH.size
                break
            # compared here, as a call of `_check` for each length would cost more than the loop
            if (length := length_at(data, at + reach)[0]) > limits.item:
                self._check("a key or value of {} bytes", length, limits.item, offset)
            reach += LENGTH.size + length
            items -= 1
            if reach - EVENT.size > limits.payload:
                self._check("an event of {} bytes", reach - EVENT.size, limits.payload, offset)

        self._items, self._reach = items, 0 if reach + wanted <= have else reach
        return reach + wanted

    def _check(self, what: str, size: int, limit: int, offset: int) -> int:
        if size > limit:
            raise ProtocolError(
                f"{what.format(size)}, over {limit},", offset=offset, code=RefusalCode.LIMIT
            )
        return size


_MEASURES: Final[dict[int, Callable[[FrameMeter, _Bytes, int, int, int], int]]] = {
    ord("W"): FrameMeter._window,
    ord("A"): lambda extent, data, at, have, offset: SHORT.size,
    ord("C"): FrameMeter._envelope,
    ord("J"): FrameMeter._json,
    ord("Z"): FrameMeter._pack,
    ord("D"): FrameMeter._data,
    ord("S"): FrameMeter._source,
    ord("P"): lambda extent, data, at, have, offset: POSITION.size,
    ord("B"): lambda extent, data, at, have, offset: RUN.size,
    ord("E"): FrameMeter._refusal,
}
