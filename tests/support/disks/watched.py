"""A `Disk` that reports every call before and after it, so that a test may act between two calls.

It passes all calls on to another disk, usually a `MemoryDisk`. The program under test has this one;
other programs on its host use the disk beneath, whose calls are not reported.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from logdrive.host.disk import Disk
from logdrive.host.file import File, PartsStage
from logdrive.host.file_stat import FileStat
from logdrive.model.framing import Part

CHANGES: Final = frozenset(
    (
        "create",
        "append",
        "datasync",
        "truncate",
        "replace",
        "remove",
        "make_directory",
        "sync_directory",
    )
)
"""The calls that change a disk, or what of it is durable."""


class Watcher(Protocol):
    """Is called around each call; *path* is the name that a file had when it was opened."""

    def before(self, call: str, path: str) -> None:
        """Act before a call; an OSError that is raised here is what the caller gets."""
        ...

    def after(self, call: str, path: str) -> None:
        """Act after a call that went well."""
        ...


class WatchedFile:
    """An open file of a `WatchedDisk`."""

    def __init__(self, disk: "WatchedDisk", path: str, file: File) -> None:
        self._disk, self._path, self._file = disk, path, file

    def pread(self, size: int, offset: int) -> bytes:
        """Return bytes from *offset*."""
        self._disk.before("pread", self._path)
        data = self._file.pread(size, offset)
        self._disk.after("pread", self._path)
        return data

    def find_data(self, offset: int) -> int:
        """Return where the first byte is, from *offset* on, that is not in a hole."""
        return self._file.find_data(offset)

    def append(self, parts: Sequence[Part]) -> None:
        """Write at the end."""
        self._disk.before("append", self._path)
        self._file.append(parts)
        self._disk.after("append", self._path)

    def stage(self, room: int) -> PartsStage:
        """Return a stage for what comes at the end."""
        return PartsStage(self)

    def datasync(self) -> None:
        """Make the data durable."""
        self._disk.before("datasync", self._path)
        self._file.datasync()
        self._disk.after("datasync", self._path)

    def truncate(self, size: int) -> None:
        """Cut the file."""
        self._disk.before("truncate", self._path)
        self._file.truncate(size)
        self._disk.after("truncate", self._path)

    def stat(self) -> FileStat:
        """Return what the file is."""
        self._disk.before("fstat", self._path)
        stat = self._file.stat()
        self._disk.after("fstat", self._path)
        return stat

    def is_unchanged(self, size: int, modified_ns: int) -> bool:
        """Return whether the file is as it was."""
        self._disk.before("fstat", self._path)
        unchanged = self._file.is_unchanged(size, modified_ns)
        self._disk.after("fstat", self._path)
        return unchanged

    def close(self) -> None:
        """Give the handle back."""
        self._file.close()


class WatchedDisk:
    """Passes every call on to *disk*, and reports it to *watcher* unless that is None."""

    def __init__(self, disk: Disk, watcher: Watcher | None) -> None:
        self._disk = disk
        self.watcher = watcher

    def before(self, call: str, path: str) -> None:
        """Report that *call* is about to be made."""
        if self.watcher is not None:
            self.watcher.before(call, path)

    def after(self, call: str, path: str) -> None:
        """Report that *call* was made."""
        if self.watcher is not None:
            self.watcher.after(call, path)

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> WatchedFile:
        """Open *path*."""
        call = "create" if create else "open"
        self.before(call, path)
        file = self._disk.open(path, write=write, create=create, private=private, direct=direct)
        self.after(call, path)
        return WatchedFile(self, path, file)

    def stat(self, path: str) -> FileStat:
        """Return the stat of *path*."""
        self.before("stat", path)
        stat = self._disk.stat(path)
        self.after("stat", path)
        return stat

    def is_unchanged(self, path: str, key: tuple[int, int], size: int, modified_ns: int) -> bool:
        """Return whether the file at *path* is as it was."""
        self.before("stat", path)
        unchanged = self._disk.is_unchanged(path, key, size, modified_ns)
        self.after("stat", path)
        return unchanged

    def names(self, directory: str) -> list[str]:
        """Return the entries of *directory*."""
        self.before("names", directory)
        names = self._disk.names(directory)
        self.after("names", directory)
        return names

    def inodes(self, directory: str) -> dict[str, int]:
        """Return the entries of *directory* with their inodes."""
        self.before("names", directory)
        inodes = self._disk.inodes(directory)
        self.after("names", directory)
        return inodes

    def try_directory(self, path: str) -> None:
        """Check whether *path* can be made."""
        self._disk.try_directory(path)

    def replace(self, source: str, target: str) -> None:
        """Rename."""
        self.before("replace", target)
        self._disk.replace(source, target)
        self.after("replace", target)

    def remove(self, path: str) -> None:
        """Unlink."""
        self.before("remove", path)
        self._disk.remove(path)
        self.after("remove", path)

    def make_directory(self, path: str) -> None:
        """Create *path* and its parents."""
        self.before("make_directory", path)
        self._disk.make_directory(path)
        self.after("make_directory", path)

    def sync_directory(self, path: str) -> None:
        """Make the names in *path* durable."""
        self.before("sync_directory", path)
        self._disk.sync_directory(path)
        self.after("sync_directory", path)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold *path*."""
        with self._disk.lock(path):
            yield

    def real_path(self, path: str) -> str:
        """Return *path* without symbolic links."""
        return self._disk.real_path(path)

    def mount_point(self, path: str) -> str:
        """Return where the file system of *path* is mounted."""
        return self._disk.mount_point(path)
