"""Search for a copy among the lives of the file that it was made of (rules G5, D4).

Without a checkpoint, what copytruncate has left is a file that the store has never seen. The file
beside it was truncated and has its inode still, so the life that was copied has an origin id made
of that inode and of the copy's own first line. Once the store has said that it does not know the
file under its own ids, those are asked for. A number whose check matches the copy's bytes shows
what was read of it.
"""

from collections.abc import Sequence

from agent.sources.incarnation_search import IncarnationIds


class SiblingSearch:
    """The ids that a file is asked for in turn; its own are asked for first."""

    __slots__ = ("_left", "own", "own_count", "trying")

    def __init__(self, own: IncarnationIds, siblings: Sequence[IncarnationIds]) -> None:
        # Its own ids, and which count of them was never seen.
        self.own = own
        self.own_count = 0
        # Whether those asked for now are of a sibling.
        self.trying = False
        self._left = list(siblings)

    def next_sibling(self) -> IncarnationIds | None:
        """Return the ids to ask for next, None if all were."""
        self.trying = True
        return self._left.pop(0) if self._left else None
