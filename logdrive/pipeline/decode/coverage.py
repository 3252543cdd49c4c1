"""What the tables have of each source: sets of bytes, as intervals (rule A2).

A `Coverage` is asked once per batch. A batch that goes on where its source ended, as all do unless
something was sent twice, costs one comparison.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

Interval = tuple[int, int]
_START, _END = itemgetter(0), itemgetter(1)


class Coverage:
    """The bytes of every source that rows were kept for, over all its streams."""

    def __init__(self) -> None:
        self._sources: dict[str, list[Interval]] = {}

    def cover_interval(self, source: str, start: int, end: int) -> list[Interval]:
        """Cover [start, end); return its parts that were not covered before, in order."""
        have = self._sources.setdefault(source, [])
        if start >= end:
            return []
        if not have or start > have[-1][1]:
            have.append((start, end))
            return [(start, end)]
        if start == have[-1][1]:
            have[-1] = (have[-1][0], end)
            return [(start, end)]
        first, after = bisect_left(have, start, key=_END), bisect_right(have, end, key=_START)
        touched = have[first:after]
        have[first:after] = (
            [(min(start, touched[0][0]), max(end, touched[-1][1]))] if touched else [(start, end)]
        )
        return subtract([(start, end)], touched)

    def covered_intervals(self, source: str) -> list[Interval]:
        """Return what is covered of *source*, in order, no two touching."""
        return list(self._sources.get(source, ()))


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same bytes as sorted intervals of which no two touch."""
    joined: list[Interval] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def subtract(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Return what of *intervals* is not in *others*; both sorted, each without overlaps."""
    left: list[Interval] = []
    taken = list(others)
    for start, end in intervals:
        for other_start, other_end in taken[bisect_right(taken, start, key=_END) :]:
            if other_start >= end:
                break
            if start < other_start:
                left.append((start, other_start))
            start = max(start, other_end)
        if start < end:
            left.append((start, end))
    return left


def intersect(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Return the bytes in both, sorted."""
    first = union(intervals)
    return subtract(first, subtract(first, union(others)))


def total_size(intervals: Iterable[Interval]) -> int:
    """Return how many bytes *intervals* have together, each counted."""
    return sum(end - start for start, end in intervals)
