"""Which of the lives that look alike this one is (rule G3).

With a checkpoint, or in memory, the count is known: one question. Without, the counts 0 to 7 are
asked for at once, then 56 more, and so on until one was never seen: the life is the highest open
one that fits the file, else the first never seen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

FIRST_COUNTS: Final = 8
MORE_COUNTS: Final = 56
MOST_COUNTS: Final = 4096
"""Beyond these one is asked for after the other."""


@dataclass(frozen=True, slots=True)
class StoredNumber:
    """The number stored for one count, and where."""

    count: int
    number: int
    store: UUID


class IncarnationSearch:
    """The questions of one source on one connection, and their answers."""

    def __init__(self, first: int, *, many: bool) -> None:
        self._next = first
        self._many = many
        self._asked: list[int] = []
        self._answers: dict[int, StoredNumber] = {}

    def next_counts(self) -> list[int]:
        """Return the counts to ask for now."""
        size = 1 if not self._many else MORE_COUNTS if self._asked else FIRST_COUNTS
        counts = list(range(self._next, self._next + size))
        self._asked += counts
        self._next += size
        return counts

    @property
    def unanswered(self) -> int:
        """How many answers are still to come."""
        return len(self._asked) - len(self._answers)

    @property
    def waiting(self) -> bool:
        """Whether answers are still to come."""
        return self.unanswered > 0

    def add_answer(self, answer: StoredNumber) -> None:
        """Take the answer for one of the counts asked for."""
        self._answers[answer.count] = answer

    def decide_count(self, fits: Callable[[int], bool]) -> StoredNumber | None:
        """Return the count to take and its number, None where more must be asked first; *fits*
        judges closed numbers, too.
        """
        if self.waiting:
            return None
        answers = [self._answers[count] for count in self._asked]
        if not self._many:
            return answers[-1]
        never_seen = next((answer for answer in answers if answer.number < 0), None)
        if never_seen is None and len(answers) < MOST_COUNTS:
            return None
        fitting = [answer for answer in answers if answer.number >= 0 and fits(answer.number)]
        return fitting[-1] if fitting else never_seen or answers[-1]
