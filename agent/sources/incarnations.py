"""Incarnations: generations that look alike, with the same file and first line, told apart by a
count (rule G3).
"""

from uuid import UUID

from agent.sources.identity import Identity
from agent.sources.incarnation_search import Counting
from agent.sources.source import Source


class Incarnations:
    """The generations of one *stem*: the living sources, and the highest count that has ended."""

    __slots__ = ("highest_ended", "identity", "members", "stem")

    def __init__(self, stem: UUID, identity: Identity | None) -> None:
        # Their common id: the origin id of count 0.
        self.stem = stem
        # What origin ids are made of; None until a file with this stem was seen.
        self.identity = identity
        # The living sources; a tuple, as there is one in most cases and a list takes more memory.
        self.members: tuple[Source, ...] = ()
        # The highest count of an ended source, -1 without one.
        self.highest_ended = -1

    def origin_for(self, count: int) -> UUID:
        """Return the origin id of the generation with this *count*."""
        # the file is gone: the source takes over the id in the checkpoint
        if count == 0 or self.identity is None:
            return self.stem
        return self.identity.origin_for(count)

    def next_count(self, source: object = None) -> int:
        """Return the lowest count above those of all known sources, *source* itself left out."""
        counts = [member.count for member in self.members if member is not source]
        return max([self.highest_ended, *counts]) + 1

    def counts_known(self, source: Source | None = None) -> bool:
        """Return whether those counts are known that *source* waits for; without it, all.

        One restored before it took its count waits for those that came before it.
        """
        return not any(
            member.counting is Counting.MANY
            or (member.counting is Counting.AFTER and not _is_before(source, member))
            for member in self.members
            if member is not source
        )

    def counted_here(self, source: object = None) -> bool:
        """Return whether no source but *source* is, or will be, asked for under these ids.

        One that is asked for under another's waits perhaps for *source* itself. One of a known
        count takes the next if the store has another's bytes under that.
        """
        return not any(
            (member.counting.asks_several or member.store is None) and member.incarnations is self
            for member in self.members
            if member is not source
        )

    def living_counts(self, source: object) -> list[int]:
        """Return the counts of all living sources but *source*, of which these are known."""
        return [
            member.count
            for member in self.members
            if member is not source and member.counting is Counting.KNOWN
        ]

    def add(self, source: Source) -> None:
        """Add a living source."""
        self.members += (source,)

    def remove(self, source: Source) -> None:
        """Remove a living source."""
        self.members = tuple(member for member in self.members if member is not source)

    def on_ended(self, count: int) -> None:
        """Remember that the generation with this *count* has ended."""
        self.highest_ended = max(self.highest_ended, count)


def _is_before(source: Source | None, other: Source) -> bool:
    """Return whether *source* is one restored as *other* was, and came before it.

    The count that each was to take next says so.
    """
    return source is not None and source.counting is Counting.AFTER and source.count < other.count
