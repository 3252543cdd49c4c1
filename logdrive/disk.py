"""Files as an argument: what store, agent and checkpoint may do with a disk, and the real one.

All calls block; whoever must not wait runs them through an `Executor`. Foreign errors come out as `OSError`, since what a
full disk or a missing file means is the caller's to say.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from logdrive import faults
from logdrive.limits import KIB, MIB
from logdrive.record import Part
from logdrive.statx import THIS_DIRECTORY, birth_ns


@dataclass(frozen=True, slots=True)
class FileStat:
    """What identity and growth are judged by. *birth_ns* is 0 where the file system keeps no birth time (rule G2)."""

    device: int
    inode: int
    size: int
    links: int
    modified_ns: int
    birth_ns: int
    is_file: bool


class File(Protocol):
    """An open file. Reads are positioned; writes go to the end."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*; fewer only at the end of the file."""
        ...

    def append(self, parts: Sequence[Part]) -> None:
        """Write all *parts* at the end, in few system calls. After an error the end is undefined."""
        ...

    def datasync(self) -> None:
        """Return once what was appended is durable."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to *size* bytes."""
        ...

    def stat(self) -> FileStat:
        """Return what the file is now, wherever its name went."""
        ...

    def close(self) -> None:
        """Give the handle back."""
        ...


