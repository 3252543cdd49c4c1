"""HTTP/1.1 and HTTP/2 on one socket.

With TLS, ALPN decides between "h2" and "http/1.1". Without it the first bytes do: HTTP/2's preface
(a client with prior knowledge, RFC 9113, section 3.3), or anything else.
"""

import asyncio
import contextlib
from typing import Final

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.net.http.bodies import BodyBudget
from logdrive.net.http.exchange import Handler
from logdrive.net.http.handling import FaultLog
from logdrive.net.http.http1_server import Http1ServerConnection
from logdrive.net.http.http2_server import Http2ServerConnection
from logdrive.net.http.limits import PREFACE, SERVER_LIMITS, HttpLimits

ALPN: Final = ("h2", "http/1.1")
"""Names for `ServerTls.alpn`, in the order of preference."""


class HttpServer:
    """Lets *handler* answer the requests of all connections that it is given.

    Pass `serve_connection` to `Transport.listen`. To stop, close the listener, call `begin_drain`
    once the handler's long requests may end, then `close`.
    """

    def __init__(self, handler: Handler, *, limits: HttpLimits = SERVER_LIMITS) -> None:
        self._handler = handler
        self._limits = limits
        self._budget = BodyBudget(limits.held_body_bytes)
        self._connections: dict[Http1ServerConnection | Http2ServerConnection, None] = {}
        self._detecting: dict[ByteStream, None] = {}  # connections without their first bytes
        self._empty = asyncio.Event()  # set while there are no connections
        self._empty.set()
        self._draining = False
        self._faults: FaultLog | None = None  # made with the first connection: it needs the loop

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._connections) + len(self._detecting)

    async def serve_connection(self, stream: ByteStream) -> None:
        """Serve the requests of one connection until it is over."""
        self._faults = self._faults or FaultLog(asyncio.get_running_loop().time)
        self._empty.clear()
        try:
            self._detecting[stream] = None
            try:
                detected = await self._detect(stream)
            finally:
                del self._detecting[stream]
            if detected is not None:
                version, first = detected
                kind = Http2ServerConnection if version == "2" else Http1ServerConnection
                connection = kind(stream, self._handler, self._limits, self._faults, self._budget)
                await self._serve(connection, first)
        finally:
            if not self.connections:
                self._empty.set()

    async def _serve(
        self, connection: Http1ServerConnection | Http2ServerConnection, first: bytes
    ) -> None:
        self._connections[connection] = None
        try:
            if self._draining:
                connection.begin_drain()
            await connection.run(first)
        finally:
            del self._connections[connection]

    async def _detect(self, stream: ByteStream) -> tuple[str, bytes] | None:
        """Return the version and the bytes read to find it, or None if none came in time."""
        if stream.peer.alpn == ALPN[0]:
            return "2", b""
        if stream.peer.alpn == ALPN[1]:
            return "1.1", b""
        first = b""
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                while len(first) < len(PREFACE) and PREFACE.startswith(first):
                    data = await stream.read()
                    if not data:
                        return ("1.1", first) if first else None
                    first += data
        except TimeoutError:
            return None
        return ("2" if first.startswith(PREFACE) else "1.1"), first

    def begin_drain(self) -> None:
        """Close each connection once it has no request under way; may be called twice.

        Connections with requests still get new ones: their handler may refuse them.
        """
        self._draining = True
        for stream in list(self._detecting):
            stream.abort()
        for connection in list(self._connections):
            connection.begin_drain()

    async def close(self, grace_seconds: float) -> None:
        """Drain; after *grace_seconds* reset the requests still under way, and close."""
        self.begin_drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._empty.wait()
        for connection in list(self._connections):
            with contextlib.suppress(TransientError):
                connection.stop()
        await self._empty.wait()
