"""The log's files: their ranges in the log, and how much of each still belongs to a segment."""

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
    return sorted(int(match[1], 16) for name in names if (match := _NAME.fullmatch(name)))


class LogFiles:
    """The log files, by their bases, in order.

    Only the commit loop changes it; others read it. *ends* has the end of every file but the last.
    *live* has how many bytes of each file belong to segments, entries' heads included. *changed* is
    set whenever a file may have become reclaimable.
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
        """Return the base of the file that holds *position*, and the base of the next file."""
        at = bisect_right(self.bases, position)
        return self.bases[at - 1], self.bases[at] if at < len(self.bases) else sys.maxsize

    def path(self, base: int) -> str:
        """Return the path of the file of *base*."""
        return os.path.join(self.directory, file_name(base))

    def begin_file(self, base: int) -> None:
        """Add a file that begins at *base*, where the last one ends."""
        if self.bases:
            self.ends[self.bases[-1]] = base
        self.add_file(base)

    def add_file(self, base: int) -> None:
        """Add a file that exists, at its place in the order."""
        insort(self.bases, base)
        self.live[base] = 0
        self.changed = True

    def add_unknown_file(self, base: int) -> None:
        """Add a file that exists, unless it is known."""
        if base > self.bases[-1]:
            self.begin_file(base)
        elif base not in self.live:
            self.add_file(base)

    def remove_file(self, base: int) -> None:
        """Remove a file that no longer exists."""
        self.bases.remove(base)
        self.ends.pop(base, None)
        del self.live[base]

    def search_again(self) -> None:
        """Have the files searched once more for one to reclaim."""
        self.changed = True

    def on_searched(self) -> None:
        """Note that the files were searched for one to reclaim."""
        self.changed = False

    def add_live(self, place: int, length: int) -> None:
        """Count an entry with *length* bytes of data at *place* as live."""
        self.live[self.base_of(place)] += ENTRY_HEAD + length

    def remove_live(self, place: int, length: int, entries: int) -> None:
        """Count *entries* entries with *length* bytes of data together as no longer live.

        All are in the file of *place*.
        """
        self.live[self.base_of(place)] -= ENTRY_HEAD * entries + length
        self.changed = True
