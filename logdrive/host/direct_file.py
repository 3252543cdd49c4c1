"""Files written past the page cache (O_DIRECT)."""

import contextlib
import fcntl
import mmap
import os
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from logdrive.host.file import SystemFile
from logdrive.host.file_stat import FileStat
from logdrive.model.framing import Part
from logdrive.model.units import KIB

DIRECT_BLOCK: Final = 4 * KIB
"""Block size in bytes of a file written past the page cache.

File systems with larger blocks accept it, too.
"""


class DirectFile(SystemFile):
    """A file written past the page cache (O_DIRECT): saves a copy and the kernel's work per page.

    The kernel takes only whole blocks from aligned memory. So appended bytes are copied into one of
    two buffers, in turns. The file's last, partly filled block is kept in memory: it is written
    again together with what follows it, and filled up with zeros on the disk. The zeros are cut off
    when the file is closed. Durable bytes of that block are written again unchanged, as the page
    cache would do, too.
    """

    __slots__ = ("_buffers", "_rest", "_size", "_torn")

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        # the buffers of the last stages; the older one is used again
        self._buffers: deque[mmap.mmap] = deque(maxlen=2)
        # bytes of the last block, if it is not full
        self._rest = b""
        # True after a failed write, which may have left bytes after the end
        self._torn = False
        # length in bytes, without the zeros after the end
        self._size = os.fstat(descriptor).st_size
        self._load()

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset*; costs one more copy than with the page cache."""
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
        """Return a stage for up to *room* bytes that begin at the file's end."""
        return self.stage_at(self._size, self._rest, room)

    def stage_at(self, offset: int, rest: bytes, room: int) -> "BlockStage":
        """Return a stage for what begins at *offset*; *rest* precedes it in the same block."""
        wanted = room + 2 * DIRECT_BLOCK  # one block for *rest*, one for the zeros at the end
        buffer = self._buffers.popleft() if len(self._buffers) == 2 else None
        if buffer is None or len(buffer) < wanted:
            # anonymous memory is aligned, as the kernel asks for
            buffer = mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            # huge pages save a tenth of the kernel's work per write; some kernels have none
            with contextlib.suppress(OSError):
                buffer.madvise(mmap.MADV_HUGEPAGE)
        self._buffers.append(buffer)
        return BlockStage(self, buffer, offset, rest)

    def write_blocks(self, buffer: mmap.mmap, size: int, at: int) -> None:
        """Write the first *size* bytes of *buffer*, which are whole blocks, at offset *at*."""
        done = 0
        with memoryview(buffer) as view:
            while done < size:
                done += os.pwrite(self._descriptor, view[done:size], at + done)
                self._torn = done < size

    def set_end(self, size: int, rest: bytes) -> None:
        """Set the file's size to *size* after a write; *rest* is in its last block."""
        self._size, self._rest = size, rest

    def truncate(self, size: int) -> None:
        """Cut the file to *size* bytes."""
        os.ftruncate(self._descriptor, size)
        self._size, self._torn = size, False
        self._load()

    def stat(self) -> FileStat:
        """Return the file's metadata now, without the zeros that fill its last block.

        After a failed write the size includes what that write put on the disk.
        """
        status = super().stat()
        # zeros are less than a block: more is what a failed write left, or another process wrote
        return (
            status
            if self._torn or status.size > self._size + DIRECT_BLOCK
            else msgspec.structs.replace(status, size=self._size)
        )

    def is_unchanged(self, size: int, modified_ns: int) -> bool:
        """Return whether `stat` tells of the same size and time, and of a name."""
        status = self.stat()
        return status.links > 0 and (status.size, status.modified_ns) == (size, modified_ns)

    def close(self) -> None:
        """Cut off the zeros, if the disk allows it, and close the descriptor."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._size)
        super().close()

    def _load(self) -> None:
        """Keep the bytes of the block in which the next write begins.

        This is also the first use of O_DIRECT, which may fail here.
        """
        rest = self._size % DIRECT_BLOCK
        with mmap.mmap(-1, DIRECT_BLOCK) as room, memoryview(room) as view:
            os.preadv(self._descriptor, [view], self._size - rest)
            self._rest = bytes(view[:rest])


class BlockStage:
    """A stage of a `DirectFile`, in an aligned buffer.

    *buffer* begins with *rest*, the bytes of the block in which *offset* lies.
    """

    __slots__ = ("_at", "_buffer", "_file", "_used")

    def __init__(self, file: DirectFile, buffer: mmap.mmap, offset: int, rest: bytes) -> None:
        self._file = file
        self._buffer = buffer
        # bytes used in the buffer
        self._used = len(rest)
        # where the buffer begins in the file, at a block
        self._at = offset - len(rest)
        buffer[: self._used] = rest

    def add(self, parts: Sequence[Part]) -> None:
        """Copy *parts* into the buffer."""
        buffer, used = self._buffer, self._used
        for part in parts:
            end = used + len(part)
            buffer[used:end] = part
            used = end
        self._used = used

    def next_stage(self, room: int) -> "BlockStage":
        """Return a stage in the other buffer."""
        return self._file.stage_at(self._at + self._used, self._rest(), room)

    def append(self) -> None:
        """Write everything at the file's end, filled up with zeros to a whole block."""
        padding = -self._used % DIRECT_BLOCK
        self._buffer[self._used : self._used + padding] = bytes(padding)
        self._file.write_blocks(self._buffer, self._used + padding, self._at)
        self._file.set_end(self._at + self._used, self._rest())

    def _rest(self) -> bytes:
        return self._buffer[self._used - self._used % DIRECT_BLOCK : self._used]


def open_direct(descriptor: int) -> SystemFile:
    """Return a file on *descriptor* that is written past the page cache.

    It is an ordinary file if the file system can't do that, or needs other blocks.
    """
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        # with O_APPEND `pwrite` would ignore its offset
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_APPEND | os.O_DIRECT)
        return DirectFile(descriptor)  # reads a block first
    except (OSError, AttributeError):  # no O_DIRECT outside Linux
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
        return SystemFile(descriptor)
