"""The index of one segment: its durable state, and where its bytes are in the log.

Its extents are the appends it consists of. Extents in log files that were closed before the last
index checkpoint are rows on disk; a *chunk* (`ExtentRun`) says which. The others are rows in
memory. Both are sorted by offset, and together they hold each extent once. A copy made by
reclaiming lies in the newest log file, so it may be a row in memory between two chunks.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from logdrive.store.index.extents import PagedExtents
from logdrive.store.index.runs import ExtentRun, ExtentRuns
from logdrive.store.log.files import LogFiles


class SegmentInfo(NamedTuple):
    """The durable state of a segment: bytes [start, length), and the count of its events."""

    length: int
    start: int
    sealed: bool
    modified_ms: int
    events: int


class Extent(NamedTuple):
    """One append's data: *length* bytes of a segment from *offset*, at *place* in the log."""

    offset: int
    place: int
    length: int


@dataclass(slots=True, eq=False)
class SegmentIndex:
    """One segment.

    Methods that read rows on disk raise `StorageError` if they can't be read, and
    `StoreDamagedError` if they are damaged.
    """

    # the segment's number in log entries
    number: int
    name: str
    # rows on disk, of all segments
    paged: PagedExtents
    # its range: bytes [start, length)
    length: int = 0
    start: int = 0
    sealed: bool = False
    # when it was changed last, in ms since 1970
    modified_ms: int = 0
    # count of the events that were appended
    events: int = 0
    # whether there may be writers' numbers on disk
    has_stored_numbers: bool = False
    # rows in memory, in two columns; the first extent holds *start*
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    places: "array[int]" = field(default_factory=lambda: array("q"))
    # which rows on disk belong to the segment
    chunks: ExtentRuns = field(default_factory=ExtentRuns)
    # writers' numbers that changed since the last index checkpoint
    numbers: dict[bytes, int] = field(default_factory=dict)
    # count of the next appends to keep in memory for readers of the tail
    followed: int = 0

    def info(self) -> SegmentInfo:
        """Return the durable state."""
        return SegmentInfo(self.length, self.start, self.sealed, self.modified_ms, self.events)

    def keep_next_appends(self, count: int) -> None:
        """Have the next *count* appends kept in memory for readers of the tail."""
        self.followed = count

    def on_append_kept(self) -> None:
        """Count an append that was kept for readers of the tail."""
        self.followed -= 1

    def on_numbers_stored(self) -> None:
        """Drop the writers' numbers from memory: they are on disk now."""
        self.numbers = {}
        self.has_stored_numbers = True

    # Looking for extents -------------------------------------------------------------------------

    def extent_at(self, offset: int) -> Extent:
        """Return the extent that holds *offset*, which must be in [start, length)."""
        return next(self.extents(offset))

    def extents(self, offset: int) -> Iterator[Extent]:
        """Yield the extents in order, beginning with the one that holds *offset*."""
        while offset < self.length:
            row, at = bisect_right(self.offsets, offset) - 1, self.chunks.before(offset)
            # the rows in memory or the chunk: whichever begins later holds the offset
            if row >= 0 and (at < 0 or self.offsets[row] > self.chunks.firsts[at]):
                end = self.block_end(row)
                yield from self._rows(row, end)
            else:
                end = self.chunk_end(at)
                yield from self._paged_rows(self.chunks[at], offset, end)
            offset = end

    def next_extent_in(self, base: int, offset: int) -> Extent | None:
        """Return the first extent from *offset* on in the log file of *base*; None if none is left.

        All rows of that file must be on disk.
        """
        bases, at = self.chunks.bases, max(0, self.chunks.before(offset))
        while True:
            try:
                at = bases.index(base, at)
            except ValueError:
                return None
            if offset < self.chunk_end(at):
                return self.extent_at(max(offset, self.chunks.firsts[at]))
            at += 1

    def chunk_end(self, at: int) -> int:
        """Return the offset at which the bytes of the chunk *at* end."""
        first = self.chunks.firsts[at]
        end = self.chunks.firsts[at + 1] if at + 1 < len(self.chunks) else self.length
        row = bisect_right(self.offsets, first)
        return min(end, self.offsets[row]) if row < len(self.offsets) else end

    def block_end(self, row: int) -> int:
        """Return the offset at which the consecutive rows in memory from *row* on end.

        That is where a chunk begins, or the segment's end.
        """
        at = self.chunks.before(self.offsets[row]) + 1
        return self.chunks.firsts[at] if at < len(self.chunks) else self.length

    def _rows(self, row: int, until: int) -> Iterator[Extent]:
        last = bisect_left(self.offsets, until) - 1
        while row < last:
            yield Extent(
                self.offsets[row], self.places[row], self.offsets[row + 1] - self.offsets[row]
            )
            row += 1
        yield Extent(self.offsets[row], self.places[row], until - self.offsets[row])

    def _paged_rows(self, chunk: ExtentRun, offset: int, end: int) -> Iterator[Extent]:
        until = chunk.row + chunk.rows
        rows = self.paged.rows(chunk.base, self._row(chunk, offset), until)
        before, place = next(rows)
        for stored, following in rows:
            yield Extent(before + chunk.shift, place, stored - before)
            before, place = stored, following
        yield Extent(before + chunk.shift, place, end - before - chunk.shift)

    def _row(self, chunk: ExtentRun, offset: int) -> int:
        return self.paged.find(chunk.base, chunk.row, chunk.row + chunk.rows, offset - chunk.shift)

    # Changing them -------------------------------------------------------------------------------

    def on_rows_stored(self, first: int, end: int, chunk: ExtentRun) -> None:
        """Replace the rows [first, end) in memory by *chunk*: they are on disk now."""
        del self.offsets[first:end]
        del self.places[first:end]
        self.chunks.add(chunk)

    def drop_before(self, start: int, files: LogFiles) -> None:
        """Drop the extents that end at or before *start*, and count them out in *files*."""
        # whole extents only: the one that holds *start* stays
        first = self.extent_at(start).offset if start < self.length else self.length
        at = self.chunks.before(first)
        if at >= 0 and self.chunks.firsts[at] < first < self.chunk_end(at):
            self._split(at, first)

        rows, chunks = bisect_left(self.offsets, first), bisect_left(self.chunks.firsts, first)
        self._lose_rows(rows, files)
        for at in range(chunks):
            files.remove_live(
                self.chunks.bases[at],
                self.chunk_end(at) - self.chunks.firsts[at],
                self.chunks.counts[at],
            )
        del self.offsets[:rows]
        del self.places[:rows]
        self.chunks.drop(0, chunks)

    def _lose_rows(self, count: int, files: LogFiles) -> None:
        """Count the first *count* rows in memory out in *files*; costs about half a µs each."""
        offsets, places, at = self.offsets, self.places, 0
        while at < count:
            first, until, (base, end) = at, self.block_end(at), files.span_of(places[at])
            while at < count and offsets[at] < until and base <= places[at] < end:
                at += 1
            if at < len(offsets):
                until = min(until, offsets[at])
            files.remove_live(base, until - offsets[first], at - first)

    def append_all_of(self, source: "SegmentIndex") -> None:
        """Append all extents of *source*."""
        self.offsets.extend(array("q", [offset + self.length for offset in source.offsets]))
        self.places.extend(source.places)
        self.chunks.extend(source.chunks, self.length)
        self.length += source.length

    def move_extent(self, offset: int, place: int) -> Extent | None:
        """Set the place of the extent that begins at *offset*, and return the extent as it was.

        None if no extent begins there.
        """
        if not self.start < self.length or not self._first() <= offset < self.length:
            return None
        extent = self.extent_at(offset)
        if extent.offset != offset:
            return None

        # a row in memory: change its place
        row = bisect_left(self.offsets, offset)
        if row < len(self.offsets) and self.offsets[row] == offset:
            self.places[row] = place
            return extent

        # a row on disk: take it out of its chunk, and add it in memory
        self._take_out(self.chunks.before(offset), offset)
        self.offsets.insert(row, offset)
        self.places.insert(row, place)
        return extent

    def _first(self) -> int:
        """Return the offset of the first extent."""
        return min(column[0] for column in (self.offsets, self.chunks.firsts) if column)

    def _split(self, at: int, offset: int) -> None:
        """Split a chunk at *offset*, where one of its rows, not the first, begins."""
        chunk = self.chunks[at]
        row = self._row(chunk, offset)
        self.chunks.counts[at] = row - chunk.row
        self.chunks.add(
            ExtentRun(offset, chunk.base, row, chunk.row + chunk.rows - row, chunk.shift)
        )

    def _take_out(self, at: int, offset: int) -> None:
        """Remove the row at *offset* from a chunk."""
        if self.chunks.firsts[at] < offset:
            self._split(at, offset)
            at += 1
        _, base, row, count, shift = self.chunks[at]
        self.chunks.drop(at, at + 1)
        if count > 1:
            self.chunks.add(
                ExtentRun(self.paged.row(base, row + 1)[0] + shift, base, row + 1, count - 1, shift)
            )
