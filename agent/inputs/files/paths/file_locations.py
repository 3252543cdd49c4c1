"""Locations of files: made for a match, and checked against the disk."""

from agent.inputs.files.paths.globs import MatchedFile
from agent.sources.identity import Fingerprinter
from agent.sources.place import FileLocation
from logdrive.host.disk import Disk


class FileLocations:
    """Finds the real name and mount point of matched files."""

    def __init__(self, disk: Disk, fingerprinter: Fingerprinter) -> None:
        self._disk = disk
        self._fingerprinter = fingerprinter
        self._devices: dict[int, int] = {}  # one object for each device, for all files on it
        self._mounts: dict[tuple[str, int], str] = {}  # mount points by directory and device

    def locate_match(self, match: MatchedFile) -> FileLocation:
        """Return the location of *match*. Raises OSError if it can't be resolved."""
        stat = match.stat
        # the target of a link: it is rotated where it is
        name = match.name or self._disk.real_path(match.path)
        # path and name are kept for each file: one object where they are equal
        name = match.path if name == match.path else name
        directory = name.rpartition("/")[0] or "/"

        mount = self._mounts.get((directory, stat.device))
        if mount is None:
            mount = self._mounts[directory, stat.device] = self._fingerprinter.mount_of(directory)

        device = self._devices.setdefault(stat.device, stat.device)
        return FileLocation(match.path, name, mount, device, stat.inode, stat.birth_ns)

    def update_name(self, place: FileLocation, path: str) -> bool:
        """Set the name of a followed file to *path*, unless it is still under the old one.

        Returns whether the name was set.
        """
        if is_in_place(self._disk, place):
            return False
        place.name = self._disk.real_path(path)
        return True


def is_in_place(disk: Disk, place: FileLocation) -> bool:
    """Return whether the file of *place* is still under the name seen last."""
    try:
        return place.is_at(disk.stat(place.name))
    except OSError:
        return False
