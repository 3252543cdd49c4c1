"""Which rows on disk belong to a segment: a few numbers for each stretch of it, however many
appends that is.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class ExtentRun(NamedTuple):
    """A stretch of a segment from offset *first*: *rows* rows from *row* of the file of the log
    file at *base*, *shift* added to each.
    """

    first: int
    base: int
    row: int
    rows: int
    shift: int


class ExtentRuns:
    """A segment's chunks, in order, as five columns: 40 bytes each."""

    __slots__ = ("bases", "counts", "firsts", "rows", "shifts")

    def __init__(self, columns: "Sequence[array[int]] | None" = None) -> None:
        self.firsts, self.bases, self.rows, self.counts, self.shifts = columns or [
            array("q") for _ in ExtentRun._fields
        ]

    def __len__(self) -> int:
        return len(self.firsts)

    def __getitem__(self, at: int) -> ExtentRun:
        return ExtentRun(
            self.firsts[at], self.bases[at], self.rows[at], self.counts[at], self.shifts[at]
        )

    def columns(self) -> "tuple[array[int], ...]":
        """Return the columns, in the order of a chunk's fields."""
        return self.firsts, self.bases, self.rows, self.counts, self.shifts

    def before(self, offset: int) -> int:
        """Return which chunk is the last one that begins at or before *offset*, -1 for none."""
        return bisect_right(self.firsts, offset) - 1

    def add(self, chunk: ExtentRun) -> None:
        """Put *chunk* in its place."""
        at = bisect_right(self.firsts, chunk.first)
        for column, value in zip(self.columns(), chunk, strict=True):
            column.insert(at, value)

    def extend(self, others: "ExtentRuns", shift: int) -> None:
        """Put what *others* say at the end, *shift* further on."""
        self.firsts.extend(array("q", [first + shift for first in others.firsts]))
        self.bases.extend(others.bases)
        self.rows.extend(others.rows)
        self.counts.extend(others.counts)
        self.shifts.extend(array("q", [before + shift for before in others.shifts]))

    def drop(self, start: int, end: int) -> None:
        """Take the chunks in [start, end) out."""
        for column in self.columns():
            del column[start:end]
