"""A file that is looked at again and again."""

from dataclasses import dataclass

from agent.inputs.files.file import Generation
from agent.sources.incarnation_search import Counting
from agent.sources.source import Source


@dataclass(slots=True, eq=False)
class Followed:
    """A file that is being followed: the life that it lives now, and its source once it has a first
    line.

    *head* are the first bytes of a file without a first line, *counting* how its first source will
    come by its count.
    """

    generation: Generation
    source: Source | None = None
    head: bytes = b""
    counting: Counting = Counting.KNOWN
    ships_unfinished: bool = False
    """`agent ship`: end of file ends the first line, too."""
    interval: float = 0.0
    look_at: float = 0.0
    """When to look closely even if it seems to rest: whether it still has a name is told by nothing
    else.
    """
    trouble: str = ""
    lacks_handle: bool = False
    """Whether *trouble* is that no handle was left: it passes as soon as another file gives one
    back.
    """
    dropped: bool = False
