"""Counts of operations and bytes, by minute and basin, for a day; they begin anew at each start."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from logdrive.host.clock import Clock

_MINUTE_MS: Final = 60_000
_KEPT_MINUTES: Final = 24 * 60
_MOST_SERIES: Final = 10_000
"""Limit on the pairs of basin and operation that are counted apart; more are counted together."""

APPENDED: Final = "appended-bytes"
READ: Final = "read-bytes"
"""Names of the counts of metered bytes, beside those of operations."""


class OperationCounters:
    """What was done since the start: totals by operation, and a day's minutes by basin."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.totals: dict[str, int] = {}
        # by basin and operation: minute (since 1970) and count, the latest last
        self._series: dict[tuple[str, str], deque[list[int]]] = {}

    def add(self, operation: str, basin: str = "", count: int = 1) -> None:
        """Count *operation*, or bytes, for *basin*; "" for the account."""
        self.totals[operation] = self.totals.get(operation, 0) + count
        key = (basin, operation)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= _MOST_SERIES:
                key = ("", operation)
            series = self._series.setdefault(key, deque(maxlen=_KEPT_MINUTES))
        minute = self._clock.now_ms() // _MINUTE_MS
        if series and series[-1][0] >= minute:
            series[-1][1] += count
        else:
            series.append([minute, count])

    def forget_basin(self, basin: str) -> None:
        """Drop the counts of a deleted basin."""
        for key in [key for key in self._series if key[0] == basin]:
            del self._series[key]

    def sums(
        self, operation: str, basin: str | None, start: int, end: int, interval: int
    ) -> list[tuple[int, int]]:
        """Return sums of *operation* in intervals of *interval* seconds: when each begins, and how
        many.

        Times are in seconds since 1970, from *start* up to *end*. Without *basin*: of all.
        """
        sums: dict[int, int] = {}
        for second, count in self._counts(operation, basin):
            if start <= second < end:
                at = second - second % interval
                sums[at] = sums.get(at, 0) + count
        return sorted(sums.items())

    def operations(self, basin: str | None) -> list[str]:
        """Return what was counted for *basin*, or at all."""
        return sorted({name for owner, name in self._series if basin in (None, owner)})

    def _counts(self, operation: str, basin: str | None) -> Iterator[tuple[int, int]]:
        for (owner, name), series in self._series.items():
            if name == operation and basin in (None, owner):
                for minute, count in series:
                    yield minute * 60, count
