"""Frames on their way to a peer: in order, written by one task, each write within a deadline, the
wait bounded in bytes.

Who reads from the peer never waits for who writes to it: a peer that takes no acknowledgements is
cut off, not waited for.
"""

import asyncio

from logdrive.errors import TransientError
from logdrive.host import faults
from logdrive.model.units import KIB
from logdrive.net.stream import ByteStream

WAITING_BYTES = 256 * KIB
"""What may wait for one peer: more than the answers for all that it may ask for at once."""
_WRITE_SECONDS = 30.0


class Outbox:
    """What waits to be written to one peer.

    After a failure *broken* says why: the stream is aborted, nothing more is sent.
    """

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
        "last_put",
    )

    def __init__(self, stream: ByteStream, most: int = WAITING_BYTES) -> None:
        self._stream = stream
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        self._has_ack = self._sealed = False
        self._writing = False
        # Futures, and only while somebody waits: an idle connection keeps no Event, of 0.8 KB each
        self._wake: asyncio.Future[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        self.broken: str | None = None
        self.last_enqueued = asyncio.get_running_loop().time()
        """When something was put last, on the loop's time."""

    def enqueue(self, frame: bytes, *, ack: bool = False) -> None:
        """Send *frame* after what was put before; *ack* says that it acknowledges something."""
        if self.broken is not None or self._sealed:
            return
        self._parts.append(frame)
        self._size += len(frame)
        self._has_ack = self._has_ack or ack
        self.last_enqueued = asyncio.get_running_loop().time()
        if self._size > self._most:
            self._break(f"it does not read what it is told, {self._size} bytes of which wait")
        else:
            _tell(self._wake)

    def seal(self) -> None:
        """Take nothing more; what was put is still written."""
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
        """Return once all that was put is written, or nothing ever will be."""
        while self.broken is None and (self._parts or self._writing):
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    async def _write(self) -> None:
        self._writing = True
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
            _tell(self._idle)

    def _break(self, reason: str) -> None:
        self.broken = reason
        self._parts.clear()
        _tell(self._idle)
        _tell(self._wake)
        self._stream.abort()


def _tell(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
