"""A disk in memory whose file system may become read-only under open files, as after an error."""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence

from logdrive.model.framing import Part
from tests.support.memory.disk import MemoryDisk, MemoryFile


class RemountedFile(MemoryFile):
    """An open file of it."""

    _disk: "RemountedDisk"

    def append(self, parts: Sequence[Part]) -> None:
        """Write at the end."""
        self._disk.check()
        super().append(parts)

    def datasync(self) -> None:
        """Make the data durable."""
        self._disk.check()
        super().datasync()

    def truncate(self, size: int) -> None:
        """Cut the file."""
        self._disk.check()
        super().truncate(size)


class RemountedDisk(MemoryDisk):
    """While it is *read_only*, whatever changes a file or a name fails with EROFS."""

    read_only = False

    def check(self) -> None:
        """Raise OSError while it is read-only."""
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        """Open *path*."""
        if write or create:
            self.check()
        file = super().open(path, write=write, create=create, private=private)
        return RemountedFile(self, path, file._node, writable=write, direct=direct)

    def replace(self, source: str, target: str) -> None:
        """Rename."""
        self.check()
        super().replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink a file."""
        self.check()
        super().remove(path)

    def make_directory(self, path: str) -> None:
        """Create *path*, unless it is there."""
        if path not in self._directories:
            self.check()
        super().make_directory(path)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold *path*, which is opened for writing."""
        self.check()
        with super().lock(path):
            yield
