"""ReadSegment: what is there at once, the rest when it comes (specification, section 3, as section
0 corrects it).
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
_APPENDS: Final = 4096
"""So many are read for one answer, tens of ms: appends of single bytes would hold all others up for
many seconds.
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """One read to answer."""

    store: Store
    request: ReadSegment

    def now(self) -> Message | None:
        """Return the answer, reading up to 2 MiB; None where it has to wait for data.

        Raises `HangUpError` for offsets that can't be.
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

    def follow(self) -> None:
        """Take note that the read waits at its place: what is appended there next is kept in memory
        for it.
        """
        self.store.follow_tail(self.request.segment, self.request.offset)

    @property
    def ready(self) -> bool:
        """Whether a read that waits need not wait any longer: there is data, or the segment is
        sealed or gone.
        """
        info = self.store.info(self.request.segment)
        return info is None or info.sealed or info.length > self.request.offset

    def waited(self) -> Message:
        """Return the answer of a read that has waited, whatever for."""
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
        self.follow()
        limit = min(PRAVEGA_READ_BYTES, max(_LEAST_BYTES, self.request.suggested_length))
        try:
            data = self.store.read_parts(
                self.request.segment, self.request.offset, limit, most=_APPENDS
            )
        except StoreDamagedError as error:  # of this place only: the connection goes on
            return ErrorMessage(
                self.request.request_id, self.request.segment, str(error), UNSPECIFIED
            )
        size = sum(map(len, data))
        met_end = size < limit and self.request.offset + size == info.length
        return self._read(
            _sent(data, size),
            at_tail=waited or (met_end and not info.sealed),
            end_of_segment=met_end and info.sealed,
        )

    def _read(
        self, data: Part | tuple[Part, ...], *, at_tail: bool = False, end_of_segment: bool = False
    ) -> SegmentRead:
        request = self.request
        return SegmentRead(
            request.segment, request.offset, at_tail, end_of_segment, data, request.request_id
        )


def _sent(pieces: list[Part], size: int) -> Part | tuple[Part, ...]:
    """Return *pieces*, *size* bytes, to be sent as they are; joined where they would keep more than
    twice as much in memory meanwhile.
    """
    kept = sum(
        len(cast("bytes", piece.obj)) if isinstance(piece, memoryview) else len(piece)
        for piece in pieces
    )
    return tuple(pieces) if kept <= 2 * size else b"".join(pieces)
