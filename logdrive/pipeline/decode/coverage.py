"""Coverage of sources: which bytes of each the tables have, as sets of intervals (rule A2).

`Coverage.cover_interval` is called once per batch. A batch that begins where its source ended, as
all do unless something was sent twice, costs one comparison.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

Interval = tuple[int, int]
_JOIN_AT = 1 << 14  # intervals that wait to be joined, at least
_START, _END = itemgetter(0), itemgetter(1)


class Coverage:
    """The bytes of every source for which rows were kept, in all streams."""

    def __init__(self) -> None:
        self._sources: dict[str, list[Interval]] = {}

    def cover_interval(self, source: str, start: int, end: int) -> list[Interval]:
        """Cover [start, end); return its parts that were not covered before, in order."""
        # sorted; no two overlap or touch
        have = self._sources.setdefault(source, [])
        if start >= end:
            return []

        # behind all intervals, after a gap
        if not have or start > have[-1][1]:
            have.append((start, end))
            return [(start, end)]
        # right behind the last interval: the usual case
        if start == have[-1][1]:
            have[-1] = (have[-1][0], end)
            return [(start, end)]

        # join the intervals that overlap or touch the new one; none do if it lies in a gap
        first, after = bisect_left(have, start, key=_END), bisect_right(have, end, key=_START)
        touched = have[first:after]
        have[first:after] = (
            [(min(start, touched[0][0]), max(end, touched[-1][1]))] if touched else [(start, end)]
        )
        return subtract([(start, end)], touched)

    def covered_intervals(self, source: str) -> list[Interval]:
        """Return the covered intervals of *source*, sorted; no two overlap or touch."""
        return list(self._sources.get(source, ()))


class GrowingUnion:
    """The bytes of intervals that are added bit by bit, in any order.

    They are joined as often as their number has doubled, so that each costs about as much as in one
    `union` of all.
    """

    def __init__(self) -> None:
        self._joined: list[Interval] = []
        self._added: list[Interval] = []

    def add(self, intervals: Iterable[Interval]) -> None:
        """Add *intervals*."""
        self._added += intervals
        if len(self._added) > max(_JOIN_AT, len(self._joined)):
            self._join()

    def intervals(self) -> list[Interval]:
        """Return all that was added as sorted intervals, of which no two overlap or touch."""
        self._join()
        return list(self._joined)

    def _join(self) -> None:
        self._joined, self._added = union([*self._joined, *self._added]), []


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same bytes as sorted intervals, of which no two overlap or touch."""
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
    """Return the bytes of *intervals* that are not in *others*.

    Both must be sorted, each without overlaps. Costs a search for each of *intervals*, and a step
    for each of *others* that overlaps one.
    """
    left: list[Interval] = []
    taken = list(others)
    for start, end in intervals:
        # only those of *others* that end behind the start can overlap
        for place in range(bisect_right(taken, start, key=_END), len(taken)):
            other_start, other_end = taken[place]
            if other_start >= end:
                break
            if start < other_start:  # a part before this one is left
                left.append((start, other_start))
            start = max(start, other_end)
        if start < end:  # a part behind all of them is left
            left.append((start, end))
    return left


def intersect(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Return the bytes in both, sorted."""
    first = union(intervals)
    return subtract(first, subtract(first, union(others)))


def total_size(intervals: Iterable[Interval]) -> int:
    """Return the sum of the lengths of *intervals*."""
    return sum(end - start for start, end in intervals)
