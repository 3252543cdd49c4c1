"""How soon a file is looked at again, by how long it has rested and how many files there are.

With N files one that has grown within the last minute is looked at every N / 5000 s (0.02 s at
least, 2 s at most), slowing down to 0.25 s where that is less; one that has not every N / 2000 s, N
/ 1000 s where its handle was given back, 0.25 s at least and 10 s at most.
"""

from typing import Final

_POLLS_PER_SECOND, _POLLS_AT_REST_PER_SECOND = 5000, 2000
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.02, 2.0
_RESTING_SECONDS, _LONGEST_AT_REST_SECONDS = 0.25, 10.0
_AT_REST_AFTER_SECONDS: Final = 60.0
_SLOWING: Final = 1.5


def shortest(files: int) -> float:
    """Return the interval (s) of a file that has just grown, one of so many."""
    return min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, files / _POLLS_PER_SECOND))


def slowed(interval: float, files: int, rested: float, *, is_open: bool) -> float:
    """Return the interval (s) after *interval* of a file that has not grown for *rested*
    seconds.
    """
    if rested < _AT_REST_AFTER_SECONDS:
        longest = min(_LONGEST_SECONDS, files / _POLLS_PER_SECOND)
    else:  # without a handle each look asks for the file's name, and costs ten times as much
        share = files / _POLLS_AT_REST_PER_SECOND
        longest = min(_LONGEST_AT_REST_SECONDS, share if is_open else 2 * share)
    return min(max(_RESTING_SECONDS, longest), max(shortest(files), interval * _SLOWING))
