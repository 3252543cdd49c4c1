"""Standard input and named pipes, and what waits until a descriptor can be read.

Theory of operation of a stop. The kernel takes what programs write into a pipe as long as it is
open for reading, whether or not it is read. So `DescriptorInput.end` closes it at once, and keeps
what was in it for `read`. A write may still come in between the last read and the close. So a
writing end of our own keeps the pipe while it has no reader: its other writers get EPIPE then, and
what came in is counted, and read by opening the pipe once more, for some microseconds. That is
repeated until nothing has come in.
"""

import asyncio
import contextlib
import fcntl
import os
import select
import stat
import struct
import termios
from typing import Final

from logdrive.errors import TransientError, os_error_text
from logdrive.model.units import MIB

_PIPE_BYTES: Final = 1 * MIB
"""The kernel's buffer of a pipe, as far as the system allows it."""
_LAST_READS: Final = 64
"""Limit on how often a pipe is opened again at its end: its writers may go on all the time."""
_COUNT: Final = struct.Struct("i")
"""What FIONREAD returns: the bytes in a pipe."""
_STDIN: Final = 0


class Readiness:
    """Waits until a descriptor can be read, or `end` was called."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiter: asyncio.Future[None] | None = None
        self.ended = False

    async def wait(self) -> None:
        """Return once there may be something to read, or `end` was called."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        loop.add_reader(self._descriptor, self._wake)
        try:
            await self._waiter
        finally:
            self._wake()

    def end(self) -> None:
        """Wait no more: the descriptor may be closed then."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None:
            # at once: its number may be another file's by the time that `wait` goes on
            asyncio.get_running_loop().remove_reader(self._descriptor)
            if not self._waiter.done():
                self._waiter.set_result(None)
            self._waiter = None


class DescriptorInput:
    """Standard input or a pipe, without making it non-blocking: others may share it."""

    def __init__(self, descriptor: int, *, has_end: bool) -> None:
        """Read *descriptor*, which is closed here. One without an end has a writer always."""
        self._descriptor = descriptor
        self._has_end = has_end
        self._readiness = Readiness(descriptor)
        mode = os.fstat(descriptor).st_mode
        # epoll takes no regular file, which can always be read
        self._is_file = stat.S_ISREG(mode)
        self._is_pipe = stat.S_ISFIFO(mode)
        self._rest = b""  # what was there at the end, and is not read yet
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    async def read(self, limit: int) -> bytes:
        """Return what is there; see `ByteInput`."""
        while not self._readiness.ended:
            if self._can_read():
                try:
                    data = os.read(self._descriptor, limit)
                except OSError as error:  # a terminal that is gone, or a disk that fails
                    raise TransientError(os_error_text(error)) from error
                if data or self._has_end:
                    return data
            await self._readiness.wait()
        data, self._rest = self._rest[:limit], self._rest[limit:]
        return data

    def _can_read(self) -> bool:
        """Return whether a read would return at once."""
        if self._is_file:
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def end(self) -> None:
        """Close it, and let `read` return what was in it."""
        if self._readiness.ended:
            return
        self._readiness.end()
        rest = self._read_waiting()
        keeper = self._open_again(self._descriptor, os.O_WRONLY) if self._is_pipe else None
        self.close()
        if keeper is not None:
            rest += self._read_kept(keeper)
            os.close(keeper)
        self._rest = rest

    def _read_waiting(self) -> bytes:
        """Return what waits, as much as a pipe may hold."""
        waiting = bytearray()
        with contextlib.suppress(OSError):
            while len(waiting) < _PIPE_BYTES and self._can_read():
                if not (data := os.read(self._descriptor, _PIPE_BYTES)):
                    break
                waiting += data
        return bytes(waiting)

    def _read_kept(self, keeper: int) -> bytes:
        """Return what is in the pipe that only *keeper*, a writing end, holds open."""
        kept = bytearray()
        for _ in range(_LAST_READS):
            (waiting,) = _COUNT.unpack(fcntl.ioctl(keeper, termios.FIONREAD, bytes(_COUNT.size)))
            again = self._open_again(keeper, os.O_RDONLY) if waiting else None
            if again is None:
                break
            try:
                kept += os.read(again, waiting)
            finally:
                os.close(again)
        return bytes(kept)

    @staticmethod
    def _open_again(descriptor: int, flags: int) -> int | None:
        """Return the pipe of *descriptor* opened anew; None where that may not be.

        Such as a standard input that another user made.
        """
        try:
            path = f"/proc/self/fd/{descriptor}"
            return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None

    def close(self) -> None:
        """Close it, if it is open."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor == _STDIN:
            # lest the number be another file's
            null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(null, _STDIN)
            os.close(null)
        elif descriptor >= 0:
            os.close(descriptor)
