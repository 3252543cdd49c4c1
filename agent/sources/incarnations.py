"""Lives that look alike: same file, same first line, told apart by a count (rule G3)."""

from uuid import UUID

from agent.sources.identity import Identity
from agent.sources.source import Counting, Source


class Incarnations:
    """All that is known of one *stem*: living sources, and the highest count that has ended."""

    __slots__ = ("highest_ended", "identity", "members", "stem")

    def __init__(self, stem: UUID, identity: Identity | None) -> None:
        self.stem = stem
        self.identity = identity
        """What origin ids are made of; None as long as no file was seen that has this stem."""
        # one, nearly always: a list would take half as much again
        self.members: tuple[Source, ...] = ()
        self.highest_ended = -1

    def add(self, source: Source) -> None:
        """Enter a living source."""
        self.members += (source,)

    def remove(self, source: Source) -> None:
        """Take out a source that has ended."""
        self.members = tuple(member for member in self.members if member is not source)

    def origin(self, count: int) -> UUID:
        """Return the origin id of the life numbered *count*."""
        if self.identity is None:
            return self.stem  # of a file that is gone: its id came with the checkpoint
        origin = self.identity.origin(count)
        return self.stem if origin == self.stem else origin  # one object of two that are kept

    def next_count(self, source: Source | None = None) -> int:
        """Return the lowest count above those of all known lives, *source* itself not counted."""
        return (
            max(
                [
                    self.highest_ended,
                    *(member.count for member in self.members if member is not source),
                ]
            )
            + 1
        )

    def decided(self, source: Source | None = None) -> bool:
        """Tell whether the counts of all of them but *source* are known."""
        return not any(
            member.counting is Counting.MANY for member in self.members if member is not source
        )
