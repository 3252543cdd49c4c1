"""Puts the lines of a stream together again, sans I/O.

A batch may end in the middle of a line: a line that is longer than a pack is in several, and so is
one that was sent before it was finished. In the stream, batches of other sources stand between
them. `WholeLines` holds what a batch leaves unfinished until its source's next text is there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from logdrive.model.units import MIB

HELD_BYTES: Final = 16 * MIB  # unfinished lines of all sources, with what their objects take
_PART_OBJECT: Final = 256
"""Bytes of memory that a part of a line takes beside its own, about, with its source's name."""


class SourceText(NamedTuple):
    """Text of one file, as it was written there."""

    source: str
    """Name that all text of the file has in common: its source's id; "" if it is not known."""
    text: bytes
    """Lines, the first and the last of which may be parts of a line."""


@dataclass(slots=True)
class _Unfinished:
    """The beginning of a line."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0  # bytes that they count for the limit


class WholeLines:
    """Returns the text of several sources such that no line has another source's text in it.

    Adds nothing and leaves nothing out, and keeps each source's order. Beyond *limit* bytes the
    line that was begun first is returned unfinished, so that there is a bound on memory.
    """

    def __init__(self, on_cut: Callable[[str], None], *, limit: int = HELD_BYTES) -> None:
        """*on_cut* is called with a source when a line of it is returned unfinished: once each."""
        self._on_cut = on_cut
        self._limit = limit
        self._held: dict[str, _Unfinished] = {}  # by source, in the order in which they began
        self._size = 0  # sum over them
        self._cut: set[str] = set()  # sources of which *on_cut* was told

    def receive_text(self, source: str, text: bytes) -> list[bytes]:
        """Add the next *text* of *source*; return what is to be printed now, in order.

        Text is copied only from its last line end on.
        """
        ready: list[bytes] = []
        if whole := text.rfind(b"\n") + 1:
            ready += self._release(source)
            ready.append(text[:whole])
        if whole < len(text):
            self._hold(source, text[whole:])
        while self._size > self._limit:
            ready += self._cut_oldest()
        return ready

    def take_rest(self) -> list[bytes]:
        """Return the lines that were never finished, in the order in which they began."""
        return [part for source in list(self._held) for part in self._release(source)]

    def _hold(self, source: str, part: bytes) -> None:
        size = len(part) + _PART_OBJECT
        line = self._held.setdefault(source, _Unfinished())
        line.parts.append(part)
        line.size += size
        self._size += size

    def _release(self, source: str) -> list[bytes]:
        line = self._held.pop(source, None)
        if line is None:
            return []
        self._size -= line.size
        return line.parts

    def _cut_oldest(self) -> list[bytes]:
        source = next(iter(self._held))
        if source not in self._cut:
            self._cut.add(source)
            self._on_cut(source)
        return self._release(source)
