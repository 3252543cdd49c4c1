"""Limits the rate of one source: a bucket of tokens that fills as time goes by.

What is over is dropped (`RateLimiter`), or stays in the file (`ReadRate`).
"""

from collections.abc import Callable
from typing import Final

from agent.config.processors import RateLimitTable
from agent.events.event import Event
from agent.events.processors.counters import RuleCounter

_BURST_SECONDS: Final = 10
"""Seconds of which a burst has the events, or the bytes, where none is configured."""
_PAUSE_SECONDS: Final = 0.05
"""Shortest time for which a source waits."""


class TokenBucket:
    """Tokens for events, or for bytes. It begins full."""

    def __init__(self, rate: float, burst: float, monotonic: Callable[[], float]) -> None:
        """Fill with *rate* tokens a second, up to *burst*; *monotonic* is the time in seconds."""
        self._rate = rate
        self._burst = burst
        self._monotonic = monotonic
        self._tokens = burst
        self._at = monotonic()

    def available(self) -> float:
        """Return how many tokens there are now; below 0 after `take` of more than there were."""
        now = self._monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        return self._tokens

    def ready_at(self, tokens: float) -> float | None:
        """Return the time at which there are *tokens*; None if there are now."""
        lacking = tokens - self.available()
        # a little more than a rounding error, or the source would be asked again and again
        return None if lacking <= 0 else self._at + max(_PAUSE_SECONDS, lacking / self._rate)

    def take(self, tokens: float) -> None:
        """Take *tokens*, also where there are fewer."""
        self._tokens -= tokens


def make_bucket(table: RateLimitTable, monotonic: Callable[[], float]) -> TokenBucket:
    """Return the bucket of *table*: of events, or of bytes."""
    rate = table.events_per_second or table.bytes_per_second
    assert rate is not None
    # one event must fit, however low the rate
    return TokenBucket(rate, max(1.0, table.burst or rate * _BURST_SECONDS), monotonic)


class RateLimiter:
    """Drops events over the rate."""

    def __init__(
        self, table: RateLimitTable, counter: RuleCounter, monotonic: Callable[[], float]
    ) -> None:
        self._bucket = make_bucket(table, monotonic)
        self._of_events = table.events_per_second is not None
        self._counter = counter

    def process_events(self, events: list[Event]) -> list[Event]:
        """Return the events for which there are tokens; see `Processor`.

        With a rate of bytes, an event passes while there is any token; what it takes more than
        there are, later ones lack.
        """
        available = self._bucket.available()
        if self._of_events:
            kept = events[: max(0, int(available))]
            self._bucket.take(len(kept))
        else:
            kept = self._take_bytes(events, available)
        if len(kept) < len(events):
            size = sum(event.end - event.start for event in events)
            size -= sum(event.end - event.start for event in kept)
            self._counter.count_dropped(len(events) - len(kept), size)
        return kept

    def _take_bytes(self, events: list[Event], available: float) -> list[Event]:
        """Return the first events for which there are tokens, and take these."""
        for number, event in enumerate(events):
            if available <= 0:
                return events[:number]
            size = event.end - event.start
            self._bucket.take(size)
            available -= size
        return events


class ReadRate:
    """Lets a source be read no faster than its rate: what is over waits in its file.

    It counts what is left after all processors.
    """

    def __init__(self, table: RateLimitTable, monotonic: Callable[[], float]) -> None:
        self._bucket = make_bucket(table, monotonic)
        self._of_events = table.events_per_second is not None
        rate = table.events_per_second or table.bytes_per_second or 0.0
        # those of a second at once, so that a slow source is not read for each event
        self._fewest = max(1.0, min(rate, table.burst or rate))

    @property
    def waits_until(self) -> float | None:
        """The monotonic time at which to read again; None if that is now."""
        return self._bucket.ready_at(self._fewest)

    def first_allowed(self, events: list[Event]) -> list[Event]:
        """Return the first of *events*, at least one, for which there are tokens.

        A run may end after the last one.
        """
        available = self._bucket.available()
        count, size = 0, 0.0
        for event in events:
            size += 1 if self._of_events else event.end - event.start
            if size > available and count:
                break
            count += 1
        while count < len(events) and events[count - 1].tied:
            count += 1
        return events[:count]

    def take(self, events: list[Event]) -> None:
        """Take the tokens for *events*, which will be sent."""
        size = sum(event.end - event.start for event in events)
        self._bucket.take(len(events) if self._of_events else size)
