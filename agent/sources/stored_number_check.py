"""Checks a number that a store has against a generation's bytes (rules D4, G3)."""

from typing import NamedTuple

from agent.sources.readable import Readable
from logdrive.model.numbers import CLOSED, check_in, is_closed, position_of


class SeenBytes(NamedTuple):
    """What a checkpoint says of bytes that are gone."""

    seen: int
    """How many were seen."""
    last_number: int
    """The number of the last position before which they are known."""


class StoredNumberCheck:
    """Decides whether a stored number can be that of one generation. Made for one answer.

    All methods raise OSError where the bytes to compare with can't be read, and
    `SourceTruncatedError` where they are others by now.
    """

    __slots__ = ("_closes_when_complete", "_generation", "_gone", "_living")

    def __init__(
        self,
        generation: Readable | None,
        living: Readable | None,
        *,
        closes_when_complete: bool,
        gone: SeenBytes | None = None,
    ) -> None:
        # The generation, read to its end or not; None where its bytes are gone.
        self._generation = generation
        # The same while more can be read of it, else None.
        self._living = living
        # Whether its end record follows its last byte, as it does in `agent ship`.
        self._closes_when_complete = closes_when_complete
        # What was seen of bytes that are gone; None of those that can be read, and where it is not
        # known.
        self._gone: Readable | SeenBytes | None = gone
        if generation is not None:
            self._gone = generation if living is None and not generation.is_unique else None

    def may_be_own(self, number: int) -> bool:
        """Return whether *number*, closed or not, can be this generation's."""
        return self.is_complete_at(number) if is_closed(number) else self.matches(number)

    def may_be_copied(self, number: int) -> bool:
        """Return whether *number*, closed or not, can be that of a life that this is a copy of.

        Its check must match: a number without one could be any life's.
        """
        generation = self._living
        if generation is None or generation.first_line is None or not check_in(number):
            return False
        # of so few bytes only the first line is compared: they must be all that there is
        position = position_of(number)
        if position <= generation.first_line.span and position != generation.seen:
            return False
        return generation.matches_number(number - CLOSED if is_closed(number) else number)

    def may_be_own_or_copied(self, number: int) -> bool:
        """Return whether *number* can be that of a generation which is read from its copy.

        The store may have its end, as the checkpoint lags behind.
        """
        return self.may_be_own(number) or (is_closed(number) and self.may_be_copied(number))

    @property
    def is_gone(self) -> bool:
        """Whether the bytes were seen, and can't be read any more."""
        return self._gone is not None

    def may_be_gone(self, number: int) -> bool:
        """Return whether *number* can be that of a generation that was seen, and is gone.

        Its bytes can't be compared any more, but it had so many, and its last ones are known.
        """
        if self._gone is None or is_closed(number):
            return self.may_be_own(number)
        if position_of(number) > self._gone.seen:
            return False
        is_last = position_of(number) == position_of(self._gone.last_number)
        return self.is_surely_gone(number) or not is_last

    def is_surely_gone(self, number: int) -> bool:
        """Return whether *number* is of the last bytes known of a generation that is gone."""
        if self._gone is None or is_closed(number):
            return self.may_be_own(number)
        last = self._gone.last_number
        return position_of(number) == position_of(last) and check_in(number) == check_in(last)

    def matches(self, number: int) -> bool:
        """Return whether *number*, which is not closed, can be this generation's."""
        # Bytes that can't be read any more contradict nothing.
        return self._living is None or self._living.matches_number(number)

    def is_complete_at(self, number: int) -> bool:
        """Return whether the closed *number* is the end of what was shipped before."""
        generation = self._generation
        if generation is None:
            return False
        if not generation.is_unique:
            if not self._closes_when_complete or position_of(number) != generation.seen:
                return False
            if self._living is None:  # its bytes are gone
                return number - CLOSED == generation.last_number
        return generation.matches_number(number)
