"""The index: where every segment's bytes are in the log, and every writer's number.

It has what is durable: the result of replaying the log. `Index.apply_entry` is the only way to
change it, for a start and for a commit alike. Changes since the last index checkpoint are in
memory, 16 bytes for an append and about 200 for a writer; older ones are on disk, and memory only
says where (`logdrive.store.index.spill`).
"""

from typing import NamedTuple

from logdrive.model.numbers import ABSENT
from logdrive.store.index.extents import PagedExtents
from logdrive.store.index.pages import PagedFile, PageFiles
from logdrive.store.index.segment import Extent, SegmentIndex, SegmentInfo
from logdrive.store.index.writers import WriterNumbers
from logdrive.store.limits import StoreLimits
from logdrive.store.log.files import LogFiles
from logdrive.store.log.format import (
    APPEND,
    COPY,
    DELETE,
    MERGE,
    SEAL,
    TRUNCATE,
    UPDATE,
    EntryHead,
    LogEntry,
    decode_changes,
)
from logdrive.store.readers import is_reader_key


class Appended(NamedTuple):
    """One append: bytes [offset, offset + length) of its segment.

    *time_ms* is when it was appended (ms since 1970), None if the log is damaged there.
    """

    offset: int
    length: int
    time_ms: int | None


class ContradictionError(Exception):
    """An entry that can't follow the entries before it."""


class Index:
    """All segments, by name and by the number that entries use.

    *next_number* is the number of the next new segment. *files* counts the live bytes of each log
    file. *stored_numbers* has the writers' numbers that are on disk. Rows for the log before
    *paged_to* are on disk, later ones in memory.
    """

    def __init__(self, files: LogFiles, pages: PageFiles, limits: StoreLimits) -> None:
        self.files = files
        self.pages = pages
        self.extents = PagedExtents(pages, limits)
        self.stored_numbers = WriterNumbers(pages, limits)
        self.paged_to = 0
        self.by_name: dict[str, SegmentIndex] = {}
        self.by_number: dict[int, SegmentIndex] = {}
        self.next_number = 0

    def paged_files(self) -> list[PagedFile]:
        """Return the paged files that this index needs."""
        return [*self.extents.files.values(), *self.stored_numbers.runs]

    def number(self, segment: SegmentIndex, writer: bytes) -> int:
        """Return the writer's number, `ABSENT` if it has none.

        A number that was not used for long is read from disk. Raises `StorageError`.
        """
        value = segment.numbers.get(writer)
        if value is not None:
            return value
        return (
            self.stored_numbers.find_number(segment.number, writer)
            if segment.has_stored_numbers
            else ABSENT
        )

    def add_segment(self, segment: SegmentIndex) -> None:
        """Add a segment. Raises `ContradictionError` if its name or number is not new."""
        if segment.number < self.next_number or segment.name in self.by_name:
            raise ContradictionError(f"segment {segment.name!r} is created twice or out of turn")
        self.by_name[segment.name] = segment
        self.by_number[segment.number] = segment
        self.next_number = segment.number + 1

    def create_segment(self, number: int, name: str, time_ms: int) -> None:
        """Apply a CREATE entry."""
        if number != self.next_number:
            raise ContradictionError(f"segment {name!r} is created out of turn")
        self.add_segment(SegmentIndex(number, name, self.extents, modified_ms=time_ms))

    def apply_entry(
        self, change: LogEntry | EntryHead, place: int, data: bytes | memoryview = b""
    ) -> None:
        """Apply any other entry, whose data is at *place* of the log.

        A MERGE needs the *data* itself. Raises `ContradictionError` if the entry can't follow, and
        `StorageError` if rows on disk can't be read.
        """
        if change.kind == COPY:
            self._move(change, place)
            return
        segment = self._segment(change.segment)
        if change.kind == DELETE:
            segment.drop_before(segment.length, self.files)
            self._forget(segment)
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
            raise ContradictionError(f"an entry of segment {number}, which does not exist")
        return segment

    def _append(self, segment: SegmentIndex, change: LogEntry | EntryHead, place: int) -> None:
        if change.kind not in (APPEND, UPDATE):
            raise ContradictionError(f"an entry of kind {change.kind}, which is not a segment's")
        self._advance(segment, change.writer, change.previous, change.number)
        # an empty append sets a number, and has no extent
        if change.kind == APPEND and change.length:
            segment.offsets.append(segment.length)
            segment.places.append(place)
            segment.length += change.length
            self.files.add_live(place, change.length)
        segment.events += change.events

    def _advance(self, segment: SegmentIndex, writer: bytes, previous: int, value: int) -> None:
        current = self.number(segment, writer)
        if current != previous:
            raise ContradictionError(
                f"a writer of segment {segment.name!r} goes on from {previous}, but its "
                f"number is {current}"
            )
        # an ABSENT in memory hides the number that is on disk
        if value != ABSENT or segment.has_stored_numbers:
            segment.numbers[writer] = value
        else:
            segment.numbers.pop(writer, None)

    def _truncate(self, segment: SegmentIndex, previous: int, start: int) -> None:
        if previous != segment.start or not previous <= start <= segment.length:
            raise ContradictionError(
                f"segment {segment.name!r} has [{segment.start}, {segment.length}), cut "
                f"from {previous} to {start}"
            )
        segment.drop_before(start, self.files)
        segment.start = start

    def _merge(
        self, target: SegmentIndex, length: int, number: int, data: bytes | memoryview
    ) -> None:
        source = self._segment(number)
        if length != target.length or source is target or source.start:
            raise ContradictionError(
                f"segment {source.name!r} can't be merged into {target.name!r} at {length}"
            )
        try:
            changes = decode_changes(data)
        except ValueError as error:
            raise ContradictionError(f"{source.name!r} is merged with {error}") from error
        for change in changes:
            self._advance(target, *change)
        target.append_all_of(source)
        self._forget(source)

    def _forget(self, segment: SegmentIndex) -> None:
        del self.by_name[segment.name]
        del self.by_number[segment.number]

    def _move(self, change: LogEntry | EntryHead, place: int) -> None:
        """Apply a COPY. It changes nothing if what it copied was deleted meanwhile."""
        # deleted, merged or truncated since the copy was submitted
        segment = self.by_number.get(change.segment)
        moved = segment.move_extent(change.previous, place) if segment is not None else None
        if segment is None or moved is None:
            return
        if moved.length != change.length:
            raise ContradictionError(
                f"a copy of {change.length} bytes of segment {segment.name!r} at {change.previous}"
            )
        self.files.remove_live(moved.place, moved.length, 1)
        self.files.add_live(place, moved.length)


__all__ = ["Appended", "ContradictionError", "Extent", "Index", "SegmentIndex", "SegmentInfo"]
