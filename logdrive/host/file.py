"""Open files as an argument: the protocol, and the real file.

Errors of the system are raised as `OSError`.
"""

import errno
import os
from collections.abc import Sequence
from typing import Final, Protocol

from logdrive.host.file_stat import FileStat, from_system
from logdrive.host.statx import stat_handle
from logdrive.model.framing import Part

_IOV_MAX: Final = 1024  # parts that one `writev` takes


class Stage(Protocol):
    """Bytes collected for one write at a file's end; nothing is on the disk before `append`."""

    def add(self, parts: Sequence[Part]) -> None:
        """Add *parts*, which are copied or kept as they are: do not change them before `append`."""
        ...

    def next_stage(self, room: int) -> "Stage":
        """Return a stage for up to *room* bytes that follow these.

        It can be filled while another thread appends this one. Only two stages exist at a time: a
        stage that was appended before this one must no longer be used.
        """
        ...

    def append(self) -> None:
        """Write everything at the file's end, with few system calls.

        After an error the file's end is undefined.
        """
        ...


class File(Protocol):
    """An open file. Reads have an offset; writes go to the end."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*; fewer only at the end of the file."""
        ...

    def find_data(self, offset: int) -> int:
        """Return where the first byte is, from *offset* on, that is not in a hole.

        Without any that is the file's size. A file system that can't tell has no holes.
        """
        ...

    def append(self, parts: Sequence[Part]) -> None:
        """Write all *parts* at the end, with few system calls.

        After an error the file's end is undefined.
        """
        ...

    def stage(self, room: int) -> Stage:
        """Return a stage for up to *room* bytes that begin at the file's current end."""
        ...

    def datasync(self) -> None:
        """Return once everything that was appended is durable."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to *size* bytes."""
        ...

    def stat(self) -> FileStat:
        """Return the file's metadata now, also after it was renamed or removed."""
        ...

    def is_unchanged(self, size: int, modified_ns: int) -> bool:
        """Return whether the file has a name, *size* bytes, and that time of its last change.

        It tells what a comparison with `stat` would, at less than half the cost.
        """
        ...

    def close(self) -> None:
        """Close the handle."""
        ...


class PartsStage:
    """A stage that keeps its parts, uncopied, until *file* appends them."""

    __slots__ = ("_file", "_parts")

    def __init__(self, file: File) -> None:
        self._file = file
        self._parts: list[Part] = []  # not copied

    def add(self, parts: Sequence[Part]) -> None:
        """Add *parts*, which must not change before `append`."""
        self._parts.extend(parts)

    def next_stage(self, room: int) -> "PartsStage":
        """Return a stage for what follows these parts."""
        return PartsStage(self._file)

    def append(self) -> None:
        """Write all parts at the file's end."""
        self._file.append(self._parts)


class SystemFile:
    """A file descriptor. The birth time never changes, so it is read once."""

    __slots__ = ("_birth_ns", "_descriptor")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._birth_ns: int | None = None  # None before it is read

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*."""
        return os.pread(self._descriptor, size, offset)

    def find_data(self, offset: int) -> int:
        """Return where the first byte is that is not in a hole."""
        try:
            return os.lseek(self._descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            # nothing but a hole, or no file system that knows holes
            return os.fstat(self._descriptor).st_size if error.errno == errno.ENXIO else offset

    def append(self, parts: Sequence[Part]) -> None:
        """Write all parts at the end."""
        for start in range(0, len(parts), _IOV_MAX):
            self._write_all(parts[start : start + _IOV_MAX])

    def stage(self, room: int) -> Stage:
        """Return a stage for what follows the file's end."""
        return PartsStage(self)

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
        """Cut the file to *size* bytes."""
        os.ftruncate(self._descriptor, size)

    def stat(self) -> FileStat:
        """Return the file's metadata now."""
        if self._birth_ns is None:
            status = stat_handle(self._descriptor)
            self._birth_ns = status.birth_ns
            return status
        # costs less than half of statx
        return from_system(os.fstat(self._descriptor), birth_ns=self._birth_ns)

    def is_unchanged(self, size: int, modified_ns: int) -> bool:
        """Return whether name, size and time of the last change are as they were."""
        status = os.fstat(self._descriptor)
        return status.st_size == size and status.st_mtime_ns == modified_ns and status.st_nlink != 0

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)
