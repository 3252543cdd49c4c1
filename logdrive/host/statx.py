"""File metadata including the birth time, which `os.stat` lacks, in one system call (statx).

One call describes one file: between two calls a rotation may put another file at the path.
"""

import ctypes
import errno
import os
import struct
from typing import Final

from logdrive.host.file_stat import FileStat, from_system, make_stat

THIS_DIRECTORY: Final = -100
"""The working directory, in place of a directory's descriptor (AT_FDCWD)."""
_AT_EMPTY_PATH: Final = 0x1000
_BASIC_STATS, _BTIME = 0x7FF, 0x800
# EPERM comes from a seccomp filter that is older than the call
_NOT_THERE: Final = (errno.ENOSYS, errno.EPERM)
_SECOND: Final = 1_000_000_000
# None with a C library older than the call
_call = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)

# Linux `struct statx` (statx(2)), 256 bytes: mask, nlink, mode, ino, size, btime and mtime as
# seconds and nanoseconds, device as major and minor number; the rest is not read. One look at the
# bytes costs a tenth of as many at the fields of a `ctypes.Structure`.
_FIELDS: Final = struct.Struct("=I12xI8xH2xQQ32xqI20xqI12xII")
_Buffer: Final = ctypes.c_char * 256


def stat_path(path: str) -> FileStat:
    """Return the metadata of the file at *path*, following symbolic links. Raises OSError."""
    return _statx(THIS_DIRECTORY, path)


def stat_handle(descriptor: int) -> FileStat:
    """Return the metadata of the open file *descriptor*. Raises OSError."""
    return _statx(descriptor, "")


def _statx(descriptor: int, path: str) -> FileStat:
    if _call is None:
        return _without_birth(descriptor, path)

    buffer = _Buffer()
    flags = 0 if path else _AT_EMPTY_PATH
    if _call(descriptor, os.fsencode(path), flags, _BASIC_STATS | _BTIME, buffer) != 0:
        number = ctypes.get_errno()
        if number in _NOT_THERE:
            return _without_birth(descriptor, path)
        raise OSError(number, os.strerror(number), path or None)

    mask, links, mode, inode, size, birth, birth_part, changed, changed_part, major, minor = (
        _FIELDS.unpack_from(buffer)
    )
    birth_ns = birth * _SECOND + birth_part if mask & _BTIME else 0
    modified_ns = changed * _SECOND + changed_part
    return make_stat(os.makedev(major, minor), inode, size, links, modified_ns, birth_ns, mode)


def _without_birth(descriptor: int, path: str) -> FileStat:
    status = os.stat(path) if path else os.fstat(descriptor)
    return from_system(status, birth_ns=0)
