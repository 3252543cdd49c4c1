"""Pieces: events of foreign peers that are longer than a record (rule R6).

A piece is a batch with one record, the event's bytes from `start` to `end`, as the mark in its
header says (`docs/protocols/delivery.md`). All pieces of an event are in one segment and in order,
perhaps with other batches between them. The event is whole if its last piece is there. An event
without its last piece was never acknowledged: its sender sends it again, as another event.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from logdrive.model.batch import BatchHeader
from logdrive.model.dead_letters import check_note
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import (
    EVENT_BYTES,
    PIECES_WITHIN,
    PIECES_WITHIN_RECORDS,
    RECORD_BYTES,
)
from logdrive.model.units import OffsetUnit

ByteRange = tuple[int, int]
"""Start and end offset of something in its segment."""

_NULL = b"null"


class EventPiece(msgspec.Struct, frozen=True):
    """The mark of a piece: bytes [*start*, *end*) of *event*, which has *bytes* bytes."""

    event: str  # id that all pieces of the event have in common
    start: int  # offset of the piece's first byte in the event
    end: int  # offset after its last byte
    bytes: int  # size of the whole event

    @property
    def last(self) -> bool:
        """True if this is the event's last piece."""
        return self.end == self.bytes

    def encode(self) -> msgspec.Raw:
        """Return the mark as JSON for a header."""
        return msgspec.Raw(msgspec.json.encode(self))


_piece = msgspec.json.Decoder(EventPiece).decode


def piece_ranges(size: int) -> Iterator[ByteRange]:
    """Yield the byte range of each piece of an event of *size* bytes."""
    for start in range(0, size, RECORD_BYTES):
        yield start, min(start + RECORD_BYTES, size)


def pieces_within(unit: OffsetUnit) -> int:
    """Return the distance from an event's first piece to its last, where offsets count *unit*."""
    return PIECES_WITHIN_RECORDS if unit == "records" else PIECES_WITHIN


def piece_in_header(header: BatchHeader) -> EventPiece | None:
    """Return the piece that *header*, of a foreign batch, describes, or None for whole events.

    Raises ValueError for a mark that no receiver writes.
    """
    if bytes(header.mark) in (b"", _NULL):
        return None
    try:
        piece = _piece(header.mark)
    # a note about a dead letter has another mark, and any other mark is an error
    except msgspec.DecodeError:
        check_note(header)
        return None
    if not 0 <= piece.start < piece.end <= piece.bytes <= EVENT_BYTES:
        raise ValueError("a piece outside of its event")
    if (header.records, header.size) != (1, EVENT_HEAD + piece.end - piece.start):
        raise ValueError("a piece that is not its batch's only record")
    return piece


class WholeEvent(NamedTuple):
    """An event with all of its pieces: the offset of its last piece, and where the others are."""

    last: int  # offset of the last piece's batch in the segment
    extents: tuple[ByteRange, ...]  # ranges of the other batches; adjacent ones share one


@dataclass(slots=True)
class _Begun:
    """An event whose last piece was not read yet."""

    end: int  # bytes of the event read so far
    extents: list[ByteRange]  # ranges of their batches, headers included


@dataclass(slots=True)
class UnfinishedEvents:
    """The unfinished events of one segment, while a reader goes from header to header.

    An event whose first piece lies more than *within* back, in what offsets count, is given up.
    """

    within: int = PIECES_WITHIN
    _begun: dict[str, _Begun] = field(default_factory=dict)  # by the event's id

    def add_piece(
        self, offset: int, following: int, event: str, start: int, end: int, *, last: bool
    ) -> WholeEvent | None:
        """Add the next piece, of the batch [*offset*, *following*); return an event that it ends.

        None if the event goes on, and for a last piece whose other pieces are missing: they were
        cut off, or lie too far back.
        """
        begun = self._begun.pop(event, None)
        if start == 0:  # also an event that begins again
            begun = _Begun(0, [])

        # earlier pieces are missing, or too far back: the event can't become whole
        if begun is None or begun.end != start or self._given_up(begun, offset):
            return None
        if last:
            return WholeEvent(offset, tuple(begun.extents))

        # this batch follows the previous piece's batch: extend its range
        if begun.extents and begun.extents[-1][1] == offset:
            begun.extents[-1] = (begun.extents[-1][0], following)
        else:
            begun.extents.append((offset, following))
        begun.end = end
        self._begun[event] = begun
        return None

    def oldest_begin(self, at: int) -> int:
        """Return where the oldest event begins that may become whole after *at*; else *at*."""
        firsts = [
            begun.extents[0][0] for begun in self._begun.values() if not self._given_up(begun, at)
        ]
        return min(firsts, default=at)

    def copy(self) -> "UnfinishedEvents":
        """Return an independent copy."""
        return UnfinishedEvents(
            self.within,
            {event: _Begun(begun.end, [*begun.extents]) for event, begun in self._begun.items()},
        )

    def _given_up(self, begun: _Begun, at: int) -> bool:
        return bool(begun.extents) and begun.extents[0][0] < at - self.within
