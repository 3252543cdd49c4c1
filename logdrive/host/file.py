"""An open file as an argument: what may be done with it, and the real one.

Foreign errors come out as `OSError`.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from logdrive.host.statx import StatResult, stat_handle
from logdrive.model.framing import Part

_IOV_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class FileStat:
    """What identity and growth are judged by.

    *birth_ns* is 0 where the file system keeps no birth time (rule G2).
    """

    device: int
    inode: int
    size: int
    links: int
    modified_ns: int
    birth_ns: int
    is_file: bool


class Stage(Protocol):
    """Bytes put together for one write at a file's end.

    Nothing of them is on the disk before `append`.
    """

    def add(self, parts: Sequence[Part]) -> None:
        """Take in *parts*, copied or as they are."""
        ...

    def following(self, room: int) -> "Stage":
        """Return a stage for up to *room* bytes that come after these; it can be filled while
        another thread appends this one.

        There are two at a time: one that was appended before this one is over.
        """
        ...

    def append(self) -> None:
        """Write all of it at the file's end, in few system calls.

        After an error the end is undefined.
        """
        ...


class File(Protocol):
    """An open file. Reads are positioned; writes go to the end."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*; fewer only at the end of the file."""
        ...

    def append(self, parts: Sequence[Part]) -> None:
        """Write all *parts* at the end, in few system calls.

        After an error the end is undefined.
        """
        ...

    def stage(self, room: int) -> Stage:
        """Return a stage for up to *room* bytes that come at the file's end as it is now."""
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


def file_stat(told: StatResult) -> FileStat:
    """Return what the system told of a file."""
    return FileStat(
        device=told.device,
        inode=told.inode,
        size=told.size,
        links=told.links,
        modified_ns=told.modified_ns,
        birth_ns=told.birth_ns,
        is_file=stat.S_ISREG(told.mode),
    )


class Parts:
    """A stage that keeps what it is given until *file* appends it."""

    __slots__ = ("_file", "_parts")

    def __init__(self, file: File) -> None:
        self._file = file
        self._parts: list[Part] = []

    def add(self, parts: Sequence[Part]) -> None:
        """Take in *parts*, which must stay what they are."""
        self._parts.extend(parts)

    def following(self, room: int) -> "Parts":
        """Return a stage for what comes after these."""
        return Parts(self._file)

    def append(self) -> None:
        """Write all of it at the file's end."""
        self._file.append(self._parts)


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

    def stage(self, room: int) -> Stage:
        """Return a stage for what comes at the file's end."""
        return Parts(self)

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
            self._birth_ns = stat_handle(self._descriptor).birth_ns
        found = os.fstat(self._descriptor)  # a tenth of what the other call costs
        told = StatResult(
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_nlink,
            found.st_mtime_ns,
            found.st_mode,
            self._birth_ns,
        )
        return file_stat(told)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)
