"""File metadata including the birth time, which `os.stat` lacks, in one system call (statx).

One call describes one file: between two calls a rotation may put another file at the path.
"""

import ctypes
import errno
import os
from typing import Final, NamedTuple

THIS_DIRECTORY: Final = -100
"""The working directory, in place of a directory's descriptor (AT_FDCWD)."""
_AT_EMPTY_PATH: Final = 0x1000
_BASIC_STATS, _BTIME = 0x7FF, 0x800
# EPERM comes from a seccomp filter that is older than the call
_NOT_THERE: Final = (errno.ENOSYS, errno.EPERM)
_SECOND: Final = 1_000_000_000
_libc = ctypes.CDLL(None, use_errno=True)
# None with a C library older than the call
_call = getattr(_libc, "statx", None)


class _Time(ctypes.Structure):
    _fields_ = (
        ("seconds", ctypes.c_int64),
        ("nanoseconds", ctypes.c_uint32),
        ("reserved", ctypes.c_int32),
    )


class _Statx(ctypes.Structure):
    """Linux `struct statx` (statx(2))."""

    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("blksize", ctypes.c_uint32),
        ("attributes", ctypes.c_uint64),
        ("nlink", ctypes.c_uint32),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("mode", ctypes.c_uint16),
        ("pad", ctypes.c_uint16),
        ("ino", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("attributes_mask", ctypes.c_uint64),
        ("atime", _Time),
        ("btime", _Time),
        ("ctime", _Time),
        ("mtime", _Time),
        ("rdev_major", ctypes.c_uint32),
        ("rdev_minor", ctypes.c_uint32),
        ("dev_major", ctypes.c_uint32),
        ("dev_minor", ctypes.c_uint32),
        ("rest", ctypes.c_byte * 112),
    )


class StatResult(NamedTuple):
    """Metadata of a file.

    *birth_ns* is 0 if the birth time is unknown; it is never ctime or mtime (rule G2).
    """

    device: int  # number of the device
    inode: int
    size: int  # bytes
    links: int  # number of names
    modified_ns: int  # last change, ns since 1970
    mode: int  # type and permission bits
    birth_ns: int  # ns since 1970, by the file system's clock


def stat_path(path: str) -> StatResult:
    """Return the metadata of the file at *path*, following symbolic links. Raises OSError."""
    return _statx(THIS_DIRECTORY, path)


def stat_handle(descriptor: int) -> StatResult:
    """Return the metadata of the open file *descriptor*. Raises OSError."""
    return _statx(descriptor, "")


def _statx(descriptor: int, path: str) -> StatResult:
    if _call is None:
        return _without_birth(descriptor, path)

    status = _Statx()
    flags = 0 if path else _AT_EMPTY_PATH
    name = os.fsencode(path)
    if _call(descriptor, name, flags, _BASIC_STATS | _BTIME, ctypes.byref(status)) != 0:
        number = ctypes.get_errno()
        if number in _NOT_THERE:
            return _without_birth(descriptor, path)
        raise OSError(number, os.strerror(number), path or None)

    return StatResult(
        device=os.makedev(status.dev_major, status.dev_minor),
        inode=status.ino,
        size=status.size,
        links=status.nlink,
        modified_ns=_ns(status.mtime),
        mode=status.mode,
        birth_ns=_ns(status.btime) if status.mask & _BTIME else 0,
    )


def _without_birth(descriptor: int, path: str) -> StatResult:
    status = os.stat(path) if path else os.fstat(descriptor)
    return StatResult(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_nlink,
        status.st_mtime_ns,
        status.st_mode,
        0,
    )


def _ns(time: _Time) -> int:
    return int(time.seconds) * _SECOND + int(time.nanoseconds)
