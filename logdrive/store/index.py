"""Where every segment's bytes lie in the log, and every writer's number: what is durable, in memory.

It is the log replayed, and nothing else: `Index.apply` is the only way in, for a start and for a commit alike. A byte range
costs 16 bytes here (one per append), a writer about 200.
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from logdrive.record import ABSENT
from logdrive.store.entry import APPEND, COPY, DELETE, MERGE, SEAL, TRUNCATE, UPDATE, Entry, EntryHead, decode_changes
from logdrive.store.files import LogFiles
from logdrive.store.readers import is_reader_key


class SegmentInfo(NamedTuple):
    """What is durable of a segment: bytes [start, length), and how many events were said to be appended to it."""

    length: int
    start: int
    sealed: bool
    modified_ms: int
    events: int


class Appended(NamedTuple):
    """One append: the segment's bytes [offset, offset + length), and when it came (ms since 1970)."""

    offset: int
    length: int
    time_ms: int


class Extent(NamedTuple):
    """*length* bytes of a segment from *offset*, one append's data, which lie at *place* in the log."""

    offset: int
    place: int
    length: int


class ContradictionError(Exception):
    """An entry that can't follow what came before it."""


@dataclass(slots=True, eq=False)
class SegmentIndex:
    """One segment. *offsets* and *places* are columns of its extents, in order; the first one holds *start*."""

    number: int
    name: str
    length: int = 0
    start: int = 0
    sealed: bool = False
    modified_ms: int = 0
    events: int = 0
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    places: "array[int]" = field(default_factory=lambda: array("q"))
    numbers: dict[bytes, int] = field(default_factory=dict)

    def info(self) -> SegmentInfo:
        """Return what is durable."""
        return SegmentInfo(self.length, self.start, self.sealed, self.modified_ms, self.events)

    def extent_at(self, offset: int) -> Extent:
        """Return the extent that holds *offset*, which must be in [start, length)."""
        return self.extent(bisect_right(self.offsets, offset) - 1)

    def row_of(self, offset: int) -> int | None:
        """Return the row of the extent that begins at *offset*, None where there is none."""
        at = bisect_left(self.offsets, offset)
        return at if at < len(self.offsets) and self.offsets[at] == offset else None

    def extent(self, at: int) -> Extent:
        """Return the extent in row *at*."""
        end = self.offsets[at + 1] if at + 1 < len(self.offsets) else self.length
        return Extent(self.offsets[at], self.places[at], end - self.offsets[at])


