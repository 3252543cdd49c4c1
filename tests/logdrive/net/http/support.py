"""A server in memory, on virtual time, with clients of three kinds: ours, bare h2, and bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from random import Random

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event

from logdrive.errors import TransientError
from logdrive.host.transport import ClientTls, ServerTls
from logdrive.net.http.client import HttpClient
from logdrive.net.http.exchange import Handler, HttpRequest, HttpResponse
from logdrive.net.http.limits import CLIENT_LIMITS, SERVER_LIMITS, HttpLimits
from logdrive.net.http.server import ALPN, HttpServer
from tests.support.memory.transport import MemoryNetwork, MemoryStream

PORT = 8080
REQUEST = [(":method", "POST"), (":path", "/echo"), (":scheme", "http"), (":authority", "server")]


async def echo(request: HttpRequest, response: HttpResponse) -> None:
    """Send each chunk back as it comes."""
    await response.start(200, [("content-type", "application/octet-stream")])
    async for chunk in request.chunks():
        await response.send(chunk)
    await response.end()


class Served:
    """A server and the network that it listens on."""

    def __init__(self, network: MemoryNetwork, server: HttpServer) -> None:
        self.network, self.server = network, server

    def client(self, limits: HttpLimits = CLIENT_LIMITS, *, tls: bool = False) -> HttpClient:
        settings = ClientTls("ca.pem") if tls else None
        return HttpClient(self.network.host("client"), "server", PORT, settings, limits=limits)

    async def connect(self) -> MemoryStream:
        return await self.network.host("client").connect("server", PORT, None)

    async def peer(self) -> "RawPeer":
        peer = RawPeer(await self.connect())
        await peer.begin()
        return peer


@contextlib.asynccontextmanager
async def serving(
    handler: Handler = echo,
    limits: HttpLimits = SERVER_LIMITS,
    *,
    random: Random | None = None,
    tls: bool = False,
) -> AsyncIterator[Served]:
    """Serve while the context lasts; then no connection may have failed by a bug."""
    network = MemoryNetwork(random)
    server = HttpServer(handler, limits=limits)
    settings = ServerTls("server.pem", "server.key", None, ALPN) if tls else None
    listener = await network.host("server").listen("0", PORT, settings, server.serve_connection)
    try:
        yield Served(network, server)
    finally:
        await listener.close()
        await server.close(0)
    assert network.failures == []
    assert server.connections == 0


class RawPeer:
    """A client that has only h2's state machine; its frames may be any."""

    def __init__(self, stream: MemoryStream) -> None:
        self.stream = stream
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.events: list[Event] = []
        self.ended = False

    async def begin(self) -> None:
        """Send preface and SETTINGS, and wait for the server's."""
        self.h2.initiate_connection()
        await self.flush()
        while not self.events:
            await self.read()

    async def flush(self) -> None:
        if data := self.h2.data_to_send():
            await self.stream.write([data])

    async def request(
        self, headers: Sequence[tuple[str, str]] = REQUEST, *, end: bool = False
    ) -> int:
        """Send a request's head; return its stream."""
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, list(headers), end_stream=end)
        await self.flush()
        return number

    async def write(self, data: bytes) -> None:
        await self.stream.write([data])

    async def read(self, *, acknowledge: bool = True) -> list[Event]:
        """Return the events of what arrives next."""
        data = await self.stream.read()
        self.ended = not data
        events = self.h2.receive_data(data) if data else []
        for event in events:
            if acknowledge and isinstance(event, DataReceived) and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.events += events
        with contextlib.suppress(TransientError):  # the server may have closed
            await self.flush()
        return events

    async def wait(self, *kinds: type[Event], count: int = 1) -> list[Event]:
        """Return the first *count* events of *kinds*, once they have come."""
        while len(found := [e for e in self.events if isinstance(e, kinds)]) < count:
            assert not self.ended, self.events
            async with asyncio.timeout(1000):
                await self.read()
        return found

    async def read_to_end(self) -> list[Event]:
        """Read until the server ends the connection; return all events."""
        async with asyncio.timeout(1000):
            while not self.ended:
                await self.read()
        return self.events

    def body(self, number: int) -> bytes:
        """Return what has come of a response's body."""
        return b"".join(
            event.data or b""
            for event in self.events
            if isinstance(event, DataReceived) and event.stream_id == number
        )


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame with any head."""
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )
