"""Intervals between looks at files: how long it has rested, and how many files there are.

With N files, one that has just grown is looked at again after N / 5000 s (0.02 s at least, 2 s at
most). At each look without growth the interval becomes half as long again, up to a limit: N / 5000
s (2 s at most) within a minute of growth; N / 2000 s after that, or N / 1000 s for a closed file
(10 s at most). No limit is below 0.25 s.
"""

from functools import lru_cache
from typing import Final

_POLLS_PER_SECOND: Final = 5000
"""Looks per second at files that grow, all together."""

_POLLS_AT_REST_PER_SECOND: Final = 2000
"""Looks per second at open files that rest, all together."""

_SHORTEST_SECONDS: Final = 0.02
_LONGEST_SECONDS: Final = 2.0
"""Bounds of the interval of a file that has grown within `_AT_REST_AFTER_SECONDS`."""

_RESTING_SECONDS: Final = 0.25
"""Interval that a file without growth reaches even if there are few files."""

_LONGEST_AT_REST_SECONDS: Final = 10.0
_AT_REST_AFTER_SECONDS: Final = 60.0
_SLOWING: Final = 1.5

_SHORTEST_NAP_SECONDS: Final = 0.01
_LONGEST_NAP_SECONDS: Final = 0.25
"""Bounds of the time between two rounds of looks, with few files."""

_FILES_PER_NAP_SECOND: Final = 200_000
"""With thousands of files some are due at any time. They are looked at in batches, a fortieth of
the least interval apart: the shortest nap grows by a second for this many files.
"""
_LONGEST_SHORTEST_NAP_SECONDS: Final = 0.1
"""Limit on that."""

_FILES_PER_LONG_NAP_SECOND: Final = 20_000
"""The longest nap, after which a new file is looked at, grows by a second for this many files."""
_LONGEST_LONG_NAP_SECONDS: Final = 0.5
"""Limit on that."""


def shortest_interval(files: int) -> float:
    """Return the seconds until the next look at a file that has just grown, one of *files*."""
    return min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, files / _POLLS_PER_SECOND))


def next_interval(interval: float, files: int, rested: float, *, is_open: bool) -> float:
    """Return the seconds until the next look at a file that has not grown for *rested* seconds.

    *interval* are the seconds between the last two looks, *files* the number of files.
    """
    longest = longest_interval(files, at_rest=rested >= _AT_REST_AFTER_SECONDS, is_open=is_open)
    if interval >= longest:
        return longest
    return min(longest, max(shortest_interval(files), interval * _SLOWING))


@lru_cache(maxsize=4)
def longest_interval(files: int, *, at_rest: bool, is_open: bool) -> float:
    """Return the limit on the interval, of a file that has not grown for a minute if *at_rest*.

    It is cached so that files share one object.
    """
    if at_rest:
        share = files / _POLLS_AT_REST_PER_SECOND
        # a look at a closed file asks for its name, and costs twice as much
        longest = min(_LONGEST_AT_REST_SECONDS, share if is_open else 2 * share)
    else:
        longest = min(_LONGEST_SECONDS, files / _POLLS_PER_SECOND)
    return max(_RESTING_SECONDS, longest)


def nap_seconds(wait: float | None, files: int) -> float:
    """Return how long to sleep if the next of *files* is due in *wait* seconds (None: no file).

    With thousands of files it may be longer than *wait*, so that more of them are due together.
    """
    longest = max(
        _LONGEST_NAP_SECONDS, min(_LONGEST_LONG_NAP_SECONDS, files / _FILES_PER_LONG_NAP_SECOND)
    )
    batch = min(_LONGEST_SHORTEST_NAP_SECONDS, files / _FILES_PER_NAP_SECOND)
    return longest if wait is None else min(longest, max(_SHORTEST_NAP_SECONDS, batch, wait))
