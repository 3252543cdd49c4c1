"""ReadSegment: answered at once if there is data, else after a wait.

See docs/protocols/pravega.md#reading.
"""

from dataclasses import dataclass
from typing import Final, cast

from logdrive.model.framing import Part
from logdrive.services.pravega.server.segments.appending import HangUpError
from logdrive.store.engine import Store
from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.index import SegmentInfo
from logdrive.wire.pravega.control import (
    UNSPECIFIED,
    ErrorMessage,
    NoSuchSegment,
    SegmentIsSealed,
    SegmentIsTruncated,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import PRAVEGA_READ_BYTES
from logdrive.wire.pravega.segments import ReadSegment, SegmentRead

_LEAST_BYTES: Final = 8
"""Read at least, whatever the client suggests: an event's head."""
_MAX_APPENDS: Final = 4096
"""Limit on the appends read for one answer: tens of ms.

Without it, a segment of one-byte appends would delay other connections for many seconds.
"""


@dataclass(frozen=True, slots=True)
class PendingRead:
    """A ReadSegment to answer: first `answer_now`; if it must wait, `answer_after_wait`."""

    store: Store
    request: ReadSegment

    def answer_now(self) -> Message | None:
        """Return the answer, with up to 2 MiB of data; None where the read must wait for data.

        Raises `HangUpError` for an offset that the segment can't have.
        """
        request = self.request
        info = self.store.info(request.segment)
        if info is None:
            return NoSuchSegment(request.request_id, request.segment, "", request.offset)
        if request.offset < 0 or (info.sealed and request.offset > info.length):
            raise HangUpError(f"a read at {request.offset} of {request.segment}")
        if request.offset < info.start:
            return SegmentIsTruncated(
                request.request_id, request.segment, info.start, "", request.offset
            )
        if request.offset < info.length:
            return self._data(info, waited=False)
        return self._read(b"", end_of_segment=True) if info.sealed else None

    def follow_tail(self) -> None:
        """Ask the store to keep the next appends at this offset in memory, for a read to come."""
        self.store.follow_tail(self.request.segment, self.request.offset)

    @property
    def has_answer(self) -> bool:
        """True once the wait is over: there is data, or the segment is sealed or deleted."""
        info = self.store.info(self.request.segment)
        return info is None or info.sealed or info.length > self.request.offset

    def answer_after_wait(self) -> Message:
        """Return the answer after a wait: data, the segment's end, or nothing at its tail."""
        request = self.request
        info = self.store.info(request.segment)
        if info is None:
            return NoSuchSegment(request.request_id, request.segment, "", request.offset)
        if request.offset < info.start:
            return SegmentIsTruncated(
                request.request_id, request.segment, info.start, "", request.offset
            )
        if request.offset < info.length:
            return self._data(info, waited=True)
        if info.sealed:
            return SegmentIsSealed(request.request_id, request.segment, "", request.offset)
        return self._read(b"", at_tail=True)

    def _data(self, info: SegmentInfo, *, waited: bool) -> SegmentRead | ErrorMessage:
        self.follow_tail()
        limit = min(PRAVEGA_READ_BYTES, max(_LEAST_BYTES, self.request.suggested_length))
        try:
            data = self.store.read_parts(
                self.request.segment, self.request.offset, limit, most=_MAX_APPENDS
            )
        except StoreDamagedError as error:
            # only this offset can't be read: the connection goes on
            return ErrorMessage(
                self.request.request_id, self.request.segment, str(error), UNSPECIFIED
            )
        size = sum(map(len, data))
        reached_end = size < limit and self.request.offset + size == info.length
        return self._read(
            _parts_to_send(data, size),
            at_tail=waited or (reached_end and not info.sealed),
            end_of_segment=reached_end and info.sealed,
        )

    def _read(
        self, data: Part | tuple[Part, ...], *, at_tail: bool = False, end_of_segment: bool = False
    ) -> SegmentRead:
        request = self.request
        return SegmentRead(
            request.segment, request.offset, at_tail, end_of_segment, data, request.request_id
        )


def _parts_to_send(parts: list[Part], size: int) -> Part | tuple[Part, ...]:
    """Return *parts*, *size* bytes together, as they are or joined.

    They are joined where the buffers that they refer to keep more than twice *size* in memory.
    """
    kept = sum(
        len(cast("bytes", part.obj)) if isinstance(part, memoryview) else len(part)
        for part in parts
    )
    return tuple(parts) if kept <= 2 * size else b"".join(parts)
