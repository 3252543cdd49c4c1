"""Files without a handle whose name is gone: scans look for them before they are given up (rule
G1).

A file that was rotated into another directory must not be taken for removed: it would be found
there, and sent a second time.
"""

from typing import Final

from agent.sources.place import FileKey

_SCANS: Final = 2
"""Whole scans that have to miss a file: one alone may pass it by, when it is renamed between a
listing and a look.
"""


class MissingFiles:
    """Counts scans, and since which of them a file is missed.

    Without *scans*, as in `ship`, nothing looks elsewhere.
    """

    def __init__(self, *, scans: bool = True) -> None:
        self._scans = scans
        self._running = False
        self._ended = 0
        self._until: dict[FileKey, int] = {}  # after how many scans a file is given up

    def scan_begins(self) -> None:
        """Take notice that a scan of all inputs begins."""
        self._running = True

    def scan_ended(self) -> None:
        """Take notice that it has looked everywhere."""
        self._running = False
        self._ended += 1

    def gone(self, key: FileKey) -> bool:
        """Take notice that a file is not where it was; tell whether it was looked for everywhere
        since it was missed first.
        """
        until = self._until.setdefault(key, self._ended + self._running + _SCANS)
        if self._scans and self._ended < until:
            return False
        del self._until[key]
        return True

    def found(self, key: FileKey) -> None:
        """Take notice that a file is where it is thought to be."""
        self._until.pop(key, None)

    def __contains__(self, key: FileKey) -> bool:
        return key in self._until
