"""Where a file is now that was known under some name: there, in that directory, where inputs look,
or nowhere (rule G1).
"""

import errno
import os
import re
from typing import Final

from agent.inputs.files.globs import FileInputs, Listing
from agent.sources.identity import Fingerprinter
from agent.sources.place import FileLocation, same_birth
from logdrive.host.disk import Disk, FileStat

ROTATED: Final = re.compile(r"[.-]\d[^/]*$")
"""What rotation adds to a name: .1, -20261122, .1.gz."""

_SCANS: Final = 2


class Locator:
    """Looks for files by inode.

    *namer* tells whether their file system is there at all, *inputs* where else they may be.
    """

    def __init__(self, disk: Disk, namer: Fingerprinter, inputs: FileInputs | None = None) -> None:
        self._disk, self._namer, self._inputs = disk, namer, inputs
        self._listed: dict[str, dict[int, list[str]]] = {}
        self._named: dict[int, list[tuple[str, FileStat]]] = {}
        self._scans = 0

    def find(self, place: FileLocation, *, moved: bool = False) -> tuple[str, FileStat] | None:
        """Return where the file of *place* is and what it is, None where it is nowhere.

        With *moved* the host may have been started anew, or its file system moved: another device
        is none of the file's business, nor is a birth time on another device. On the same device
        another birth time is another file (rule G2). Raises OSError where that can't be told, such
        as while its file system is not mounted.
        """
        directory = place.name.rpartition("/")[0] or "/"
        if (stat := self._stat(place.name, place, moved)) is not None:
            return place.name, stat
        if self._namer.mount_of(directory) != place.mount:
            raise OSError(errno.ENODEV, f"{place.mount} is not mounted")
        for path in self._others(directory, place.inode):
            if (stat := self._stat(path, place, moved)) is not None:
                return path, stat
        return self._rotated_meanwhile(directory, place, moved)

    def _rotated_meanwhile(
        self, directory: str, place: FileLocation, moved: bool
    ) -> tuple[str, FileStat] | None:
        """Look again at names like its own: one rotation between two looks hides a file, and what
        is not found is taken for removed.

        In the order in which rotation moves files, and twice: then even a name that comes meanwhile
        is looked at.
        """
        stem = ROTATED.sub("", place.name)
        for _ in range(2):
            for path in self._paths(directory):
                if path.startswith(stem) and (stat := self._stat(path, place, moved)) is not None:
                    return path, stat
        return None

    def find_elsewhere(self, place: FileLocation) -> tuple[str, FileStat] | None:
        """Return where in other directories the inputs name the file of *place*, None where they
        don't.

        Takes a scan, for the first one, and another for the first one not found: a rotation may
        hide a file from one of them.
        """
        while True:
            for path, stat in self._named.get(place.inode, ()):
                if (
                    same_birth(place.birth_ns, stat.birth_ns)
                    and self._namer.mount_of(os.path.dirname(self._disk.real_path(path)))
                    == place.mount
                ):
                    return path, stat
            if self._scans == _SCANS or self._inputs is None:
                return None
            self._scans += 1
            for found in self._inputs.scan(Listing(self._disk)):
                self._named.setdefault(found.stat.inode, []).append((found.path, found.stat))

    def _stat(self, path: str, place: FileLocation, moved: bool) -> FileStat | None:
        try:
            stat = self._disk.stat(path)
        except FileNotFoundError:
            return None
        same = place.is_at(stat) or (
            moved and stat.is_file and stat.inode == place.inode and stat.device != place.device
        )
        return stat if same else None

    def _others(self, directory: str, inode: int) -> list[str]:
        """Return the names in *directory* that have *inode*; it is listed once, so many files can
        be looked for.
        """
        if directory not in self._listed:
            found: dict[int, list[str]] = {}
            for path in self._paths(directory):
                try:
                    found.setdefault(self._disk.stat(path).inode, []).append(path)
                except OSError:
                    continue
            self._listed[directory] = found
        return self._listed[directory].get(inode, [])

    def _paths(self, directory: str) -> list[str]:
        try:
            return [
                f"{directory.rstrip('/')}/{name}" for name in sorted(self._disk.names(directory))
            ]
        except FileNotFoundError:
            return []
