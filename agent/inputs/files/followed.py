"""A file that is looked at at intervals, from its first match to its end."""

import msgspec

from agent.inputs.files.file import Generation
from agent.sources.incarnation_search import Counting
from agent.sources.source import Source
from logdrive.records.runs import GapOrEndMark


class FollowedFile(msgspec.Struct, eq=False, gc=False):  # in no cycle
    """A followed file: its current generation, that one's source, and when it is looked at.

    A truncation starts a new generation of the same followed file.
    """

    generation: Generation
    """The current generation."""

    source: Source | None = None
    """The generation's source; None until it has a first line."""

    head: bytes = b""
    """The first bytes of a file that has no first line yet."""

    counting: Counting = Counting.KNOWN
    """How the count of a generation's source is found, if none that looks alike is known (G3)."""

    counted: bool = False
    """Whether a generation of it has had a source."""

    found_at_start: bool = False
    """Whether the generation was there when the agent started: only the store may know what it is
    a copy of (rule G5).
    """

    ships_unfinished: bool = False
    """Whether the end of the file ends its first line, too, as for `agent ship`."""

    interval: float = 0.0
    """Seconds between the last two looks; set by `LookSchedule`, as is the next field."""

    look_closely_at: float = 0.0
    """When to look closely even if the file seems at rest (s): only that shows that its name is
    gone.
    """

    trouble: str = ""
    """Why the file could not be read at the last look, "" if it could."""

    lacks_handle: bool = False
    """Whether *trouble* is a lack of handles: it ends when another file is closed."""

    held: bool = False
    """Whether it begins like a file that is known, and may be a copy of it (rule G5)."""

    covered: bool = False
    """For a held file: whether that file surely has all its bytes, so that it may go untold."""

    ending: GapOrEndMark | None = None
    """Set where the file is a copy, from which the rest of its source is read: the mark that ends
    the source then.
    """

    owed: int = 0
    """The largest size seen of the file that it is a copy of."""

    no_copy: bool = False
    """Whether its current generation is surely no copy: it is sent again on purpose, or another
    shipper had a position in it.
    """

    dropped: bool = False
    """Whether the file is followed no more."""

    @property
    def is_looked_at(self) -> bool:
        """Whether all that was seen of a file without a source was looked at, and is known if it
        goes: a first line that is not complete, or what it may be a copy of.
        """
        return self.held or len(self.head) == self.generation.seen

    def set_source(self, source: Source) -> None:
        """Set the source, once there is a first line; the head is not needed any more."""
        self.source = source
        self.head = b""

    def set_held(self, held: bool, *, covered: bool = False) -> None:
        """Note whether the file may be a copy, and whether what it may be one of has all of it."""
        self.held, self.covered = held, covered

    def set_ending(self, ending: GapOrEndMark) -> None:
        """Note that the file is a copy, and how its source ends with it."""
        self.ending = ending

    def mark_no_copy(self) -> None:
        """Note that its current generation is no copy, whatever it begins like."""
        self.no_copy = True

    def drop(self) -> None:
        """Note that the file is followed no more; its place in the schedule is dropped later."""
        self.dropped = True

    def set_trouble(self, reason: str, *, lacks_handle: bool = False) -> None:
        """Note why the file could not be read at this look."""
        self.trouble = reason
        self.lacks_handle = lacks_handle

    def clear_trouble(self) -> None:
        """Note that the file could be read at this look."""
        self.trouble = ""
        self.lacks_handle = False

    def start_generation(self, generation: Generation) -> None:
        """Go on with the next generation of the file, which has no source yet."""
        self.generation = generation
        self.head = b""
        self.held = False
        if self.source is not None:
            self.counted = True
            # what comes now was never sent; without a checkpoint the store has yet to say what was
            if self.counting is Counting.AFTER:
                self.counting = Counting.KNOWN
        self.source = None
        self.found_at_start = False
        self.no_copy = False
