"""Positions: which record begins at which byte of a segment.

`Positions` is the sparse index of one stream: about one row a MiB or 1000 records, in three columns
of 8 bytes each. What lies between two rows is found by walking over the events from the row before.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from logdrive.model.units import MIB

ROW_RECORDS: Final = 1000
ROW_BYTES: Final = MIB


class Position(NamedTuple):
    """A boundary between two records.

    Record *seq_num* begins at *offset* of the segment, or will. *timestamp* is that of the record
    before it (ms since 1970), 0 if there was none.
    """

    offset: int
    seq_num: int
    timestamp: int


START: Final = Position(0, 0, 0)


class Positions:
    """The rows of a stream, in order; the first one is where the stream begins."""

    def __init__(self, rows: Iterable[Position] = (START,)) -> None:
        self._offsets, self._seq_nums, self._timestamps = array("Q"), array("Q"), array("Q")
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, at: int) -> Position:
        return Position(self._offsets[at], self._seq_nums[at], self._timestamps[at])

    @property
    def first(self) -> Position:
        """Where the stream begins."""
        return self[0]

    @property
    def last(self) -> Position:
        """The last row."""
        return self[-1]

    def before_offset(self, offset: int) -> Position:
        """Return the last row at or before *offset*, or the first row."""
        return self[max(0, bisect_right(self._offsets, offset) - 1)]

    def at_offset(self, offset: int) -> Position | None:
        """Return the first row at or after *offset*."""
        at = bisect_left(self._offsets, offset)
        return self[at] if at < len(self) else None

    def behind(self, offset: int) -> list[Position]:
        """Return the rows after *offset*; costs nothing for the others."""
        first = bisect_right(self._offsets, offset)
        return [self[at] for at in range(first, len(self))]

    def before_seq_num(self, seq_num: int) -> Position:
        """Return the last row at or before the record *seq_num*, or the first row."""
        return self[max(0, bisect_right(self._seq_nums, seq_num) - 1)]

    def before_timestamp(self, timestamp: int) -> Position:
        """Return a row before the first record of *timestamp* or later, near it."""
        return self[max(0, bisect_left(self._timestamps, timestamp) - 1)]

    def add(self, row: Position) -> None:
        """Add a row behind the others; one that is there already changes nothing."""
        if self._offsets and row.offset <= self._offsets[-1]:
            return
        self._offsets.append(row.offset)
        self._seq_nums.append(row.seq_num)
        self._timestamps.append(row.timestamp)

    def begin_at(self, first: Position) -> None:
        """Make *first* the first row, and drop those before it."""
        at = bisect_right(self._offsets, first.offset)
        for column, value in zip(
            (self._offsets, self._seq_nums, self._timestamps), first, strict=True
        ):
            column[:at] = array("Q", (value,))

    def is_due(self, position: Position) -> bool:
        """Return whether *position* is far enough from the last row to be one."""
        return (
            position.seq_num - self._seq_nums[-1] >= ROW_RECORDS
            or position.offset - self._offsets[-1] >= ROW_BYTES
        )
