"""Checks a number that a store has against a generation's bytes (rules D4, G3)."""

from agent.sources.readable import Readable
from logdrive.model.numbers import is_closed, position_of


class StoredNumberCheck:
    """Decides whether a stored number can be that of one generation. Made for one answer.

    All methods raise OSError where the bytes to compare with can't be read.
    """

    __slots__ = ("_closes_when_complete", "_generation", "_living")

    def __init__(
        self, generation: Readable | None, living: Readable | None, *, closes_when_complete: bool
    ) -> None:
        # The generation, read to its end or not; None where its bytes are gone.
        self._generation = generation
        # The same while more can be read of it, else None.
        self._living = living
        # Whether its end record follows its last byte, as it does in `agent ship`.
        self._closes_when_complete = closes_when_complete

    def may_be_own(self, number: int) -> bool:
        """Return whether *number*, closed or not, can be this generation's."""
        return self.is_complete_at(number) if is_closed(number) else self.matches(number)

    def matches(self, number: int) -> bool:
        """Return whether *number*, which is not closed, can be this generation's."""
        # Bytes that can't be read any more contradict nothing.
        return self._living is None or self._living.matches_number(number)

    def is_complete_at(self, number: int) -> bool:
        """Return whether the closed *number* is the end of a file that was shipped before."""
        generation = self._generation
        return (
            self._closes_when_complete
            and generation is not None
            and position_of(number) == generation.seen
            and generation.matches_number(number)
        )
