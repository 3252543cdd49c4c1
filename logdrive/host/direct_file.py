"""Files that are written past the page cache."""

import contextlib
import fcntl
import mmap
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from logdrive.host.file import FileStat, SystemFile
from logdrive.model.framing import Part
from logdrive.model.units import KIB

DIRECT_BLOCK: Final = 4 * KIB
"""What a file that is written past the page cache is written in; file systems with larger blocks
take it too.
"""


class DirectFile(SystemFile):
    """A file written past the page cache (O_DIRECT), which saves a copy and the kernel's work for
    each page.

    The kernel takes whole blocks only, from aligned memory: what is appended is copied into one of
    two buffers, in turns. The file's last block is kept, written again with what comes after it,
    and filled up with zeros on the disk; these are cut off when the file is closed. Bytes of it
    that were durable are written again as they were, which is also what the page cache does with
    them.
    """

    __slots__ = ("_buffers", "_rest", "_size", "_torn")

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._buffers: deque[mmap.mmap] = deque(maxlen=2)
        self._rest = b""
        self._torn = False  # a write failed of which something may stand after the end
        self._size = os.fstat(descriptor).st_size
        self._load()

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*; costs a copy more than elsewhere."""
        skip = offset % DIRECT_BLOCK
        size = max(0, min(size, self._size - offset))
        with (
            mmap.mmap(-1, skip + size + -(skip + size) % DIRECT_BLOCK or DIRECT_BLOCK) as room,
            memoryview(room) as view,
        ):
            os.preadv(self._descriptor, [view], offset - skip)
            return bytes(view[skip : skip + size])

    def append(self, parts: Sequence[Part]) -> None:
        """Write all parts at the end."""
        stage = self.stage(sum(map(len, parts)))
        stage.add(parts)
        stage.append()

    def stage(self, room: int) -> "BlockStage":
        """Return a stage for up to *room* bytes that come at the file's end."""
        return self.stage_at(self._size, self._rest, room)

    def stage_at(self, offset: int, rest: bytes, room: int) -> "BlockStage":
        """Return a stage for what comes at *offset*, where *rest* stands before it in the same
        block.
        """
        wanted = room + 2 * DIRECT_BLOCK  # for what stands before it, and for what fills it up
        buffer = self._buffers.popleft() if len(self._buffers) == 2 else None
        if buffer is None or len(buffer) < wanted:
            buffer = mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            # a kernel without them; with them the kernel's work for each write is a tenth less
            with contextlib.suppress(OSError):
                buffer.madvise(mmap.MADV_HUGEPAGE)
        self._buffers.append(buffer)
        return BlockStage(self, buffer, offset, rest)

    def write_blocks(self, buffer: mmap.mmap, size: int, at: int) -> None:
        """Write the first *size* bytes of *buffer*, whole blocks, at *at*."""
        done = 0
        with memoryview(buffer) as view:
            while done < size:
                done += os.pwrite(self._descriptor, view[done:size], at + done)
                self._torn = done < size

    def ends(self, size: int, rest: bytes) -> None:
        """Take note that the file has *size* bytes, with *rest* in its last block."""
        self._size, self._rest = size, rest

    def truncate(self, size: int) -> None:
        """Cut the file."""
        os.ftruncate(self._descriptor, size)
        self._size, self._torn = size, False
        self._load()

    def stat(self) -> FileStat:
        """Return what the file is now, without the zeros that fill its last block up; with what a
        failed write has put there.
        """
        found = super().stat()
        return (
            found
            if self._torn or found.size > self._size + DIRECT_BLOCK
            else replace(found, size=self._size)
        )

    def close(self) -> None:
        """Cut the zeros off, as far as the disk lets us, and close the descriptor."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._size)
        super().close()

    def _load(self) -> None:
        """Keep what stands in the block that the next write begins in.

        O_DIRECT is tried here first.
        """
        rest = self._size % DIRECT_BLOCK
        with mmap.mmap(-1, DIRECT_BLOCK) as room, memoryview(room) as view:
            os.preadv(self._descriptor, [view], self._size - rest)
            self._rest = bytes(view[:rest])


class BlockStage:
    """A stage of a `DirectFile`: *buffer* holds what stands at *offset* of it, after the *rest* of
    the block that it begins in.
    """

    __slots__ = ("_at", "_buffer", "_file", "_used")

    def __init__(self, file: DirectFile, buffer: mmap.mmap, offset: int, rest: bytes) -> None:
        self._file, self._buffer = file, buffer
        self._used, self._at = len(rest), offset - len(rest)
        buffer[: self._used] = rest

    def add(self, parts: Sequence[Part]) -> None:
        """Copy *parts* in."""
        buffer, used = self._buffer, self._used
        for part in parts:
            end = used + len(part)
            buffer[used:end] = part
            used = end
        self._used = used

    def following(self, room: int) -> "BlockStage":
        """Return a stage in the other buffer."""
        return self._file.stage_at(self._at + self._used, self._rest(), room)

    def append(self) -> None:
        """Write all of it at the file's end, filled up with zeros to a whole block."""
        padding = -self._used % DIRECT_BLOCK
        self._buffer[self._used : self._used + padding] = bytes(padding)
        self._file.write_blocks(self._buffer, self._used + padding, self._at)
        self._file.ends(self._at + self._used, self._rest())

    def _rest(self) -> bytes:
        return self._buffer[self._used - self._used % DIRECT_BLOCK : self._used]


def open_direct(descriptor: int) -> SystemFile:
    """Return the file to be written past the page cache; as usual where its file system can't do
    that, or wants other blocks.
    """
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        # `pwrite` would write at the end with O_APPEND
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_APPEND | os.O_DIRECT)
        return DirectFile(descriptor)  # reads a block first
    except (OSError, AttributeError):  # no O_DIRECT outside Linux
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
        return SystemFile(descriptor)
