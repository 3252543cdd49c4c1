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

    __slots__ = ("_left", "own", "own_count", "own_path", "trying")

    def __init__(
        self, own: IncarnationIds, own_path: str, siblings: Sequence[tuple[str, IncarnationIds]]
    ) -> None:
        """Search under the ids of *siblings*, each with its path, once *own* ids are unknown."""
        # Its own ids, and which count of them was never seen.
        self.own = own
        self.own_count = 0
        # Its own path: the lines of a copy are known by that of its sibling.
        self.own_path = own_path
        # Whether those asked for now are of a sibling.
        self.trying = False
        self._left = list(siblings)

    def next_sibling(self) -> tuple[str, IncarnationIds] | None:
        """Return the path of the next sibling and the ids to ask for, None if all were."""
        self.trying = True
        return self._left.pop(0) if self._left else None
