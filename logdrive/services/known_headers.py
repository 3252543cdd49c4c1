"""How far a segment is still the one that was read: a search over headers (rule R5)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Mark = TypeVar("Mark")


async def count_known(marks: Sequence[Mark], matches: Callable[[Mark], Awaitable[bool]]) -> int:
    """Return how many of *marks*, from the first on, still match; they are ordered by offset.

    A store that was restored from a backup has the same headers up to some offset and not beyond,
    so a binary search asks for few of them. *matches* says whether the segment has a mark's header.
    """
    low, high = 0, len(marks)
    while low < high:
        # Try the last one first: it nearly always matches.
        middle = high - 1 if high == len(marks) else (low + high) // 2
        if await matches(marks[middle]):
            low = middle + 1
        else:
            high = middle
    return low
