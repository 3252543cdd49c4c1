"""Files as an argument: what store, agent and checkpoint may do with a disk, and the real one.

All calls block; whoever must not wait runs them through an `Executor`. Foreign errors come out as
`OSError`, since what a full disk or a missing file means is the caller's to say.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from typing import Protocol

from logdrive.host import faults
from logdrive.host.direct_file import open_direct
from logdrive.host.file import File, FileStat, SystemFile, file_stat
from logdrive.host.statx import stat_path


class Disk(Protocol):
    """Paths to files. Names become durable with `sync_directory`."""

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> File:
        """Open *path*; with *create* it must not exist yet, and with *private* it is then for its
        owner only.

        With *direct*, what is appended goes past the page cache where the file system lets it.
        While such a file is open, and after a crash, up to `DIRECT_BLOCK` - 1 zeros follow its end.
        """
        ...

    def stat(self, path: str) -> FileStat:
        """Return what stands at *path*, following symbolic links."""
        ...

    def names(self, directory: str) -> list[str]:
        """Return the entries of *directory*, in no order."""
        ...

    def inodes(self, directory: str) -> dict[str, int]:
        """Return the entries of *directory*, in no order, with the inodes of regular files, 0 for
        others; they are not looked at.
        """
        ...

    def replace(self, source: str, target: str) -> None:
        """Rename, atomically, over what may be there."""
        ...

    def remove(self, path: str) -> None:
        """Unlink a file."""
        ...

    def make_directory(self, path: str) -> None:
        """Create *path* and its parents where missing."""
        ...

    def try_directory(self, path: str) -> None:
        """Raise the OSError, naming the place, for which *path* can't be made or written into;
        nothing is left behind.
        """
        ...

    def sync_directory(self, path: str) -> None:
        """Return once the names in *path* are durable."""
        ...

    def lock(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Hold *path* for this process alone until the context ends; raises BlockingIOError where
        another one has it.
        """
        ...

    def real_path(self, path: str) -> str:
        """Return *path* as it is without symbolic links, those followed of which there is
        something.
        """
        ...

    def mount_point(self, path: str) -> str:
        """Return the directory at which the file system of *path* is mounted."""
        ...


def words_of(error: OSError) -> str:
    """Return what a file system said, and of which file, without its number."""
    reason = error.strerror or str(error)
    return f"{reason}: {os.fsdecode(error.filename)}" if error.filename is not None else reason


def write_atomically(
    disk: Disk, path: str, data: bytes, *, before_rename: str | None = None, private: bool = False
) -> None:
    """Put *data* at *path* so that after a crash either the old or the new content is there, whole.

    *before_rename* names a fault point to pass between the sync and the rename; *private*: for the
    owner only. Raises OSError, having left nothing new behind.
    """
    temporary = write_beside(disk, path, data, private=private)
    if before_rename is not None:
        faults.reach(before_rename)
    disk.replace(temporary, path)
    disk.sync_directory(os.path.dirname(path))


def write_beside(disk: Disk, path: str, data: bytes, *, private: bool = False) -> str:
    """Put *data* into a new file beside *path*, its content durable, and return its name.

    Raises OSError, having left none behind.
    """
    temporary = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        disk.remove(temporary)
    file = disk.open(temporary, write=True, create=True, private=private)
    try:
        try:
            file.append([data])
            file.datasync()
        finally:
            file.close()
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove(temporary)  # on a full disk others need the room more
        raise
    return temporary


class SystemDisk:
    """The machine's file systems."""

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> SystemFile:
        """Open *path* for positioned reads, and for appends with *write*."""
        flags = os.O_CLOEXEC | (os.O_RDWR | os.O_APPEND if write else os.O_RDONLY | os.O_NONBLOCK)
        descriptor = os.open(
            path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o600 if private else 0o640
        )
        return open_direct(descriptor) if direct else SystemFile(descriptor)

    def stat(self, path: str) -> FileStat:
        """Return what stands at *path*."""
        return file_stat(stat_path(path))

    def names(self, directory: str) -> list[str]:
        """Return the entries of *directory*."""
        return os.listdir(directory)

    def inodes(self, directory: str) -> dict[str, int]:
        """Return the entries of *directory* with their inodes, as the directory itself has them."""
        with os.scandir(directory) as entries:
            return {
                entry.name: entry.inode() if entry.is_file(follow_symlinks=False) else 0
                for entry in entries
            }

    def replace(self, source: str, target: str) -> None:
        """Rename atomically."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink."""
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create with parents."""
        os.makedirs(path, mode=0o750, exist_ok=True)

    def try_directory(self, path: str) -> None:
        """Make the first directory that is missing and take it away again: permissions alone don't
        tell, as in /proc.
        """
        missing, place = "", os.path.abspath(path)
        while not os.path.lexists(place):
            missing, place = place, os.path.dirname(place)
        if not os.path.isdir(place):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)
        if missing:
            os.mkdir(missing, mode=0o750)
            with contextlib.suppress(OSError):
                os.rmdir(missing)  # unless somebody has put something there meanwhile
        elif not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)

    def sync_directory(self, path: str) -> None:
        """Make the names in *path* durable."""
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # some network file systems can't sync a directory and need not
            if error.errno != errno.EINVAL:
                raise
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold an flock on *path*, created where missing; the kernel drops it when the process
        dies.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(descriptor)

    def real_path(self, path: str) -> str:
        """Return *path* without symbolic links."""
        return os.path.realpath(path)

    def mount_point(self, path: str) -> str:
        """Walk up from *path* to the first directory that is a mount point."""
        place = os.path.realpath(path)
        while not os.path.ismount(place):
            place = os.path.dirname(place)
        return place


__all__ = [
    "Disk",
    "File",
    "FileStat",
    "SystemDisk",
    "SystemFile",
    "words_of",
    "write_atomically",
    "write_beside",
]
