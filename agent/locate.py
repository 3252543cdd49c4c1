"""Where a file is now that was known under some name: there, under another name in that directory, or nowhere (rule G1)."""

import errno

from agent.generation import Place
from agent.origin import Namer
from logdrive.disk import Disk, FileStat


class Locator:
    """Looks for files by inode. *namer* tells whether their file system is there at all."""

    def __init__(self, disk: Disk, namer: Namer) -> None:
        self._disk, self._namer = disk, namer
        self._listed: dict[str, dict[int, list[str]]] = {}

    def find(self, place: Place, *, moved: bool = False) -> tuple[str, FileStat] | None:
        """Return where the file of *place* is and what it is, None where it is nowhere.

        With *moved* device and birth time count for nothing: the host may have been started anew or moved (rule G2).
        Raises OSError where that can't be told, such as while its file system is not mounted.
        """
        directory = place.name.rpartition("/")[0] or "/"
        if (stat := self._stat(place.name, place, moved)) is not None:
            return place.name, stat
        if self._namer.mount_of(directory) != place.mount:
            raise OSError(errno.ENODEV, f"{place.mount} is not mounted")
        for path in self._others(directory, place.inode):
            if (stat := self._stat(path, place, moved)) is not None:
                return path, stat
        return None

    def _stat(self, path: str, place: Place, moved: bool) -> FileStat | None:
        try:
            stat = self._disk.stat(path)
        except FileNotFoundError:
            return None
        same = place.is_at(stat) or (moved and stat.is_file and stat.inode == place.inode)
        return stat if same else None

    def _others(self, directory: str, inode: int) -> list[str]:
        """Return the names in *directory* that have *inode*; it is listed once, so many files can be looked for."""
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
            return [f"{directory.rstrip('/')}/{name}" for name in sorted(self._disk.names(directory))]
        except FileNotFoundError:
            return []
