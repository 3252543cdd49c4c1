"""The segment store: serves Pravega's wire protocol on the connections that it is given."""

import asyncio
import contextlib
from random import Random, SystemRandom
from typing import Final

from logdrive.host.transport import ByteStream
from logdrive.services.auth.token_verifier import TokenVerifier
from logdrive.services.pravega.server.segments.connection import SegmentConnection
from logdrive.services.pravega.server.segments.shared import new_shared_state
from logdrive.store.engine import Store
from logdrive.store.store_files import StoreFiles
from logdrive.wire.pravega.limits import PRAVEGA_HELD_BYTES

POLL_SECONDS: Final = 15.0
"""Seconds that a read at the tail waits before its empty answer.

Clients close a connection after 30 s of silence.
"""

_DRAIN_SECONDS: Final = 5.0
"""Limit on the time in which connections may finish when the server closes."""


class SegmentStoreServer:
    """Serves a store: pass `serve_connection` to `Transport.listen`; `close` ends all connections.

    *poll_seconds* is how long a read at the tail waits. *random* names transient segments. Without
    *verifier* requests need no token. *held_bytes* limits the memory that all connections take for
    messages that are incomplete or being answered, and for answers that clients do not read.
    *files* is where clients on this host may read the store's log themselves.
    """

    def __init__(
        self,
        store: Store,
        *,
        poll_seconds: float = POLL_SECONDS,
        random: Random | None = None,
        verifier: TokenVerifier | None = None,
        held_bytes: int = PRAVEGA_HELD_BYTES,
        files: StoreFiles | None = None,
    ) -> None:
        self._poll_seconds = poll_seconds
        self._verifier = verifier
        self._shared = new_shared_state(store, random or SystemRandom(), held_bytes, files)
        self._connections: dict[SegmentConnection, None] = {}
        # set when a connection has ended
        self._ended = asyncio.Event()
        self._closed = False

    async def serve_connection(self, stream: ByteStream) -> None:
        """Serve one connection until it ends."""
        # its TLS handshake was under way when the listener was closed
        if self._closed:
            stream.abort()
            return
        connection = SegmentConnection(self._shared, stream, self._poll_seconds, self._verifier)
        self._connections[connection] = None
        try:
            await connection.run()
        finally:
            del self._connections[connection]
            self._ended.set()

    async def close(self) -> None:
        """End all connections, within a few seconds; appends submitted are acknowledged first.

        Close the listener before.
        """
        self._closed = True
        for connection in list(self._connections):
            connection.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._wait_for_connections()
        for connection in list(self._connections):
            connection.abort()
        await self._wait_for_connections()
        await self._shared.compactor.close()

    async def _wait_for_connections(self) -> None:
        while self._connections:
            self._ended.clear()
            await self._ended.wait()
