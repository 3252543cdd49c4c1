"""Waits for scans to look for a missing file before it counts as gone (rule G1).

A file is missing when it has no handle and its name is gone. If it was rotated into another
directory, a scan finds it there. Taken for removed too early, it would be a new source, and its
lines would be sent a second time.
"""

from typing import Final

from agent.sources.place import FileKey

_SCANS: Final = 2
"""Complete scans that must not find a file. One is not enough: it misses a file that is renamed
between the listing of a directory and the look at the file.
"""


class MissingFiles:
    """Counts scans, and remembers how many each missing file must wait for.

    A scan that was running when a file was first missed does not count for it.
    """

    def __init__(self, *, scans: bool = True) -> None:
        """Count scans; with *scans* false there are none, and a missing file is gone at once."""
        self._scans = scans
        self._running = False  # whether a scan is running
        self._ended = 0  # scans that have ended
        self._until: dict[FileKey, int] = {}  # value of _ended at which a file counts as gone
        # whether the last scan could look at all that the inputs match
        self.looked_everywhere = True

    def on_scan_started(self) -> None:
        """Note that a scan of all inputs has started."""
        self._running = True

    def on_scan_ended(self, *, looked_everywhere: bool) -> None:
        """Note that the scan has ended, and whether it could look everywhere."""
        self.looked_everywhere = looked_everywhere
        self._running = False
        self._ended += 1

    def next_complete_scan(self) -> int:
        """Return the scan that will have looked everywhere from now on, for `has_ended`."""
        return self._ended + self._running + 1

    def has_ended(self, scan: int) -> bool:
        """Return whether that scan has ended, or there are no scans."""
        return not self._scans or self._ended >= scan

    def on_file_missing(self, key: FileKey) -> bool:
        """Note that a file is not under its name; return whether it counts as gone.

        Call it at each look at the file until it returns True, or `on_file_found` is called.
        """
        until = self._until.setdefault(key, self._ended + self._running + _SCANS)
        if self._scans and self._ended < until:
            return False
        del self._until[key]
        return True

    def on_file_found(self, key: FileKey) -> None:
        """Note that a file is under its name, or is not followed any more."""
        self._until.pop(key, None)

    def __contains__(self, key: FileKey) -> bool:
        return key in self._until
