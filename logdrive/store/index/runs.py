"""Runs of extents on disk: five numbers per stretch of a segment, however many appends it has."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class ExtentRun(NamedTuple):
    """A chunk: a stretch of a segment, from offset *first*, whose rows are on disk.

    It has *rows* rows, from *row* on, of the extents file for the log file at *base*; *shift* is
    added to the offset of each.
    """

    first: int
    base: int
    row: int
    rows: int
    shift: int


class ExtentRuns:
    """A segment's chunks, in order, as five columns: 40 bytes per chunk."""

    __slots__ = ("bases", "counts", "firsts", "rows", "shifts")

    def __init__(self, columns: "Sequence[array[int]] | None" = None) -> None:
        # one column per field of `ExtentRun`, sorted by the first one
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
        """Return the columns, in the order of `ExtentRun`'s fields."""
        return self.firsts, self.bases, self.rows, self.counts, self.shifts

    def before(self, offset: int) -> int:
        """Return the index of the last chunk that begins at or before *offset*; -1 if none does."""
        return bisect_right(self.firsts, offset) - 1

    def add(self, chunk: ExtentRun) -> None:
        """Insert *chunk* at its place in the order."""
        at = bisect_right(self.firsts, chunk.first)
        for column, value in zip(self.columns(), chunk, strict=True):
            column.insert(at, value)

    def extend(self, others: "ExtentRuns", shift: int) -> None:
        """Append the chunks of *others*, with *shift* added to their offsets."""
        self.firsts.extend(array("q", [first + shift for first in others.firsts]))
        self.bases.extend(others.bases)
        self.rows.extend(others.rows)
        self.counts.extend(others.counts)
        self.shifts.extend(array("q", [before + shift for before in others.shifts]))

    def drop(self, start: int, end: int) -> None:
        """Remove the chunks in [start, end)."""
        for column in self.columns():
            del column[start:end]
