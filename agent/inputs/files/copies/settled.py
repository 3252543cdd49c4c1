"""Copies with nothing left to read: looked at no more until they change (rule G5).

They are in the checkpoint, so that compressed files, which have to be read whole to be recognized,
are read once.
"""

from agent.sources.checkpoint.entry import CopyStamp
from agent.sources.registry import SourceRegistry
from logdrive.host.disk import FileStat


class SettledCopies:
    """The stamps of all such files, in the registry; those that scans don't find are forgotten."""

    def __init__(self, registry: SourceRegistry) -> None:
        self._registry = registry
        self._unseen: set[CopyStamp] = set()  # not found since the last complete scan began

    def add(self, stat: FileStat) -> None:
        """Add the file that *stat* describes."""
        self._registry.copies[stamp_of(stat)] = None
        self._registry.mark_changed()

    def discard(self, inode: int, birth_ns: int) -> None:
        """Have the file with *inode* and *birth_ns* looked at again, if it is one."""
        copies = self._registry.copies
        for stamp in [each for each in copies if each.inode == inode]:
            if stamp.birth_ns == birth_ns:
                del copies[stamp]
                self._registry.mark_changed()

    def has(self, stat: FileStat) -> bool:
        """Return whether the file of *stat* is one, and was not changed since."""
        copies = self._registry.copies
        if not copies or (stamp := stamp_of(stat)) not in copies:
            return False
        self._unseen.discard(stamp)
        return True

    def on_scan_ended(self) -> None:
        """Forget those that were not found since the last call, which followed a scan, too."""
        for stamp in self._unseen:
            self._registry.copies.pop(stamp, None)
        if self._unseen:
            self._registry.mark_changed()
        self._unseen = set(self._registry.copies)


def stamp_of(stat: FileStat) -> CopyStamp:
    """Return what a change of the file would change."""
    return CopyStamp(stat.inode, stat.birth_ns, stat.size, stat.modified_ns)
