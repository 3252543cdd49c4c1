"""File stamps: whether a file was replaced or rewritten since it was read."""

from logdrive.host.disk import Disk

FileStamp = tuple[int, int, int] | None
"""Inode, size and time of change of a file; None if there is no file."""


def stamp_of(disk: Disk, path: str) -> FileStamp:
    """Return the stamp of the file at *path*."""
    try:
        status = disk.stat(path)
    except OSError:
        return None
    return status.inode, status.size, status.modified_ns
