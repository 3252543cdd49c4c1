"""The disk as an argument: the protocol that store and agent use, and the real one.

All calls block: code on the event loop that must not wait runs them through an `Executor`. Errors
of the system are raised as `OSError`; the caller knows what a full disk or a missing file means.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from typing import Protocol

from logdrive.host import faults
from logdrive.host.direct_file import open_direct
from logdrive.host.file import File, SystemFile
from logdrive.host.file_stat import FileStat
from logdrive.host.real_path import real_path
from logdrive.host.statx import stat_path


class Disk(Protocol):
    """Files by path. New and removed names become durable with `sync_directory`."""

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> File:
        """Open *path*; with *create* it must not exist yet.

        With *private* the new file is readable by its owner only. With *direct* appended bytes go
        past the page cache if the file system allows it: while such a file is open, and after a
        crash, up to `DIRECT_BLOCK` - 1 zeros follow its end.
        """
        ...

    def stat(self, path: str) -> FileStat:
        """Return the metadata of the file at *path*, following symbolic links."""
        ...

    def is_unchanged(self, path: str, key: tuple[int, int], size: int, modified_ns: int) -> bool:
        """Return whether the file at *path* has this device and inode (*key*), *size* bytes, and
        that time of its last change.

        It costs less than half of `stat`, but does not tell the birth time.
        """
        ...

    def names(self, directory: str) -> list[str]:
        """Return the entries of *directory*, in no order."""
        ...

    def inodes(self, directory: str) -> dict[str, int]:
        """Return the entries of *directory*, in no order, with the inodes of regular files.

        Other entries have 0. No entry is opened or stat'ed.
        """
        ...

    def replace(self, source: str, target: str) -> None:
        """Rename *source* to *target* atomically, replacing what is there."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file's name."""
        ...

    def make_directory(self, path: str) -> None:
        """Create *path* and its missing parents."""
        ...

    def try_directory(self, path: str) -> None:
        """Check that *path* can be made and written into; leaves nothing behind.

        Raises the OSError that would occur, with the path it concerns.
        """
        ...

    def sync_directory(self, path: str) -> None:
        """Return once the names in *path* are durable."""
        ...

    def lock(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Lock *path* for this process until the context ends.

        Raises BlockingIOError if another process holds the lock.
        """
        ...

    def real_path(self, path: str) -> str:
        """Return *path* without symbolic links, as far as it exists."""
        ...

    def mount_point(self, path: str) -> str:
        """Return the directory at which the file system of *path* is mounted."""
        ...


def write_atomically(
    disk: Disk, path: str, data: bytes, *, before_rename: str | None = None, private: bool = False
) -> None:
    """Write *data* to *path*: after a crash either the old or the new content is there, whole.

    *before_rename* names a fault point that is passed between the sync and the rename. With
    *private* only the owner can read the file. Raises OSError; no new file is left behind then.
    """
    temporary = write_beside(disk, path, data, private=private)
    if before_rename is not None:
        faults.reach(before_rename)
    disk.replace(temporary, path)
    disk.sync_directory(os.path.dirname(path))


def write_beside(disk: Disk, path: str, data: bytes, *, private: bool = False) -> str:
    """Write *data* durably to a new file beside *path*, and return its name.

    Raises OSError; the file is removed then.
    """
    temporary = f"{path}.new"
    # a crash may have left one
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
            disk.remove(temporary)  # the disk may be full
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
        """Open *path* for reads at an offset, and with *write* for appends."""
        # without O_NONBLOCK, opening a named pipe would wait for a writer
        flags = os.O_CLOEXEC | (os.O_RDWR | os.O_APPEND if write else os.O_RDONLY | os.O_NONBLOCK)
        descriptor = os.open(
            path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o600 if private else 0o640
        )
        return open_direct(descriptor) if direct else SystemFile(descriptor)

    def stat(self, path: str) -> FileStat:
        """Return the metadata of the file at *path*."""
        return stat_path(path)

    def is_unchanged(self, path: str, key: tuple[int, int], size: int, modified_ns: int) -> bool:
        """Return whether the file at *path* is the same, by inode, size and time of change."""
        status = os.stat(path)
        return (
            status.st_size == size
            and status.st_mtime_ns == modified_ns
            and (status.st_dev, status.st_ino) == key
        )

    def names(self, directory: str) -> list[str]:
        """Return the entries of *directory*."""
        return os.listdir(directory)

    def inodes(self, directory: str) -> dict[str, int]:
        """Return the entries of *directory* with their inodes, from the directory itself."""
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
        """Create *path* with its parents."""
        os.makedirs(path, mode=0o750, exist_ok=True)

    def try_directory(self, path: str) -> None:
        """Make the first missing directory and remove it again.

        Permission bits alone are not enough, for example in /proc.
        """
        # the uppermost directory that is missing, and the one that it would be made in
        missing, parent = "", os.path.abspath(path)
        while not os.path.lexists(parent):
            missing, parent = parent, os.path.dirname(parent)
        if not os.path.isdir(parent):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), parent)

        if missing:
            os.mkdir(missing, mode=0o750)
            with contextlib.suppress(OSError):
                os.rmdir(missing)  # fails if another process used it meanwhile
        elif not os.access(parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), parent)

    def sync_directory(self, path: str) -> None:
        """Make the names in *path* durable."""
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # some network file systems can't sync a directory, and don't need to
            if error.errno != errno.EINVAL:
                raise
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold an flock on *path*, which is created if missing.

        The kernel releases it when the process ends.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(descriptor)

    def real_path(self, path: str) -> str:
        """Return *path* without symbolic links."""
        return real_path(path)

    def mount_point(self, path: str) -> str:
        """Return the first directory, from *path* upwards, that is a mount point."""
        directory = real_path(path)
        while not os.path.ismount(directory):
            directory = os.path.dirname(directory)
        return directory


__all__ = [
    "Disk",
    "File",
    "FileStat",
    "SystemDisk",
    "SystemFile",
    "write_atomically",
    "write_beside",
]
