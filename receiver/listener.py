"""All connections of one listener: one session for each; all of them end when the receiver does."""

import asyncio
from contextlib import suppress

from logdrive.host.transport import ByteStream
from logdrive.wire.lumberjack.frames import RefusalCode
from logdrive.wire.lumberjack.limits import CONNECTION_BYTES
from receiver.connection import Disconnect
from receiver.services import ReceiverServices
from receiver.session import ReceiverSession

_FAILING_SECONDS = 1.0
"""Limit on sending the reason to the peers after the disk has failed."""


class Sessions:
    """The open sessions."""

    def __init__(self, services: ReceiverServices) -> None:
        self._services = services
        self._open: dict[ByteStream, ReceiverSession] = {}
        self._changed = asyncio.Event()  # set when a session ends
        self._draining = False  # new connections are closed at once

    async def serve_connection(self, stream: ByteStream) -> None:
        """Serve one connection to its end."""
        # its TLS handshake was under way when draining began
        if self._draining:
            await stream.close()
            return

        counters = self._services.counters
        self._open[stream] = session = ReceiverSession(self._services, stream)
        counters.connections += 1
        counters.connections_open += 1
        self._services.heap.add_held(CONNECTION_BYTES)
        try:
            await session.run()
        finally:
            counters.connections_open -= 1
            self._services.heap.on_connection_closed(CONNECTION_BYTES)
            del self._open[stream]
            self._changed.set()

    async def drain(self, seconds: float) -> bool:
        """End all sessions once what was received is durable and acknowledged; their peers are sent
        to another receiver.

        Return True if all of them ended within *seconds*; the others are aborted.
        """
        reason = Disconnect(RefusalCode.DRAINING, "this receiver is going away", finish=True)
        return await self._end_all(reason, seconds)

    async def disconnect_all(self, reason: str) -> None:
        """End all sessions at once; nothing more is acknowledged."""
        await self._end_all(Disconnect(RefusalCode.INTERNAL, reason), _FAILING_SECONDS)

    async def _end_all(self, reason: Disconnect, seconds: float) -> bool:
        self._draining = True
        for session in list(self._open.values()):
            session.disconnect(reason)

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wait_empty()
            return True

        for stream, session in list(self._open.items()):
            session.disconnect(Disconnect(RefusalCode.INTERNAL, "this receiver ends now"))
            stream.abort()
        return False

    async def _wait_empty(self) -> None:
        while self._open:
            self._changed.clear()
            await self._changed.wait()