class Disk(Protocol):
    """Paths to files. Names become durable with `sync_directory`."""

    def open(self, path: str, *, write: bool = False, create: bool = False, private: bool = False, direct: bool = False) -> File:
        """Open *path*; with *create* it must not exist yet, and with *private* it is then for its owner only.

        With *direct*, what is appended goes past the page cache where the file system lets it. While such a file is open, and
        after a crash, up to `DIRECT_BLOCK` - 1 zeros follow its end.
        """
        ...

    def stat(self, path: str) -> FileStat:
        """Return what stands at *path*, following symbolic links."""
        ...

    def names(self, directory: str) -> list[str]:
        """Return the entries of *directory*, in no order."""
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

    def sync_directory(self, path: str) -> None:
        """Return once the names in *path* are durable."""
        ...

    def lock(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Hold *path* for this process alone until the context ends; raises BlockingIOError where another one has it."""
        ...

    def real_path(self, path: str) -> str:
        """Return *path* as it is without symbolic links, those followed of which there is something."""
        ...

    def mount_point(self, path: str) -> str:
        """Return the directory at which the file system of *path* is mounted."""
        ...


def words_of(error: OSError) -> str:
    """Return what a file system said, and of which file, without its number."""
    reason = error.strerror or str(error)
    return f"{reason}: {os.fsdecode(error.filename)}" if error.filename is not None else reason


def write_atomically(disk: Disk, path: str, data: bytes, *, before_rename: str | None = None, private: bool = False) -> None:
    """Put *data* at *path* so that after a crash either the old or the new content is there, whole.

    *before_rename* names a fault point to pass between the sync and the rename; *private*: for the owner only. Raises OSError,
    having left nothing new behind.
    """
    temporary = write_beside(disk, path, data, private=private)
    if before_rename is not None:
        faults.reach(before_rename)
    disk.replace(temporary, path)
    disk.sync_directory(os.path.dirname(path))


def write_beside(disk: Disk, path: str, data: bytes, *, private: bool = False) -> str:
    """Put *data* into a new file beside *path*, its content durable, and return its name. Raises OSError, having left none behind."""
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


DIRECT_BLOCK: Final = 4 * KIB
"""What a file that is written past the page cache is written in; file systems with larger blocks take it too."""
_DIRECT_BYTES: Final = 4 * MIB  # copied and written at a time
_IOV_MAX: Final = 1024


def _file_stat(found: os.stat_result, birth_ns: int) -> FileStat:
    return FileStat(
        device=found.st_dev,
        inode=found.st_ino,
        size=found.st_size,
        links=found.st_nlink,
        modified_ns=found.st_mtime_ns,
        birth_ns=birth_ns,
        is_file=stat.S_ISREG(found.st_mode),
    )


class SystemFile:
    """A file descriptor. The birth time, which can't change, is asked for once."""

    __slots__ = ("_birth_ns", "_descriptor")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._birth_ns: int | None = None

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*."""
        return os.pread(self._descriptor, size, offset)

    def append(self, parts: Sequence[Part]) -> None:
        """Write all parts at the end."""
        for start in range(0, len(parts), _IOV_MAX):
            self._write_all(parts[start : start + _IOV_MAX])

    def _write_all(self, parts: Sequence[Part]) -> None:
        wanted = sum(map(len, parts))
        written = os.writev(self._descriptor, parts)
        if written < wanted:  # a signal or a nearly full disk: rare, so the copy does not matter
            rest = memoryview(b"".join(parts))[written:]
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def datasync(self) -> None:
        """Return once the data is durable."""
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        """Cut the file."""
        os.ftruncate(self._descriptor, size)

    def stat(self) -> FileStat:
        """Return what the file is now."""
        if self._birth_ns is None:
            self._birth_ns = birth_ns(self._descriptor, b"")
        return _file_stat(os.fstat(self._descriptor), self._birth_ns)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class DirectFile(SystemFile):
    """A file written past the page cache (O_DIRECT), which saves a copy and the kernel's work for each page.

    The kernel takes whole blocks only, from aligned memory. So the file's last block is kept here, written again with what comes
    after it, and filled up with zeros on the disk; these are cut off when the file is closed. Bytes of it that were durable
    are written again as they were, which is also what the page cache does with them.
    """

    __slots__ = ("_buffer", "_size")

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._buffer = mmap.mmap(-1, _DIRECT_BYTES)
        self._size = os.fstat(descriptor).st_size
        self._load()

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*; costs a copy more than elsewhere."""
        skip = offset % DIRECT_BLOCK
        size = max(0, min(size, self._size - offset))
        with mmap.mmap(-1, skip + size + -(skip + size) % DIRECT_BLOCK or DIRECT_BLOCK) as room, memoryview(room) as view:
            os.preadv(self._descriptor, [view], offset - skip)
            return bytes(view[skip : skip + size])

    def append(self, parts: Sequence[Part]) -> None:
        """Write all parts at the end, 4 MiB a call."""
        buffer, used = self._buffer, self._size % DIRECT_BLOCK
        at = self._size - used
        for part in parts:
            taken = 0
            while len(part) - taken >= _DIRECT_BYTES - used:
                count = _DIRECT_BYTES - used
                buffer[used:] = part[taken : taken + count]
                self._write(_DIRECT_BYTES, at)
                at, taken, used = at + _DIRECT_BYTES, taken + count, 0
            count = len(part) - taken
            buffer[used : used + count] = part[taken:] if taken else part
            used += count
        padding = -used % DIRECT_BLOCK
        buffer[used : used + padding] = bytes(padding)
        self._write(used + padding, at)
        rest = used % DIRECT_BLOCK
        buffer[:rest] = buffer[used - rest : used]
        self._size = at + used

    def truncate(self, size: int) -> None:
        """Cut the file."""
        os.ftruncate(self._descriptor, size)
        self._size = size
        self._load()

    def stat(self) -> FileStat:
        """Return what the file is now, without the zeros that fill its last block up."""
        found = super().stat()
        return found if found.size > self._size + DIRECT_BLOCK else replace(found, size=self._size)

    def close(self) -> None:
        """Cut the zeros off, as far as the disk lets us, and close the descriptor."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._size)
        self._buffer.close()
        super().close()

    def _load(self) -> None:
        """Keep the block that the next write begins in."""
        with memoryview(self._buffer) as view:
            os.preadv(self._descriptor, [view[:DIRECT_BLOCK]], self._size - self._size % DIRECT_BLOCK)

    def _write(self, size: int, at: int) -> None:
        done = 0
        with memoryview(self._buffer) as view:
            while done < size:
                done += os.pwrite(self._descriptor, view[done:size], at + done)


def _past_the_cache(descriptor: int) -> SystemFile:
    """Return the file to be written past the page cache; as usual where its file system can't do that, or wants other blocks."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_APPEND | os.O_DIRECT)  # `pwrite` would write at the end with O_APPEND
        return DirectFile(descriptor)  # reads a block first
    except (OSError, AttributeError):  # no O_DIRECT outside Linux
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
        return SystemFile(descriptor)


class SystemDisk:
    """The machine's file systems."""

    def open(self, path: str, *, write: bool = False, create: bool = False, private: bool = False, direct: bool = False) -> SystemFile:
        """Open *path* for positioned reads, and for appends with *write*."""
        flags = os.O_CLOEXEC | (os.O_RDWR | os.O_APPEND if write else os.O_RDONLY | os.O_NONBLOCK)
        descriptor = os.open(path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o600 if private else 0o640)
        return _past_the_cache(descriptor) if direct else SystemFile(descriptor)

    def stat(self, path: str) -> FileStat:
        """Return what stands at *path*."""
        return _file_stat(os.stat(path), birth_ns(THIS_DIRECTORY, os.fsencode(path)))

    def names(self, directory: str) -> list[str]:
        """Return the entries of *directory*."""
        return os.listdir(directory)

    def replace(self, source: str, target: str) -> None:
        """Rename atomically."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink."""
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create with parents."""
        os.makedirs(path, mode=0o750, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        """Make the names in *path* durable."""
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some network file systems can't sync a directory and need not
                raise
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold an flock on *path*, created where missing; the kernel drops it when the process dies."""
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
