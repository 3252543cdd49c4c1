"""What a source needs of the bytes behind it, whichever input they come from: a file today."""

from typing import Any, Protocol

from agent.records.chunk import TextChunk
from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation


class SourceTruncatedError(Exception):
    """The life is over: the file is shorter, or other, than what was read of it.

    Never leaves the agent.
    """


class Labels(Protocol):
    """What the configuration of an input says of all its lines."""

    @property
    def fields(self) -> dict[str, Any]:
        """Values by name, as the operator wrote them."""
        ...

    @property
    def tags(self) -> list[str]:
        """Words, as the operator wrote them."""
        ...


class LabelsByPath(Protocol):
    """Finds the labels of a source whose bytes are gone: only its path is left."""

    def of(self, path: str) -> Labels | None:
        """Return the labels of the input that names *path*, None where none does."""
        ...


class Readable(Protocol):
    """The bytes of one source, addressed by position.

    An input makes it, grows it and says when it is over.
    """

    start: int
    """Where to start, by rule P2; what lies before it is not wanted.

    The source sets it to 0 where that turns out to be wanted.
    """

    @property
    def place(self) -> FileLocation:
        """Where the bytes are; its path is the name that their lines are known by."""
        ...

    @property
    def first_line(self) -> FirstLine | None:
        """Its first line, which is known wherever it is a source's."""
        ...

    @property
    def settings(self) -> Labels:
        """What the input says of its lines."""
        ...

    @property
    def position(self) -> int:
        """The position after the last byte given out."""
        ...

    @property
    def seen(self) -> int:
        """The position up to which bytes are known to be there."""
        ...

    @property
    def unread(self) -> int:
        """Bytes seen and not given out."""
        ...

    @property
    def has_lines(self) -> bool:
        """Whether there may be lines to give out."""
        ...

    @property
    def over(self) -> bool:
        """Whether nothing will be read from it again."""
        ...

    @property
    def last(self) -> int:
        """The number of the last position before which the bytes are known, 0 where there is
        none.
        """
        ...

    @property
    def modified_ns(self) -> int:
        """When it was changed last, as the checkpoint keeps it; 0 where nothing tells."""
        ...

    def go_to(self, number: int) -> None:
        """Read on from *number*."""
        ...

    def fits(self, number: int) -> bool:
        """Tell whether a stored *number* can be this life's (rule D4).

        Raises OSError where the bytes can't be had.
        """
        ...

    def number_at(self, position: int) -> int:
        """Return the number of *position*.

        Raises `SourceTruncatedError` where its bytes are not there.
        """
        ...

    def read(self, now: float) -> TextChunk | None:
        """Return the next lines, None where there are none.

        Raises `SourceTruncatedError` or OSError; *now* is the clock's, in seconds.
        """
        ...

    def take_back(self, chunk: TextChunk, position: int) -> None:
        """Give out again what of *chunk*, the last one read, lies behind *position*."""
        ...

    def end(self) -> None:
        """Note that nothing will be read from it again."""
        ...
