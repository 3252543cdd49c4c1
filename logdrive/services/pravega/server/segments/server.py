"""The store's network face: the Pravega segment-store protocol over whatever streams it is
given.
"""

import asyncio
import contextlib
from random import Random, SystemRandom
from typing import Final

from logdrive.net.stream import ByteStream
from logdrive.services.auth.token_verifier import TokenVerifier
from logdrive.services.pravega.server.segments.connection import SegmentConnection
from logdrive.services.pravega.server.segments.shared import new_shared_state
from logdrive.store.engine import Store
from logdrive.wire.pravega.limits import PRAVEGA_HELD_BYTES

POLL_SECONDS: Final = 15.0
"""How long a read at the tail waits before its empty answer: clients give up after 30 s of
silence.
"""

_DRAIN_SECONDS: Final = 5.0


class SegmentStoreServer:
    """Serves a store.

    Hand `serve_connection` to `Transport.listen`; `close` ends the connections that stand.

    Without *verifier* whoever connects may do all. *held_bytes* bounds what connections hold of
    messages that are not whole, not done, or not taken.
    """

    def __init__(
        self,
        store: Store,
        *,
        poll_seconds: float = POLL_SECONDS,
        random: Random | None = None,
        verifier: TokenVerifier | None = None,
        held_bytes: int = PRAVEGA_HELD_BYTES,
    ) -> None:
        self._poll_seconds, self._verifier = poll_seconds, verifier
        self._shared = new_shared_state(store, random or SystemRandom(), held_bytes)
        self._connections: dict[SegmentConnection, None] = {}
        self._gone = asyncio.Event()
        self._closed = False

    async def serve_connection(self, stream: ByteStream) -> None:
        """Serve one connection until it ends."""
        if self._closed:  # its handshake outlasted the listener
            stream.abort()
            return
        connection = SegmentConnection(self._shared, stream, self._poll_seconds, self._verifier)
        self._connections[connection] = None
        try:
            await connection.run()
        finally:
            del self._connections[connection]
            self._gone.set()

    async def close(self) -> None:
        """End all connections, within a few seconds: what they submitted is acknowledged first.

        Close the listener before.
        """
        self._closed = True
        for connection in list(self._connections):
            connection.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._until_alone()
        for connection in list(self._connections):
            connection.abort()
        await self._until_alone()
        await self._shared.compactor.close()

    async def _until_alone(self) -> None:
        while self._connections:
            self._gone.clear()
            await self._gone.wait()
