"""A file in which an audit keeps what it has learned of files that never change.

It is a line with its kind and version, a digest of the rest, then the rest. It is replaced as a
whole, and may be deleted at any time: an audit does without it if it is missing, damaged or of
another version. It is trusted as the tables are, whose owner it has.
"""

import errno
import os
from hashlib import blake2b
from typing import Final, NamedTuple

from logdrive.host.disk import Disk, write_atomically

_DIGEST = 32  # bytes
_MOST_BYTES: Final = 1 << 30
"""Limit on the file's length; one that would be longer is not kept."""


class FileKey(NamedTuple):
    """What tells a file of a table from all others."""

    name: str  # relative to some directory
    size: int  # bytes
    modified_ns: int


def key_of_file(disk: Disk, path: str, directory: str) -> FileKey:
    """Return the key of the file at *path*, named by its way from *directory*. Raises OSError."""
    stat = disk.stat(path)
    return FileKey(os.path.relpath(path, directory), stat.size, stat.modified_ns)


def read_sealed(disk: Disk, path: str, kind: str) -> bytes | None:
    """Return what `write_sealed` has written; None if it can't be used."""
    try:
        size = disk.stat(path).size
        if size > _MOST_BYTES:
            return None
        file = disk.open(path)
        try:
            data = file.pread(size, 0)
        finally:
            file.close()
    except OSError:
        return None
    head = _head(kind)
    body = data[len(head) + _DIGEST :]
    sealed = data.startswith(head + blake2b(body, digest_size=_DIGEST).digest())
    return body if sealed else None


def write_sealed(disk: Disk, path: str, kind: str, body: bytes) -> None:
    """Replace the file at *path*. Raises OSError, also if *body* is too long."""
    data = _head(kind) + blake2b(body, digest_size=_DIGEST).digest() + body
    if len(data) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"{len(data):,} bytes of figures are too many")
    write_atomically(disk, path, data)


def _head(kind: str) -> bytes:
    return f"logdrive audit {kind}\n".encode()
