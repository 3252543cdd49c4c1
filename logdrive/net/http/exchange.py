"""One request and its response, as a handler sees them in either version of HTTP."""

import abc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from logdrive.host.transport import Peer
from logdrive.net.http.bodies import BodyQueue
from logdrive.net.http.errors import BodyTooLargeError

HeaderList = Sequence[tuple[str, str]]
"""Header names in lower case, and their values."""

_BODILESS: Final = frozenset({204, 304})
"""Statuses whose responses have neither a body nor a content-length."""


class HttpRequest:
    """A request whose head has arrived; its body may still come.

    *path* and *query* are what stood in the request line, not decoded, *query* without "?".
    *headers* has lower-case names; values of repeated ones are joined by ", ". "host" is there in
    both versions.
    """

    __slots__ = ("_body", "headers", "method", "path", "peer", "query", "version")

    def __init__(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        *,
        peer: Peer,
        version: Literal["1.1", "2"],
        body: BodyQueue,
    ) -> None:
        self.method = method
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        self.peer = peer
        self.version = version
        self._body = body

    async def read_body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises `BodyTooLargeError` if it is longer than *limit* bytes, at once if content-length
        says so, and `TransientError` if the peer resets the stream or the connection is lost.
        """
        if content_length(self.headers) > limit:
            raise BodyTooLargeError(limit)
        return await self._body.read_all(limit)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, in chunks that are not empty, until the peer has ended it.

        The peer may send as many bytes as were taken. Raises `TransientError` as `read_body`.
        """
        while data := await self._body.next_chunk():
            yield data


class HttpResponse(abc.ABC):
    """Answers one request. All methods but `abort` are called by one task at a time.

    They raise `TransientError` once the peer has reset the stream or the connection is lost. A
    handler may start and send while the request's body still arrives.
    """

    def __init__(self, *, bodiless: bool) -> None:
        self.started = False  # the head was sent
        self.ended = False  # the whole response was sent, or given up
        self._bodiless = bodiless  # the request was a HEAD

    @abc.abstractmethod
    async def start(self, status: int, headers: HeaderList = ()) -> None:
        """Send the head at once; names of *headers* are in lower case."""

    @abc.abstractmethod
    async def send(self, data: bytes) -> None:
        """Return once flow control and the connection have taken *data*; before that it waits."""

    @abc.abstractmethod
    async def end(self) -> None:
        """End the body."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Break the response off: RST_STREAM, or the end of an HTTP/1.1 connection."""

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Send the whole response, with its content-length."""
        if status in _BODILESS:
            await self.start(status, headers)
        else:
            await self.start(status, [*headers, ("content-length", str(len(body)))])
            if body:
                await self.send(body)
        await self.end()


Handler = Callable[[HttpRequest, HttpResponse], Awaitable[None]]
"""Answers one request, in a task of its own.

After its stream is lost it is cancelled, unless it ends within `HttpLimits.orphan_seconds`. If it
raises, or ends without a response, the peer gets status 500.
"""


def content_length(headers: Mapping[str, str]) -> int:
    """Return the value of content-length, -1 without one."""
    text = headers.get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < 20 else -1


def join_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by lower-case name; pseudo-headers of HTTP/2 are among them."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in headers:
            value = f"{headers[name]}{'; ' if name == 'cookie' else ', '}{value}"
        headers[name] = value
    return headers


def origin_form(target: str) -> str | None:
    """Return *target* as path and query; a proxy's form, with scheme and host, loses them.

    Returns None for what names no path.
    """
    if target.startswith("/") or target == "*":
        return target
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return None
    _, slash, path = rest.partition("/")
    return f"{slash}{path}" or "/"
