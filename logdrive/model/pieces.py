"""Events of foreign peers that no record can hold, in pieces: their marks, and which are one event.

A piece is a batch of its own with one record, the event's bytes from `start` to `end`; the mark in
its header says so (rule R6 of `docs/protocols/delivery.md`). Pieces of one event stand in one
segment and in order, though perhaps not next to each other. An event of which the last piece is
there is whole. One that lacks it was never acknowledged: its writer sends it again, as another.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from logdrive.model.batch import BatchHeader
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import EVENT_BYTES, PIECES_WITHIN, RECORD_BYTES

ByteRange = tuple[int, int]
"""Where something begins and ends in its segment."""

DEAD_LETTER = "dead_letter"
"""`reason` in the mark of a batch without records: it stands for an event in the dead letters."""

DEAD_STREAM = "-dead"
"""What the name of the stream with a stream's dead letters has more than the stream's."""

_NULL = b"null"


class EventPiece(msgspec.Struct, frozen=True):
    """The mark of a piece: bytes [*start*, *end*) of *event*, which has *bytes* of them."""

    event: str
    start: int
    end: int
    bytes: int

    @property
    def last(self) -> bool:
        """Whether the event is whole with it."""
        return self.end == self.bytes

    def encode(self) -> msgspec.Raw:
        """Return the mark as it stands in a header."""
        return msgspec.Raw(msgspec.json.encode(self))


class Letter(msgspec.Struct, frozen=True):
    """The mark of an event of *end* bytes that is the dead letter *letter*."""

    reason: str
    end: int
    letter: str

    def encode(self) -> msgspec.Raw:
        """Return the mark as it stands in a header."""
        return msgspec.Raw(msgspec.json.encode(self))


_piece = msgspec.json.Decoder(EventPiece).decode
_letter = msgspec.json.Decoder(Letter).decode


def cuts(size: int) -> Iterator[ByteRange]:
    """Yield the bytes that each piece of an event of *size* bytes has."""
    for start in range(0, size, RECORD_BYTES):
        yield start, min(start + RECORD_BYTES, size)


def piece_of(header: BatchHeader) -> EventPiece | None:
    """Return what *header*, of a foreign batch, says of its record as a piece; None where it is
    none.

    Raises ValueError where its mark is one that no receiver writes.
    """
    if bytes(header.mark) in (b"", _NULL):
        return None
    try:
        piece = _piece(header.mark)
    except msgspec.DecodeError:
        _check_letter(header)
        return None
    if not 0 <= piece.start < piece.end <= piece.bytes <= EVENT_BYTES:
        raise ValueError("a piece outside of its event")
    if (header.records, header.size) != (1, EVENT_HEAD + piece.end - piece.start):
        raise ValueError("a piece that is not its batch's only record")
    return piece


def _check_letter(header: BatchHeader) -> None:
    try:
        letter = _letter(header.mark)
    except msgspec.DecodeError as error:
        raise ValueError(f"a mark that can't be read: {error}") from error
    if letter.reason != DEAD_LETTER or header.size:
        raise ValueError("a mark of an unknown kind")


class WholeEvent(NamedTuple):
    """An event all of whose pieces are there: where its last one begins, where the others are.

    *extents* are of batches, headers included; those next to each other are one.
    """

    last: int
    extents: tuple[ByteRange, ...]


@dataclass(slots=True)
class _Begun:
    """An event whose last piece has not been met."""

    end: int
    extents: list[ByteRange]


@dataclass(slots=True)
class UnfinishedEvents:
    """The events of one segment that have begun, as a reader goes from header to header.

    An event whose first piece lies `PIECES_WITHIN` bytes back is given up.
    """

    _begun: dict[str, _Begun] = field(default_factory=dict)

    def meet(
        self, offset: int, following: int, event: str, start: int, end: int, *, last: bool
    ) -> WholeEvent | None:
        """Take the next piece, whose batch is [*offset*, *following*); return the event it ends.

        None too for a last piece whose others are not there: they were cut off, or lie too far
        back.
        """
        begun = self._begun.pop(event, None)
        if start == 0:
            begun = _Begun(0, [])
        if begun is None or begun.end != start or self._given_up(begun, offset):
            return None
        if last:
            return WholeEvent(offset, tuple(begun.extents))
        if begun.extents and begun.extents[-1][1] == offset:
            begun.extents[-1] = (begun.extents[-1][0], following)
        else:
            begun.extents.append((offset, following))
        begun.end = end
        self._begun[event] = begun
        return None

    def since(self, at: int) -> int:
        """Return where the oldest event begins that may still become whole behind *at*; else
        *at*.
        """
        firsts = [
            begun.extents[0][0] for begun in self._begun.values() if not self._given_up(begun, at)
        ]
        return min(firsts, default=at)

    def copy(self) -> "UnfinishedEvents":
        """Return one that goes on from here by itself."""
        return UnfinishedEvents(
            {event: _Begun(one.end, [*one.extents]) for event, one in self._begun.items()}
        )

    @staticmethod
    def _given_up(begun: _Begun, at: int) -> bool:
        return bool(begun.extents) and begun.extents[0][0] < at - PIECES_WITHIN
