"""Finds a file again by its inode after it was renamed (rule G1).

The name seen last is tried first, then the other names in that directory, then all paths that
inputs match.
"""

import contextlib
import errno
import os
import re
from typing import Final

from agent.inputs.files.paths.globs import DirectoryListing, FileInputs
from agent.sources.identity import Fingerprinter
from agent.sources.place import FileLocation, same_birth
from logdrive.host.disk import Disk, FileStat

ROTATED: Final = re.compile(r"[.-]\d[^/]*$")
"""The part that rotation adds to a name: .1, -20261122, .1.gz."""

_SCANS: Final = 2
"""Scans of the inputs per `Locator`: a rotation may hide a file from one of them."""


class Locator:
    """Finds files by inode. What it lists is kept: make a new one for each round of looks."""

    def __init__(
        self, disk: Disk, fingerprinter: Fingerprinter, inputs: FileInputs | None = None
    ) -> None:
        """*fingerprinter* knows mount points; *inputs* are for `find_in_inputs` only."""
        self._disk = disk
        self._fingerprinter = fingerprinter
        self._inputs = inputs
        # paths by directory and inode, as the directory says, and as a look at each file does
        self._entries: dict[str, dict[int, list[str]]] = {}
        self._listed: dict[str, dict[int, list[str]]] = {}
        self._matched: dict[int, list[tuple[str, FileStat]]] = {}  # files of inputs, by inode
        self._scans = 0  # scans of the inputs so far

    def find_file(self, place: FileLocation, *, moved: bool = False) -> tuple[str, FileStat] | None:
        """Return the path and status of the file of *place*, None if its directory lacks it.

        With *moved* the device may differ, since the host may have restarted or the file system
        been mounted elsewhere; then the birth time may differ, too. On the same device another
        birth time means another file (rule G2). Raises OSError if the question can't be answered,
        for example while the file system is not mounted.
        """
        directory = place.name.rpartition("/")[0] or "/"
        if (stat := self._stat_if_same(place.name, place, moved)) is not None:
            return place.name, stat

        # without its file system, an empty mount point would look like a directory without the file
        if self._fingerprinter.mount_of(directory) != place.mount:
            raise OSError(errno.ENODEV, f"{place.mount} is not mounted")
        # where layers are one file system, a directory may tell other inodes than its files have
        for names_with_inode in (self._entries_with_inode, self._names_with_inode):
            for path in names_with_inode(directory, place.inode):
                if (stat := self._stat_if_same(path, place, moved)) is not None:
                    return path, stat

        return self._find_rotated(directory, place, moved)

    def _find_rotated(
        self, directory: str, place: FileLocation, moved: bool
    ) -> tuple[str, FileStat] | None:
        """Look again at the rotated names of the file: a rotation during a search hides it.

        A file that is not found counts as removed. So the names are tried in the order in which
        rotation moves files, and twice, which includes a name that is new meanwhile.
        """
        stem = ROTATED.sub("", place.name)
        for _ in range(2):
            for path in self._list_paths(directory, stem):
                if (stat := self._stat_if_same(path, place, moved)) is not None:
                    return path, stat
        return None

    def find_in_inputs(self, place: FileLocation) -> tuple[str, FileStat] | None:
        """Return a path that an input matches, and the status, of the file of *place*, or None.

        The first call scans the inputs; the first call that does not find its file scans them once
        more.
        """
        while True:
            for path, stat in self._matched.get(place.inode, ()):
                if (
                    same_birth(place.birth_ns, stat.birth_ns)
                    and self._fingerprinter.mount_of(os.path.dirname(self._disk.real_path(path)))
                    == place.mount
                ):
                    return path, stat

            # a file may have been rotated during the first scan
            if self._scans == _SCANS or self._inputs is None:
                return None
            self._scans += 1
            for match in self._inputs.scan_files(DirectoryListing(self._disk)):
                self._matched.setdefault(match.stat.inode, []).append((match.path, match.stat))

    def _stat_if_same(self, path: str, place: FileLocation, moved: bool) -> FileStat | None:
        """Return the status of *path*, None if the file of *place* is not there. Raises OSError."""
        try:
            stat = self._disk.stat(path)
        except FileNotFoundError:
            return None
        same = place.is_at(stat) or (
            moved and stat.is_file and stat.inode == place.inode and stat.device != place.device
        )
        return stat if same else None

    def _entries_with_inode(self, directory: str, inode: int) -> list[str]:
        """Return the paths of regular files in *directory* that have *inode* by its own account.

        A listing costs a hundredth of looks at all files: thousands may have been renamed at once.
        """
        if directory not in self._entries:
            paths: dict[int, list[str]] = {}
            with contextlib.suppress(FileNotFoundError):
                for name, one in self._disk.inodes(directory).items():
                    paths.setdefault(one, []).append(f"{directory.rstrip('/')}/{name}")
            paths.pop(0, None)  # no files
            self._entries[directory] = paths
        return self._entries[directory].get(inode, [])

    def _names_with_inode(self, directory: str, inode: int) -> list[str]:
        """Return the paths in *directory* that have *inode*; each directory is listed once."""
        if directory not in self._listed:
            paths: dict[int, list[str]] = {}
            for path in self._list_paths(directory):
                try:
                    paths.setdefault(self._disk.stat(path).inode, []).append(path)
                except OSError:
                    continue
            self._listed[directory] = paths
        return self._listed[directory].get(inode, [])

    def _list_paths(self, directory: str, stem: str = "") -> list[str]:
        """Return the paths in *directory* that begin as *stem* does, sorted."""
        above = f"{directory.rstrip('/')}/"
        begin = stem.removeprefix(above)
        try:
            names = sorted(name for name in self._disk.names(directory) if name.startswith(begin))
        except FileNotFoundError:
            return []
        return [above + name for name in names]
