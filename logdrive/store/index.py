"""Where every segment's bytes lie in the log, and every writer's number: what is durable, in memory.

It is the log replayed, and nothing else: `Index.apply` is the only way in, for a start and for a commit alike. A byte range
costs 16 bytes here (one per append), a writer about 200.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from logdrive.record import ABSENT
from logdrive.store.entry import APPEND, SEAL, UPDATE, Entry, EntryHead


class SegmentInfo(NamedTuple):
    """What is durable of a segment: bytes [start, length), and how many events were said to be in them."""

    length: int
    start: int
    sealed: bool
    modified_ms: int
    events: int


class Extent(NamedTuple):
    """*length* bytes of a segment from *offset*, one append's data, which lie at *place* in the log."""

    offset: int
    place: int
    length: int


class ContradictionError(Exception):
    """An entry that can't follow what came before it."""


@dataclass(slots=True, eq=False)
class SegmentIndex:
    """One segment. *offsets* and *places* are columns of its extents, in order."""

    number: int
    name: str
    length: int = 0
    sealed: bool = False
    modified_ms: int = 0
    events: int = 0
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    places: "array[int]" = field(default_factory=lambda: array("q"))
    numbers: dict[bytes, int] = field(default_factory=dict)

    def info(self) -> SegmentInfo:
        """Return what is durable."""
        return SegmentInfo(self.length, 0, self.sealed, self.modified_ms, self.events)

    def extent_at(self, offset: int) -> Extent:
        """Return the extent that holds *offset*, which must be in [0, length)."""
        at = bisect_right(self.offsets, offset) - 1
        end = self.offsets[at + 1] if at + 1 < len(self.offsets) else self.length
        return Extent(self.offsets[at], self.places[at], end - self.offsets[at])


class Index:
    """All segments, by name and by the number that entries use."""

    def __init__(self) -> None:
        self.by_name: dict[str, SegmentIndex] = {}
        self.by_number: list[SegmentIndex] = []

    def add(self, segment: SegmentIndex) -> None:
        """Add the next segment. Raises `ContradictionError` where its name or number is not new."""
        if segment.number != len(self.by_number) or segment.name in self.by_name:
            raise ContradictionError(f"segment {segment.name!r} is created twice or out of turn")
        self.by_name[segment.name] = segment
        self.by_number.append(segment)

    def create(self, number: int, name: str, time_ms: int) -> None:
        """Take in a CREATE entry."""
        self.add(SegmentIndex(number, name, modified_ms=time_ms))

    def apply(self, change: Entry | EntryHead, place: int) -> SegmentIndex:
        """Take in any other entry, whose data lies at *place* of the log. Raises `ContradictionError` where it does not follow."""
        if change.segment >= len(self.by_number):
            raise ContradictionError(f"an entry of segment {change.segment}, of which there are {len(self.by_number)}")
        segment = self.by_number[change.segment]
        if segment.sealed:
            raise ContradictionError(f"an entry of segment {segment.name!r}, which is sealed")
        if change.kind in (APPEND, UPDATE):
            _advance(segment, change.writer, change.previous, change.number)
        if change.kind == APPEND and change.length:
            segment.offsets.append(segment.length)
            segment.places.append(place)
            segment.length += change.length
        segment.events += change.events
        segment.sealed = change.kind == SEAL
        segment.modified_ms = change.time_ms
        return segment


def _advance(segment: SegmentIndex, writer: bytes, previous: int, value: int) -> None:
    current = segment.numbers.get(writer, ABSENT)
    if current != previous:
        raise ContradictionError(f"a writer of segment {segment.name!r} goes on from {previous}, but its number is {current}")
    if value == ABSENT:
        segment.numbers.pop(writer, None)
    else:
        segment.numbers[writer] = value
