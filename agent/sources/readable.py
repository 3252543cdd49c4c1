"""Port to the bytes of one source, whichever input they come from: a file, a spool, the journal.

All positions are byte offsets in the generation; a number is a position with 16 check bits of the
bytes before it (rule P1).
"""

from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from agent.config.events import EventsTable
from agent.events.cutter import EventCutter
from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from logdrive.records.chunk import TextChunk
from logdrive.records.runs import GapOrEndMark


class SourceTruncatedError(Exception):
    """The generation is over: its bytes are fewer than, or other than, what was read of it.

    Never leaves the agent.
    """


class InputKind(StrEnum):
    """Which input a source belongs to, as the checkpoint says it."""

    FILES = "files"
    """Files that patterns of paths match."""
    SPOOL = "spool"
    """Standard input, pipes and sockets, kept in the spool."""
    JOURNALD = "journald"
    """The journal of systemd."""


class DueGap(NamedTuple):
    """Bytes that are not sent, although the source goes on after them (rule P4)."""

    end: int
    """The position after them."""

    mark: GapOrEndMark
    """Why."""


class Labels(Protocol):
    """What an input's configuration adds to all of its lines."""

    @property
    def fields(self) -> dict[str, Any]:
        """Values by name, as the operator wrote them."""
        ...

    @property
    def tags(self) -> list[str]:
        """Words, as the operator wrote them."""
        ...


class LabelsByPath(Protocol):
    """Labels of sources whose bytes are gone, so that only their path is left."""

    def settings_for(self, path: str) -> Labels | None:
        """Return the labels of the input that names *path*; None if none does."""
        ...


class Readable(Protocol):
    """The bytes of one source. An input makes it, and calls the source's `end_generation`."""

    @property
    def input_kind(self) -> InputKind:
        """The input that restores its source after a restart."""
        ...

    @property
    def is_unique(self) -> bool:
        """Whether what a store has under its origin id is surely its own: it never ends as one
        generation and goes on as another that looks alike.
        """
        ...

    @property
    def start(self) -> int:
        """The position from which bytes are wanted (rule P2)."""
        ...

    def gap_at(self, position: int) -> DueGap | None:
        """Return the gap that begins at *position*, None if bytes are to be read from there."""
        ...

    def set_start(self, position: int) -> None:
        """Move the start; to 0 by the source, where the bytes before it are wanted after all."""
        ...

    @property
    def place(self) -> FileLocation:
        """Where the bytes are; its path is the name that their lines are known by."""
        ...

    @property
    def first_line(self) -> FirstLine | None:
        """Its first line; not None once it has a source."""
        ...

    @property
    def settings(self) -> EventsTable:
        """The table of its input: what is added to its lines, and done with them."""
        ...

    @property
    def cutter(self) -> EventCutter:
        """What cuts its bytes into events."""
        ...

    @property
    def position(self) -> int:
        """The position after the last byte read."""
        ...

    @property
    def seen(self) -> int:
        """The position up to which bytes are known to exist."""
        ...

    @property
    def unread(self) -> int:
        """How many bytes were seen and not read."""
        ...

    @property
    def has_lines(self) -> bool:
        """Whether `read_lines` may return something."""
        ...

    @property
    def retired(self) -> bool:
        """Whether `retire` was called: it is not read again."""
        ...

    @property
    def last_number(self) -> int:
        """The number of the last position before which the bytes are known; 0 without one."""
        ...

    @property
    def modified_ns(self) -> int:
        """When it was changed last, for the checkpoint; 0 where that is not known."""
        ...

    @property
    def prefix(self) -> bytes:
        """CRCs of its first bytes, for the checkpoint; b"" where there can be no copy of it."""
        ...

    def resume_from(self, number: int) -> None:
        """Let the next `read_lines` go on from the position of *number*."""
        ...

    def matches_number(self, number: int) -> bool:
        """Return whether a stored *number* can be this generation's (rule D4).

        Raises OSError if the bytes before it can't be read, `SourceTruncatedError` if the bytes
        that were seen are not there any more.
        """
        ...

    def number_at(self, position: int) -> int:
        """Return the number of *position*.

        Raises OSError, or `SourceTruncatedError` if the bytes before it are not there.
        """
        ...

    def read_head(self, size: int) -> bytes:
        """Return its first bytes, *size* at most; none if they are gone, or it is closed.

        Raises OSError.
        """
        ...

    def read_lines(self, now: float, *, limit: int, longest: int) -> TextChunk | None:
        """Return the next lines, and move the position behind them; None without any.

        *now* is the monotonic time in seconds. *limit* bytes are read at once. Where they have no
        line end, up to *longest* are read; a longer line comes in parts. Raises OSError, or
        `SourceTruncatedError` before any byte of another generation is returned.
        """
        ...

    def give_back(self, chunk: TextChunk, position: int) -> None:
        """Move back to *position* in *chunk*, the last one read: what follows is read again."""
        ...

    def retire(self) -> None:
        """Release what it holds: nothing will be read from it again."""
        ...
