"""All connections of one listener: each gets a session; a drain ends them in good order, a failure
at once.
"""

import asyncio
from contextlib import suppress

from logdrive.net.stream import ByteStream
from logdrive.wire.lumberjack.frames import RefusalCode
from logdrive.wire.lumberjack.limits import CONNECTION_BYTES
from receiver.connection import Disconnect
from receiver.services import ReceiverServices
from receiver.session import ReceiverSession

_LAST_WORDS_SECONDS = 1.0


class Sessions:
    """The sessions that are open."""

    def __init__(self, services: ReceiverServices) -> None:
        self._services = services
        self._open: dict[ByteStream, ReceiverSession] = {}
        self._changed = asyncio.Event()
        self._draining = False

    async def serve_connection(self, stream: ByteStream) -> None:
        """Serve one connection to its end."""
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
        """Tell every peer to go elsewhere, let what was received become durable and be
        acknowledged.

        Returns whether all sessions ended within *seconds*; the others were aborted.
        """
        farewell = Disconnect(RefusalCode.DRAINING, "this receiver is going away", finish=True)
        return await self._end(farewell, seconds)

    async def disconnect_all(self, reason: str) -> None:
        """End all sessions at once, acknowledging nothing more."""
        await self._end(Disconnect(RefusalCode.INTERNAL, reason), _LAST_WORDS_SECONDS)

    async def _end(self, farewell: Disconnect, seconds: float) -> bool:
        self._draining = True
        for session in list(self._open.values()):
            session.disconnect(farewell)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._empty()
            return True
        for stream, session in list(self._open.items()):
            session.disconnect(Disconnect(RefusalCode.INTERNAL, "this receiver ends now"))
            stream.abort()
        return False

    async def _empty(self) -> None:
        while self._open:
            self._changed.clear()
            await self._changed.wait()
