"""Serves metrics and health by HTTP: GET /metrics, /healthz and /readyz, a request a connection.

What is asked is small and known, so this reads one head and answers; it speaks no more of HTTP.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from agent.config.control import DEFAULT_METRICS_PORT
from agent.metrics.text import CONTENT_TYPE
from logdrive.address import host_port
from logdrive.errors import ConfigError, Mistake, TransientError, UnavailableError
from logdrive.host.transport import ByteStream, ListenerLimits, Transport
from logdrive.model.units import KIB, MIB

_HEAD_BYTES: Final = 16 * KIB
"""Limit on a request."""
_SECONDS: Final = 10.0
"""Limit on the time that a request takes to come, and on that of its answer."""
_MOST_CONNECTIONS: Final = 64
"""Limit on connections at a time: more are closed at once."""
_PLAIN: Final = "text/plain; charset=utf-8"


class HealthServer:
    """Answers requests. *metrics* returns the figures, *not_ready* why it is not ready, or ""."""

    def __init__(self, metrics: Callable[[], bytes], not_ready: Callable[[], str]) -> None:
        self._metrics = metrics
        self._not_ready = not_ready
        self._open = 0

    async def serve(self, stream: ByteStream) -> None:
        """Answer one request; the peer may be gone at any time."""
        self._open += 1
        try:
            with contextlib.suppress(TransientError, TimeoutError):
                if self._open <= _MOST_CONNECTIONS:
                    async with asyncio.timeout(_SECONDS):
                        head = await _read_head(stream)
                    if head:
                        async with asyncio.timeout(_SECONDS):
                            await stream.write([self.answer(head)])
        finally:
            self._open -= 1

    def answer(self, head: bytes) -> bytes:
        """Return the answer to the request that begins with *head*."""
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response("400 Bad Request", "no request of HTTP/1.1\n")
        method, path = words[0], words[1].split(b"?", 1)[0]
        if method not in (b"GET", b"HEAD"):
            return _response(
                "405 Method Not Allowed", "only GET and HEAD\n", "Allow: GET, HEAD\r\n"
            )
        response = self._page(path)
        # the length that HEAD tells is that of the page
        return response[: response.index(b"\r\n\r\n") + 4] if method == b"HEAD" else response

    def _page(self, path: bytes) -> bytes:
        match path:
            case b"/metrics":
                return _response("200 OK", self._metrics(), kind=CONTENT_TYPE)
            case b"/healthz":
                return _response("200 OK", "ok\n")
            case b"/readyz":
                reason = self._not_ready()
                return (
                    _response("503 Service Unavailable", f"{reason}\n")
                    if reason
                    else _response("200 OK", "ok\n")
                )
            case _:
                return _response("404 Not Found", "there are /metrics, /healthz and /readyz\n")


async def _read_head(stream: ByteStream) -> bytes:
    """Return a request up to its empty line; b"" where it is too long or does not come."""
    head = bytearray()
    while b"\r\n\r\n" not in head:
        if len(head) > _HEAD_BYTES or not (data := await stream.read()):
            return b""
        head += data
    return bytes(head)


def _response(status: str, body: str | bytes, headers: str = "", *, kind: str = _PLAIN) -> bytes:
    content = body.encode() if isinstance(body, str) else body
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        f"{headers}Connection: close\r\n\r\n"
    )
    return head.encode() + content


@contextlib.asynccontextmanager
async def serve_health(
    address: str, server: HealthServer, transport: Transport
) -> AsyncIterator[None]:
    """Answer at *address*, host:port, inside the context; nowhere for "".

    Raises `ConfigError` if it can't be listened at.
    """
    if not address:
        yield
        return
    host, port = host_port(address, DEFAULT_METRICS_PORT)
    try:
        limits = ListenerLimits(2 * _MOST_CONNECTIONS, MIB)
        listener = await transport.listen(host, port, None, server.serve, limits)
    except ConfigError as error:
        kind = UnavailableError if isinstance(error, UnavailableError) else ConfigError
        remedy = error.mistakes[0].remedy
        raise kind("agent", [Mistake("control.metrics", address, remedy)]) from error
    try:
        yield
    finally:
        await listener.close()