class Index:
    """All segments, by name and by the number that entries use. *next_number* is the next segment's; *files* are told what lies in them."""

    def __init__(self, files: LogFiles) -> None:
        self.files = files
        self.by_name: dict[str, SegmentIndex] = {}
        self.by_number: dict[int, SegmentIndex] = {}
        self.next_number = 0

    def add(self, segment: SegmentIndex) -> None:
        """Add a segment. Raises `ContradictionError` where its name or number is not new."""
        if segment.number < self.next_number or segment.name in self.by_name:
            raise ContradictionError(f"segment {segment.name!r} is created twice or out of turn")
        self.by_name[segment.name] = segment
        self.by_number[segment.number] = segment
        self.next_number = segment.number + 1

    def create(self, number: int, name: str, time_ms: int) -> None:
        """Take in a CREATE entry."""
        if number != self.next_number:
            raise ContradictionError(f"segment {name!r} is created out of turn")
        self.add(SegmentIndex(number, name, modified_ms=time_ms))

    def apply(self, change: Entry | EntryHead, place: int, data: bytes | memoryview = b"") -> None:
        """Take in any other entry, whose data lies at *place* of the log; a MERGE needs the *data* itself.

        Raises `ContradictionError` where it does not follow.
        """
        if change.kind == COPY:
            self._move(change, place)
            return
        segment = self._segment(change.segment)
        if change.kind == DELETE:
            self._remove(segment)
            return
        if change.kind == TRUNCATE:
            self._truncate(segment, change.previous, change.number)
        elif segment.sealed and not (change.kind == UPDATE and is_reader_key(change.writer)):
            raise ContradictionError(f"an entry of segment {segment.name!r}, which is sealed")
        elif change.kind == MERGE:
            self._merge(segment, change.previous, change.number, data)
        elif change.kind == SEAL:
            segment.sealed = True
        else:
            self._append(segment, change, place)
        segment.modified_ms = change.time_ms

    def _segment(self, number: int) -> SegmentIndex:
        segment = self.by_number.get(number)
        if segment is None:
            raise ContradictionError(f"an entry of segment {number}, which there is not")
        return segment

    def _append(self, segment: SegmentIndex, change: Entry | EntryHead, place: int) -> None:
        if change.kind not in (APPEND, UPDATE):
            raise ContradictionError(f"an entry of kind {change.kind}, which is not one of a segment's")
        _advance(segment, change.writer, change.previous, change.number)
        if change.kind == APPEND and change.length:
            segment.offsets.append(segment.length)
            segment.places.append(place)
            segment.length += change.length
            self.files.gain(place, change.length)
        segment.events += change.events

    def _truncate(self, segment: SegmentIndex, previous: int, start: int) -> None:
        if previous != segment.start or not previous <= start <= segment.length:
            raise ContradictionError(f"segment {segment.name!r} has [{segment.start}, {segment.length}), cut from {previous} to {start}")
        segment.start = start
        gone = len(segment.offsets) if start == segment.length else max(0, bisect_right(segment.offsets, start) - 1)
        self._lose(segment, gone)
        del segment.offsets[:gone]
        del segment.places[:gone]

    def _merge(self, target: SegmentIndex, length: int, number: int, data: bytes | memoryview) -> None:
        source = self._segment(number)
        if length != target.length or source is target or source.start:
            raise ContradictionError(f"segment {source.name!r} can't be merged into {target.name!r} at {length}")
        try:
            changes = decode_changes(data)
        except ValueError as error:
            raise ContradictionError(f"{source.name!r} is merged with {error}") from error
        for change in changes:
            _advance(target, *change)
        target.offsets.extend(array("q", [offset + length for offset in source.offsets]))
        target.places.extend(source.places)
        target.length += source.length
        self._forget(source)

    def _remove(self, segment: SegmentIndex) -> None:
        self._lose(segment, len(segment.offsets))
        self._forget(segment)

    def _lose(self, segment: SegmentIndex, count: int) -> None:
        """Tell the files that the first *count* extents are gone; costs about half a µs each."""
        offsets, places, at = segment.offsets, segment.places, 0
        while at < count:
            first, (base, end) = at, self.files.span_of(places[at])
            while at < count and base <= places[at] < end:
                at += 1
            until = offsets[at] if at < len(offsets) else segment.length
            self.files.lose(base, until - offsets[first], at - first)

    def _forget(self, segment: SegmentIndex) -> None:
        del self.by_name[segment.name]
        del self.by_number[segment.number]

    def _move(self, change: Entry | EntryHead, place: int) -> None:
        """Take in a COPY. It changes nothing where what it copied has gone in the meantime."""
        segment = self.by_number.get(change.segment)
        if segment is None:
            return
        at = segment.row_of(change.previous)
        if at is None:
            return
        _, before, length = segment.extent(at)
        if length != change.length:
            raise ContradictionError(f"a copy of {change.length} bytes of segment {segment.name!r} at {change.previous}")
        segment.places[at] = place
        self.files.lose(before, length, 1)
        self.files.gain(place, length)


def _advance(segment: SegmentIndex, writer: bytes, previous: int, value: int) -> None:
    current = segment.numbers.get(writer, ABSENT)
    if current != previous:
        raise ContradictionError(f"a writer of segment {segment.name!r} goes on from {previous}, but its number is {current}")
    if value == ABSENT:
        segment.numbers.pop(writer, None)
    else:
        segment.numbers[writer] = value
