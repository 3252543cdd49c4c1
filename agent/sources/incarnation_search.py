"""Search for the count of a source among generations that look alike (rule G3).

With a checkpoint, or in memory, the count is known, and one count is asked for. Without, counts 0
to 7 are asked for at once, then 56 more, and so on until the store has never seen one of them. The
source takes the highest open count whose number fits its bytes, else the lowest one never seen.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol
from uuid import UUID

FIRST_COUNTS: Final = 8
"""Counts asked for at first where the count is not known."""
MORE_COUNTS: Final = 56
"""Counts asked for each further time."""
MOST_COUNTS: Final = 4096
"""After this many counts the search ends, even where the store has seen all of them."""


class Counting(Enum):
    """How sure a source's count is. The values are in the checkpoint."""

    KNOWN = "known"
    """It is sure."""
    MANY = "many"
    """It was begun without a checkpoint: several counts have to be asked for."""
    NEXT = "next"
    """It takes the next one, once that of the generation before it is known: it was never sent."""
    AFTER = "after"
    """A start found it, with others that look alike in its checkpoint, and it may have been sent
    before: several have to be asked for, once those of the generations before it are known.
    """

    @property
    def asks_several(self) -> bool:
        """Whether several counts have to be asked for."""
        return self in (Counting.MANY, Counting.AFTER)


class IncarnationIds(Protocol):
    """Origin ids by count, of the generations that look alike."""

    @property
    def stem(self) -> UUID:
        """The id that they have in common: that of count 0."""
        ...

    def origin_for(self, count: int) -> UUID:
        """Return the origin id of the generation with this *count*."""
        ...

    def next_count(self, source: object) -> int:
        """Return the lowest count above those of all known sources, *source* itself left out."""
        ...

    def counts_known(self, source: Any) -> bool:
        """Return whether those counts are known that *source* waits for; without it, all."""
        ...

    def counted_here(self, source: object) -> bool:
        """Return whether no source but *source* is, or will be, asked for under these ids."""
        ...

    def living_counts(self, source: object) -> Collection[int]:
        """Return the counts of all living sources but *source*, of which these are known."""
        ...

    def add(self, source: Any) -> None:
        """Add a living source."""
        ...

    def remove(self, source: Any) -> None:
        """Remove a living source."""
        ...


@dataclass(frozen=True, slots=True)
class StoredNumber:
    """The number that *store* has for one count; negative for `ABSENT` and the like."""

    count: int
    """The count asked for."""
    number: int
    """What the store has for it."""
    store: UUID
    """The store's id."""


class IncarnationSearch:
    """Counts asked for by one source on one connection, and the answers to them."""

    def __init__(self, first: int, *, many: bool) -> None:
        self._next = first  # the lowest count not asked for
        self._many = many  # whether the count is not known
        self._asked: list[int] = []  # the counts asked for so far, lowest first
        self._answers: dict[int, StoredNumber] = {}  # by count

    def next_counts(self, taken: Collection[int] = ()) -> list[int]:
        """Return the counts to ask for now, one at least; never those *taken* by other sources."""
        counts: list[int] = []
        while not counts:
            size = 1 if not self._many else MORE_COUNTS if self._asked else FIRST_COUNTS
            counts = [at for at in range(self._next, self._next + size) if at not in taken]
            self._next += size
        self._asked += counts
        return counts

    @property
    def unanswered(self) -> int:
        """How many answers are still to come."""
        return len(self._asked) - len(self._answers)

    def add_answer(self, answer: StoredNumber) -> None:
        """Add the answer for one of the counts asked for."""
        self._answers[answer.count] = answer

    def decide_count(self, fits: Callable[[int], bool]) -> StoredNumber | None:
        """Return the count to take, with its number; None while more answers are needed.

        None after all answers have come means that `next_counts` has more to ask for. *fits* judges
        a stored number, a closed one, too; it may raise OSError.
        """
        if self.unanswered:
            return None
        answers = [self._answers[count] for count in self._asked]
        if not self._many:
            return answers[-1]

        never_seen = next((answer for answer in answers if answer.number < 0), None)
        # a higher count may be the one
        if never_seen is None and len(answers) < MOST_COUNTS:
            return None

        fitting = [answer for answer in answers if answer.number >= 0 and fits(answer.number)]
        return fitting[-1] if fitting else never_seen or answers[-1]
