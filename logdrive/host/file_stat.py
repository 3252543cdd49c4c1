"""What the identity and growth of files are judged by."""

import os
import stat

import msgspec


class FileStat(msgspec.Struct, frozen=True, gc=False):  # in no cycle
    """The metadata of a file. Agents with many files make some hundred thousand of these."""

    device: int
    """Number of the device."""
    inode: int
    size: int
    """Length in bytes."""
    links: int
    """Number of names; 0 for a deleted file that is still open."""
    modified_ns: int
    """Last change, ns since 1970."""
    birth_ns: int
    """By the file system's clock, ns since 1970; 0 if it keeps no birth time, never ctime or mtime
    (rule G2).
    """
    is_file: bool
    """Whether it is a regular file."""
    is_directory: bool
    """Whether it is a directory; pipes, sockets and devices are neither."""


def make_stat(
    device: int, inode: int, size: int, links: int, modified_ns: int, birth_ns: int, mode: int
) -> FileStat:
    """Return the metadata of a file with these type and permission bits (*mode*)."""
    kind = stat.S_IFMT(mode)
    return FileStat(
        device,
        inode,
        size,
        links,
        modified_ns,
        birth_ns,
        kind == stat.S_IFREG,
        kind == stat.S_IFDIR,
    )


def from_system(status: os.stat_result, *, birth_ns: int) -> FileStat:
    """Return what the system's *status* says of a file that was made at *birth_ns*."""
    return make_stat(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_nlink,
        status.st_mtime_ns,
        birth_ns,
        status.st_mode,
    )
