"""Outbox: the queue of frames to a peer, written in order by one task.

The queue is limited in bytes, and each write in time. Reading from a peer never waits for writing
to it: a peer that does not read its acknowledgements is disconnected.
"""

import asyncio

from logdrive.errors import TransientError
from logdrive.host import faults
from logdrive.host.transport import ByteStream
from logdrive.model.units import KIB

WAITING_BYTES = 256 * KIB
"""Limit on the bytes that wait for one peer: more than the answers to all that it may ask at once.
"""
_WRITE_SECONDS = 30.0
"""Limit on one write."""


class Outbox:
    """The frames that wait to be written to one peer."""

    __slots__ = (
        "_has_ack",
        "_idle",
        "_most",
        "_parts",
        "_sealed",
        "_size",
        "_stream",
        "_wake",
        "_writing",
        "broken",
        "last_enqueued",
    )

    def __init__(self, stream: ByteStream, most: int = WAITING_BYTES) -> None:
        self._stream = stream
        self._most = most  # bytes that may wait
        self._parts: list[bytes] = []  # frames that wait
        self._size = 0  # bytes of them
        self._has_ack = False  # one of them acknowledges something
        self._sealed = False  # no more frames are taken
        self._writing = False  # a write is under way
        # futures, made only while a task waits: an Event takes 0.8 KB in each idle connection
        self._wake: asyncio.Future[None] | None = None  # of `run`
        self._idle: asyncio.Future[None] | None = None  # of `wait_flushed`
        self.broken: str | None = None
        """Why writing failed; the stream is aborted then, and nothing more is sent."""
        self.last_enqueued = asyncio.get_running_loop().time()
        """When a frame was enqueued last, on the loop's time."""

    def enqueue(self, frame: bytes, *, ack: bool = False) -> None:
        """Send *frame* after those enqueued before; *ack* if it acknowledges something.

        Ignored after `seal`, and when the outbox is broken.
        """
        if self.broken is not None or self._sealed:
            return
        self._parts.append(frame)
        self._size += len(frame)
        self._has_ack = self._has_ack or ack
        self.last_enqueued = asyncio.get_running_loop().time()
        # a peer that does not read must not take memory for what it is sent
        if self._size > self._most:
            self._break(f"it does not read what it is sent, {self._size} bytes of which wait")
        else:
            _set_done(self._wake)

    def seal(self) -> None:
        """Ignore all frames from now on; what was enqueued is still written."""
        self._sealed = True

    async def run(self) -> None:
        """Write until cancelled or broken."""
        try:
            while self.broken is None:
                if self._parts:
                    await self._write()
                else:
                    self._wake = asyncio.get_running_loop().create_future()
                    await self._wake
        except TimeoutError:
            self._break(f"it took nothing for {_WRITE_SECONDS:g} s")
        except TransientError as error:
            self._break(str(error))

    async def wait_flushed(self) -> None:
        """Return once all that was enqueued is written, or the outbox is broken."""
        while self.broken is None and (self._parts or self._writing):
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    async def _write(self) -> None:
        self._writing = True
        # frames enqueued during the write are the next one's
        parts, has_ack = self._parts, self._has_ack
        self._parts, self._size, self._has_ack = [], 0, False

        if has_ack:
            faults.reach("receiver.ack.before_send")
        async with asyncio.timeout(_WRITE_SECONDS):
            await self._stream.write(parts)
        if has_ack:
            faults.reach("receiver.ack.after_send")
        self._writing = False
        if not self._parts:
            _set_done(self._idle)

    def _break(self, reason: str) -> None:
        self.broken = reason
        self._parts.clear()
        _set_done(self._idle)
        _set_done(self._wake)
        self._stream.abort()


def _set_done(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
