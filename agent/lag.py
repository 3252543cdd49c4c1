"""Lag: how long bytes of each source have waited for their acknowledgement, and its rate.

Both are measured by looking at all sources every few seconds, so that nothing is added where bytes
are read and acknowledged. Of a source that is behind, marks are kept: at this time its bytes
reached that position. The lag in seconds is the age of the oldest mark beyond the acknowledged
position: those bytes have waited at least as long. Only sources that are behind, or that move, take
memory.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from agent.sources.source import Source

_MOST_MARKS: Final = 16
"""Marks kept of one source; beyond, every second one is dropped, and the age gets coarser."""
_WEIGHT: Final = 0.5
"""Share of the last look in a rate; the rest is that of the looks before."""
_STILL: Final = 1.0
"""A rate below so many bytes a second is none."""


Waiting = tuple[int, float]
"""Bytes of a source that wait for their acknowledgement, and for how many seconds at least."""


class _Movement(msgspec.Struct, gc=False):  # in no cycle
    """Rate of a source of which something was acknowledged lately."""

    bytes: int  # acknowledged at the last look, gaps too
    rate: float  # bytes a second


class LagMeter:
    """Keeps the marks and rates. At each look call `begin_look`, `look_at` and `end_look`."""

    def __init__(self) -> None:
        # Of each source that is behind: (position that its bytes reached, when), oldest first.
        self._marks: dict[Source, list[tuple[int, float]]] = {}
        self._moving: dict[Source, _Movement] = {}
        self._now = 0.0  # when the last look was (monotonic seconds)
        self._now_ms = 0  # the same moment on the wall clock
        self._before_ms = 0  # and the look before
        self._seconds = 0.0  # since the look before

    def begin_look(self, now: float, now_ms: int) -> None:
        """Begin a look at *now* (monotonic seconds), *now_ms* on the wall clock."""
        self._seconds, self._now = now - self._now, now
        self._before_ms, self._now_ms = self._now_ms, now_ms

    def look_at(self, source: Source) -> Waiting | None:
        """Look at *source*; return what of it waits. Takes 0.3 µs for one at rest."""
        if source.acknowledged.at_ms >= self._before_ms or source in self._moving:
            self._measure(source)
        # nothing unread, and nothing unacknowledged: that holds for nearly all of many sources
        generation = source.generation
        at_rest = (
            generation is not None
            and generation.seen == generation.position
            and not source.unacknowledged.runs
        )
        if at_rest or not source.is_behind:
            if self._marks:
                self._marks.pop(source, None)
            return None
        return self._mark(source)

    def end_look(self, sources: Mapping[Source, object]) -> None:
        """End a look at *sources*: forget all others."""
        for gone in [source for source in self._marks if source not in sources]:
            del self._marks[gone]
        for gone in [source for source in self._moving if source not in sources]:
            del self._moving[gone]

    def _mark(self, source: Source) -> Waiting:
        marks = self._marks.get(source)
        if marks is None:
            marks = self._marks[source] = []
        position, waiting = source.position, source.unacknowledged_bytes
        while marks and marks[0][0] <= position:
            del marks[0]
        if not marks or marks[-1][0] < position + waiting:
            marks.append((position + waiting, self._now))
        if len(marks) > _MOST_MARKS:
            del marks[1::2]
        return waiting, self._now - marks[0][1] if marks[0][0] > position else 0.0

    def _measure(self, source: Source) -> None:
        total = source.acknowledged.bytes + source.acknowledged.gap_bytes
        known = self._moving.get(source)
        if known is None:
            self._moving[source] = _Movement(total, 0.0)
        elif self._seconds > 0:
            rate = (total - known.bytes) / self._seconds
            known.rate = rate if not known.rate else known.rate + _WEIGHT * (rate - known.rate)
            known.bytes = total
            if known.rate < _STILL and not rate:
                del self._moving[source]

    def seconds_of(self, source: Source, now: float) -> float:
        """Return for how many seconds bytes of *source* have waited at least; 0.0 for none."""
        marks = self._marks.get(source)
        if marks is None or not source.is_behind:
            return 0.0
        position = source.position
        return next((now - since for reached, since in marks if reached > position), 0.0)

    def rate_of(self, source: Source) -> float:
        """Return how many bytes of *source* a second were acknowledged lately."""
        known = self._moving.get(source)
        return known.rate if known is not None else 0.0

    @property
    def total_rate(self) -> float:
        """How many bytes a second of all sources were acknowledged lately."""
        return sum(known.rate for known in self._moving.values())

    def longest_seconds(self, now: float) -> float:
        """Return the greatest lag of any source, in seconds."""
        return max((self.seconds_of(source, now) for source in self._marks), default=0.0)
