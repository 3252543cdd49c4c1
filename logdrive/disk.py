"""Files as an argument: what store, agent and checkpoint may do with a disk, and the real one.

All calls block; whoever must not wait runs them through an `Executor`. Foreign errors come out as `OSError`, since what a
full disk or a missing file means is the caller's to say.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from logdrive import faults


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

    def append(self, parts: Sequence[bytes]) -> None:
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

    def open(self, path: str, *, write: bool = False, create: bool = False, private: bool = False) -> File:
        """Open *path*; with *create* it must not exist yet, and with *private* it is then for its owner only."""
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


_IOV_MAX = 1024
_BATCH_BYTES = 1 << 20  # written before the disk is told to begin
_AT_FDCWD, _AT_EMPTY_PATH, _STATX_BTIME = -100, 0x1000, 0x800
_SYNC_FILE_RANGE_WRITE = 2
_libc = ctypes.CDLL(None, use_errno=True)
_sync_file_range = getattr(_libc, "sync_file_range", None)  # Linux has it
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class _Statx(ctypes.Structure):
    """Linux `struct statx` (statx(2)); only the birth time is read here."""

    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("blksize", ctypes.c_uint32),
        ("attributes", ctypes.c_uint64),
        ("nlink", ctypes.c_uint32),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("mode", ctypes.c_uint16),
        ("pad", ctypes.c_uint16),
        ("ino_size_blocks_mask", ctypes.c_uint64 * 4),
        ("atime", ctypes.c_int64 * 2),
        ("btime_seconds", ctypes.c_int64),
        ("btime_nanoseconds", ctypes.c_uint32),
        ("rest", ctypes.c_byte * 164),
    )


def _batches(parts: Sequence[bytes]) -> Iterator[tuple[Sequence[bytes], bool]]:
    """Yield *parts* in batches for one system call each, of about 1 MiB, and whether it is the last."""
    start = size = 0
    for at, part in enumerate(parts):
        if at - start == _IOV_MAX or size >= _BATCH_BYTES:
            yield parts[start:at], False
            start, size = at, 0
        size += len(part)
    if start < len(parts):
        yield parts[start:], True


def _birth_ns(descriptor: int, path: bytes) -> int:
    """Return the birth time that statx tells, 0 where it tells none. Never ctime or mtime (rule G2)."""
    if not hasattr(_libc, "statx"):
        return 0
    result = _Statx()
    flags = _AT_EMPTY_PATH if not path else 0
    if _libc.statx(descriptor, path, flags, _STATX_BTIME, ctypes.byref(result)) != 0 or not result.mask & _STATX_BTIME:
        return 0
    return int(result.btime_seconds) * 1_000_000_000 + int(result.btime_nanoseconds)


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

    def append(self, parts: Sequence[bytes]) -> None:
        """Write all parts at the end. The disk begins with the first while the last are copied: all else would wait for `datasync`."""
        for batch, last in _batches(parts):
            self._write_all(batch)
            if not last and _sync_file_range is not None:  # it promises nothing, and leaves what fails to be told by `datasync`
                _sync_file_range(self._descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)

    def _write_all(self, parts: Sequence[bytes]) -> None:
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
            self._birth_ns = _birth_ns(self._descriptor, b"")
        return _file_stat(os.fstat(self._descriptor), self._birth_ns)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class SystemDisk:
    """The machine's file systems."""

    def open(self, path: str, *, write: bool = False, create: bool = False, private: bool = False) -> SystemFile:
        """Open *path* for positioned reads, and for appends with *write*."""
        flags = os.O_CLOEXEC | (os.O_RDWR | os.O_APPEND if write else os.O_RDONLY | os.O_NONBLOCK)
        return SystemFile(os.open(path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o600 if private else 0o640))

    def stat(self, path: str) -> FileStat:
        """Return what stands at *path*."""
        return _file_stat(os.stat(path), _birth_ns(_AT_FDCWD, os.fsencode(path)))

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

    def mount_point(self, path: str) -> str:
        """Walk up from *path* to the first directory that is a mount point."""
        place = os.path.realpath(path)
        while not os.path.ismount(place):
            place = os.path.dirname(place)
        return place
