"""The client's end of an HTTP/2 connection."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from h2 import events
from h2.errors import ErrorCodes

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.net.http.bodies import BodyBudget
from logdrive.net.http.errors import PeerFaultError
from logdrive.net.http.exchange import HeaderList, join_headers
from logdrive.net.http.limits import HttpLimits
from logdrive.net.http.multiplexer import MultiplexedStream, Multiplexer


class ResponseHead(NamedTuple):
    """The head of a response; names of *headers* are in lower case, repeated ones joined."""

    status: int
    headers: Mapping[str, str]


class ClientStream(MultiplexedStream):
    """One request and its response, each of which goes on while the other does.

    Use it as an async context manager: what has not ended when the context is left is reset. One
    task at a time sends, and one receives. All methods raise `TransientError` once the server has
    reset the stream or the connection is lost.
    """

    def __init__(self, connection: "Http2ClientConnection", stream_id: int) -> None:
        super().__init__(connection, stream_id)
        self._connection = connection
        self._head: asyncio.Future[ResponseHead] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> "ClientStream":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.reset()

    async def send(self, data: bytes) -> None:
        """Return once flow control has taken *data*, a part of the request's body."""
        await self._connection.send(self.outbound, data)

    async def end_sending(self) -> None:
        """End the request's body."""
        self.outbound.check_open()
        self.outbound.ending = True
        self._connection.offer(self.outbound)
        await self.outbound.wait_sent()

    async def response(self) -> ResponseHead:
        """Return the response's head once it has arrived."""
        return await asyncio.shield(self._head)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the response's body as it arrives; the server may send as much as was taken."""
        while data := await self.inbound.next_chunk():
            yield data

    async def read_body(self, limit: int) -> bytes:
        """Return the rest of the response's body. Raises `BodyTooLargeError` above *limit*."""
        return await self.inbound.read_all(limit)

    def reset(self) -> None:
        """Break off what has not ended, and drop what was not read; may be called twice."""
        self._connection.reset(self, ErrorCodes.CANCEL)
        self.inbound.discard()

    def set_head(self, head: ResponseHead) -> None:
        """Called with the head when it has arrived."""
        if not self._head.done():
            self._head.set_result(head)

    def fail(self, failure: TransientError) -> None:
        """Let all that wait for the stream raise *failure*."""
        super().fail(failure)
        if not self._head.done():
            self._head.set_exception(failure)
            self._head.exception()  # it is no fault if none waits for the head


class Http2ClientConnection(Multiplexer):
    """Requests over one connection; `run` it once, in a task of its own."""

    def __init__(self, stream: ByteStream, limits: HttpLimits) -> None:
        budget = BodyBudget(limits.held_body_bytes)
        super().__init__(stream, limits, budget, server=False)
        self._peer = stream.peer
        self._slot = asyncio.Event()  # set when another stream may be open
        self.leaving: TransientError | None = None  # why no more streams can be opened

    async def run(self) -> None:
        """Carry requests and responses until the connection is over."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.write_until_closed(), name=f"http2-write {self._peer.address}")
            pings = tasks.create_task(self.keep_alive(), name=f"http2-ping {self._peer.address}")
            try:
                await self.read_until_closed(b"")
                failure = TransientError(f"{self._peer.address}: the server ended the connection")
            except PeerFaultError as fault:
                failure = TransientError(f"{self._peer.address}: {fault}")
            except TransientError as error:
                failure = error
            self.leaving = self.leaving or failure
            self.fail_streams(failure)
            self._slot.set()
            pings.cancel()
            self.close_writing()

    async def open_stream(
        self, method: str, path: str, headers: HeaderList, *, scheme: str, end: bool
    ) -> ClientStream:
        """Send a request's head; with *end* it has no body.

        Waits while the server allows no more streams. Raises `TransientError` if the connection is
        over, or the server is about to end it.
        """
        while self.leaving is None and not self._has_slot():
            self._slot.clear()
            await self._slot.wait()
        if self.leaving is not None:
            raise self.leaving.with_traceback(None)
        stream = ClientStream(self, self._h2.get_next_available_stream_id())
        if end:
            stream.outbound.ending = stream.outbound.ended = True
        given = dict(headers)
        pseudo = [
            (":method", method),
            (":path", path),
            (":scheme", scheme),
            (":authority", given.get("host", self._peer.address)),
        ]
        self.send_headers(
            stream.stream_id, [*pseudo, *(h for h in headers if h[0] != "host")], end=end
        )
        self.add_stream(stream)
        return stream

    def _has_slot(self) -> bool:
        return self._h2.open_outbound_streams < self._h2.remote_settings.max_concurrent_streams

    def leave(self) -> None:
        """Close the connection; streams that are open are reset."""
        self.leaving = self.leaving or TransientError(
            f"{self._peer.address}: the connection was closed on this side"
        )
        for stream in list(self.streams.values()):
            self.reset(stream, ErrorCodes.CANCEL)
        self._check_left()

    # Events --------------------------------------------------------------------------------------

    def on_event(self, event: events.Event) -> None:
        """Note the head of a response; other events need nothing done."""
        if isinstance(event, events.ResponseReceived):
            stream = self.streams.get(event.stream_id)
            if stream is not None:
                headers = join_headers(event.headers)
                status = headers.pop(":status", "")
                if status.isdecimal():
                    stream.set_head(ResponseHead(int(status), headers))
                else:
                    self.reset(stream, ErrorCodes.PROTOCOL_ERROR)
        elif isinstance(event, events.RemoteSettingsChanged):
            self._slot.set()

    def on_going_away(self, last_stream: int, code: int) -> None:
        """Fail the streams that the server will not serve; the others go on."""
        failure = TransientError(
            f"{self._peer.address}: the server is about to end the connection (code {code})"
        )
        self.leaving = self.leaving or failure
        self._slot.set()
        for stream in self._above(last_stream):
            stream.fail(failure)
            self.forget(stream)
        self._check_left()

    def _above(self, last_stream: int) -> Sequence[ClientStream]:
        return [s for s in self.streams.values() if s.stream_id > last_stream]

    def on_stream_closed(self, stream: Any) -> None:
        """Let a waiting request have the place of *stream*."""
        self._slot.set()
        self._check_left()

    def _check_left(self) -> None:
        """Close a connection that the server wants to end, once its streams have ended."""
        if self.leaving is not None and not self.streams and not self._closing:
            self.say_goodbye()
            self.close_writing()
