"""Detects that a file was replaced or rewritten, without reading it."""

from typing import NamedTuple

from logdrive.host.disk import Disk


class FileStamp(NamedTuple):
    """What a file's status says of its content: two reads of one path differ after a change."""

    inode: int
    size: int  # bytes
    modified_ns: int  # nanoseconds since 1970


def read_stamp(disk: Disk, path: str) -> FileStamp | None:
    """Return the stamp of the file at *path*; None where the file is missing or unreadable."""
    try:
        status = disk.stat(path)
    except OSError:
        return None
    return FileStamp(status.inode, status.size, status.modified_ns)
