"""The log's files: which there are, where each begins and ends, and how much of each still belongs
to a segment.
"""

import os
import re
import sys
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from typing import Final

from logdrive.store.log.format import ENTRY_HEAD

_NAME: Final = re.compile(r"log-([0-9a-f]{16})")


def file_name(base: int) -> str:
    """Return the name of the log file that begins at position *base*."""
    return f"log-{base:016x}"


def bases_in(names: Sequence[str]) -> list[int]:
    """Return the bases of the log files among *names*, in order."""
    return sorted(int(found[1], 16) for name in names if (found := _NAME.fullmatch(name)))


class LogFiles:
    """The files by their bases, in order.

    Changed by whoever commits, one at a time; read by others.

    *ends* has the end of every file but the last, *live* how many bytes of each belong to segments,
    heads of entries included. *changed* is set whenever a file may have become one to be freed.
    """

    def __init__(
        self, directory: str, bases: Sequence[int], ends: Mapping[int, int] | None = None
    ) -> None:
        self.directory = directory
        self.bases = list(bases)
        self.ends = dict(ends or {})
        self.live = dict.fromkeys(bases, 0)
        self.changed = True

    def base_of(self, position: int) -> int:
        """Return the base of the file that holds *position*."""
        return self.bases[bisect_right(self.bases, position) - 1]

    def span_of(self, position: int) -> tuple[int, int]:
        """Return the base of the file that holds *position*, and where the next file begins."""
        at = bisect_right(self.bases, position)
        return self.bases[at - 1], self.bases[at] if at < len(self.bases) else sys.maxsize

    def path(self, base: int) -> str:
        """Return where the file of *base* stands."""
        return os.path.join(self.directory, file_name(base))

    def begin_file(self, base: int) -> None:
        """Let the last file end at *base*, where the next one begins."""
        if self.bases:
            self.ends[self.bases[-1]] = base
        self.add_file(base)

    def add_file(self, base: int) -> None:
        """Add a file that is there, in its place."""
        insort(self.bases, base)
        self.live[base] = 0
        self.changed = True

    def add_unknown_file(self, base: int) -> None:
        """Take in a file that is there, unless it is known."""
        if base > self.bases[-1]:
            self.begin_file(base)
        elif base not in self.live:
            self.add_file(base)

    def remove_file(self, base: int) -> None:
        """Take a file out that is there no more."""
        self.bases.remove(base)
        self.ends.pop(base, None)
        del self.live[base]

    def add_live(self, place: int, length: int) -> None:
        """Count an entry whose *length* bytes at *place* belong to a segment."""
        self.live[self.base_of(place)] += ENTRY_HEAD + length

    def remove_live(self, place: int, length: int, entries: int) -> None:
        """Count *entries* out again that have *length* bytes together and lie in the file of
        *place*.
        """
        self.live[self.base_of(place)] -= ENTRY_HEAD * entries + length
        self.changed = True
