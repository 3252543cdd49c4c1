"""A client of HTTP/2: one connection, made at the first request and kept."""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from types import TracebackType

from logdrive.errors import RejectedError, TransientError
from logdrive.host.transport import ClientTls, Transport
from logdrive.net.http.exchange import HeaderList
from logdrive.net.http.http2_client import ClientStream, Http2ClientConnection, ResponseHead
from logdrive.net.http.limits import CLIENT_LIMITS, RESPONSE_BYTES, HttpLimits

_ALPN = ("h2",)


@dataclass(frozen=True, slots=True)
class ClientResponse:
    """A whole response."""

    head: ResponseHead
    body: bytes

    @property
    def status(self) -> int:
        """The status code."""
        return self.head.status


class HttpClient:
    """Requests to one server over one HTTP/2 connection; use it as an async context manager.

    With *tls* ALPN must agree on "h2"; without, the server must know that HTTP/2 comes. A lost
    connection is not made again: make another client.
    """

    def __init__(
        self,
        transport: Transport,
        host: str,
        port: int,
        tls: ClientTls | None,
        *,
        limits: HttpLimits = CLIENT_LIMITS,
    ) -> None:
        self._transport = transport
        self._host = host
        self._port = port
        self._tls = tls if tls is None or tls.alpn else replace(tls, alpn=_ALPN)
        self._limits = limits
        self._connection: Http2ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None  # that runs the connection

    async def __aenter__(self) -> "HttpClient":
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def usable(self) -> bool:
        """Whether requests can be made: connected, and the server has not announced the end."""
        return self._connection is not None and self._connection.leaving is None

    async def connect(self) -> None:
        """Connect. Raises `TransientError`, and `ConfigError` for unusable certificates."""
        stream = await self._transport.connect(self._host, self._port, self._tls)
        if self._tls is not None and stream.peer.alpn != "h2":
            stream.abort()
            raise RejectedError(f"{stream.peer.address}: the server does not speak HTTP/2")
        self._connection = Http2ClientConnection(stream, self._limits)
        self._task = asyncio.get_running_loop().create_task(
            self._connection.run(), name=f"http2-client {stream.peer.address}"
        )

    async def open_stream(
        self, method: str, path: str, headers: HeaderList = (), *, end: bool = False
    ) -> ClientStream:
        """Send a request's head and return its stream; with *end* the request has no body.

        *path* is raw, with its query; names of *headers* are in lower case. Raises
        `TransientError` if the connection is over.
        """
        if self._connection is None:
            raise TransientError(f"{self._host}:{self._port}: not connected")
        scheme = "http" if self._tls is None else "https"
        return await self._connection.open_stream(method, path, headers, scheme=scheme, end=end)

    async def request(
        self,
        method: str,
        path: str,
        headers: HeaderList = (),
        body: bytes | None = None,
        *,
        limit: int = RESPONSE_BYTES,
    ) -> ClientResponse:
        """Return the response to a request with *body*, whatever its status.

        Raises `TransientError`, and `BodyTooLargeError` for a response above *limit* bytes. It
        waits without limit: use `asyncio.timeout`.
        """
        if body is not None:
            headers = [*headers, ("content-length", str(len(body)))]
        async with await self.open_stream(method, path, headers, end=not body) as stream:
            if body:
                # a server may answer, and reset the stream, before it has read the body
                with contextlib.suppress(TransientError):
                    stream.outbound.add(body)
                    await stream.end_sending()
            head = await stream.response()
            return ClientResponse(head, await stream.read_body(limit))

    async def close(self) -> None:
        """Close the connection; open streams are reset."""
        if self._connection is None or self._task is None:
            return
        self._connection.leave()
        await asyncio.wait([self._task])
