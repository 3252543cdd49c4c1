"""Reading from a peer: only while there is memory for what it sends, and no longer than it may be
silent.
"""

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from logdrive.host.transport import ByteStream
from logdrive.wire.lumberjack.frames import RefusalCode
from receiver.connection import ConnectionContext, Disconnect

_MOMENT = 0.001  # seconds; an overdrawn connection with less than that left has none left


class InputListener(Protocol):
    """What `PeerInput` asks and tells while it waits for a peer."""

    @property
    def idle_after_seconds(self) -> float | None:
        """Seconds of silence after which `on_idle` is due; None if only the idle limit of the
        configuration is.
        """
        ...

    def on_idle(self) -> None:
        """Called after such a silence; the peer is waited for again afterwards."""
        ...

    def on_reading_stopped(self) -> None:
        """Called when reading stops for want of memory: the peer may be waiting for us."""
        ...


class PeerInput:
    """The peer's bytes, for one reader at a time.

    Each wait ends at once when `interrupt` is called, as `ConnectionContext.disconnect` does.
    """

    __slots__ = ("_idle_seconds", "_link", "_stream", "_wait", "stopped")

    def __init__(self, link: ConnectionContext, stream: ByteStream) -> None:
        self._link = link
        self._stream = stream
        self._idle_seconds = link.services.listen.idle_seconds
        self._wait: asyncio.Timeout | None = None  # of the wait under way
        self.stopped = False
        """True while nothing is read for want of memory."""

    async def read(self, listener: InputListener) -> bytes:
        """Return the next bytes, b"" once the peer has ended its side.

        Raises `Disconnect` if the peer was silent for too long or the connection is to end, and
        `TransientError` if the connection is lost.
        """
        allocation = self._link.allocation
        loop, silent = asyncio.get_running_loop(), 0.0
        while True:
            await self.wait_admitted(listener)
            began, seconds = loop.time(), self._seconds_to_wait(listener, silent)
            allocation.begin_read()
            try:
                async with asyncio.timeout(seconds) as self._wait:
                    return await self._stream.read()
            except TimeoutError:
                silent += loop.time() - began
                allocation.end_read()  # before `_on_silence` asks how long it may still wait
                self._on_silence(listener, silent)
            finally:
                allocation.end_read()
                self._wait = None

    async def wait_admitted(self, listener: InputListener) -> None:
        """Return once there is memory to read, or to unpack, some more.

        Raises `Disconnect` if the connection is to end.
        """
        link = self._link
        if link.disconnect_reason is None and link.allocation.admitted:
            return

        self.stopped = True
        listener.on_reading_stopped()
        admitted = False
        while not admitted and link.disconnect_reason is None:
            admitted = await self.wait_unless_interrupted(link.allocation.wait_admitted())
        self.stopped = False

        # asked last: what failed may just have made the room that was waited for
        if link.disconnect_reason is not None:
            raise link.disconnect_reason

    async def wait_unless_interrupted(self, work: Awaitable[None]) -> bool:
        """Return True once *work* is done, and False if `interrupt` came first."""
        try:
            async with asyncio.timeout(None) as self._wait:
                await work
        except TimeoutError:
            return False
        finally:
            self._wait = None
        return True

    def interrupt(self) -> None:
        """End the wait under way, so that its reader sees `disconnect_reason`."""
        if self._wait is not None and not self._wait.expired():
            self._wait.reschedule(asyncio.get_running_loop().time())

    def _seconds_to_wait(self, listener: InputListener, silent: float) -> float:
        """Return after how many seconds without a byte something is due, after *silent* seconds."""
        overdrawn_left = self._link.allocation.overdrawn_seconds_left
        if overdrawn_left is not None:  # others wait for this connection to end its window
            return overdrawn_left

        # `on_idle` is due once in a silence; after it only the idle limit counts
        idle_after = listener.idle_after_seconds
        return idle_after if idle_after is not None and not silent else self._idle_seconds

    def _on_silence(self, listener: InputListener, silent: float) -> None:
        """Act on *silent* seconds without a byte. Raises `Disconnect` if they were too many."""
        # interrupted: `wait_admitted` raises the reason next
        if self._link.disconnect_reason is not None:
            return

        overdrawn_left = self._link.allocation.overdrawn_seconds_left
        if overdrawn_left is not None and overdrawn_left < _MOMENT:
            raise Disconnect(
                RefusalCode.TRY_LATER, "memory is full, and this connection does not end its window"
            )

        # an idle peer is kept as long as it waits for an acknowledgement of ours
        if silent >= self._idle_seconds and not self._link.acks.owes_ack:
            raise Disconnect(RefusalCode.DRAINING, f"idle for {silent:.0f} s", finish=True)

        listener.on_idle()
