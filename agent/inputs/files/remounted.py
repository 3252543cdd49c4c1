"""Finds followed files again whose file system came back under another device number.

Device and inode tell a file from all others only while its file system is mounted. NFS, loop
devices and volumes get another number with each mount. Without this, the file would be a new one
there, and its lines would be sent a second time.
"""

import os
from collections.abc import Callable, MutableMapping

from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.paths.globs import MatchedFile
from agent.inputs.files.paths.missing import MissingFiles
from agent.sources.identity import Fingerprinter
from agent.sources.place import FileKey, same_birth
from logdrive.host.disk import Disk, FileStat


class RemountedFiles:
    """Files of *followed* that are out of reach, by inode; moves them to their new device."""

    def __init__(
        self,
        followed: MutableMapping[FileKey, FollowedFile],
        missing: MissingFiles,
        disk: Disk,
        fingerprinter: Fingerprinter,
    ) -> None:
        self._followed = followed  # all followed files, the tailer's own
        self._missing = missing  # files for which scans look
        self._disk = disk
        self._fingerprinter = fingerprinter  # knows mount points
        self._out_of_reach: dict[int, FollowedFile] = {}  # closed ones whose last look failed
        self._devices: set[int] = set()  # of all files ever followed

    def on_look_failed(self, followed: FollowedFile) -> None:
        """Note that a look at a file failed; it counts only if the file is closed."""
        generation = followed.generation
        if generation.file is None:
            self._out_of_reach[generation.place.inode] = followed

    def on_looked(self, followed: FollowedFile) -> None:
        """Note that a file was looked at, or ended."""
        self._out_of_reach.pop(followed.generation.place.inode, None)

    def on_device(self, device: int) -> None:
        """Note that a followed file is on *device*."""
        self._devices.add(device)

    def move_returned(self, match: MatchedFile, look_at_all: Callable[[], None]) -> bool:
        """Move the file out of reach that *match* is to its new device; False without such.

        *look_at_all* looks at all files: on a new device, the handles of some may be stale by now.
        """
        if match.stat.device not in self._devices and self._followed:
            self._devices.add(match.stat.device)
            look_at_all()
        followed = self._out_of_reach.get(match.stat.inode)
        if followed is None or followed.dropped:
            return False
        return self.move_to_device(followed, self._disk.real_path(match.path), match.stat)

    def move_to_device(self, followed: FollowedFile, name: str, stat: FileStat) -> bool:
        """Move *followed* to the device of *stat*, the status of the file *name*, if it is the
        same file; return whether it is. Its bytes are compared when it is read (rule G4).
        """
        place = followed.generation.place
        key = stat.device, stat.inode
        if (
            key in self._followed
            or not same_birth(stat.birth_ns, place.birth_ns)
            or self._fingerprinter.mount_of(os.path.dirname(name)) != place.mount
        ):
            return False

        self._missing.on_file_found(place.key)
        if self._followed.get(place.key) is followed:
            del self._followed[place.key]
        place.device, place.name = stat.device, name
        place.birth_ns = stat.birth_ns or place.birth_ns
        self._followed[key] = followed
        self.on_looked(followed)
        return True
