"""The server's end of an HTTP/1.1 connection: one request after the other, by h11."""

import asyncio
import http
from typing import Final

import h11

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.model.framing import Part
from logdrive.net.http.bodies import BodyBudget, BodyQueue, HeldBytes
from logdrive.net.http.exchange import (
    Handler,
    HeaderList,
    HttpRequest,
    HttpResponse,
    join_headers,
    origin_form,
)
from logdrive.net.http.handling import FaultLog, refuse_target, run_handler
from logdrive.net.http.limits import HttpLimits

_CLOSE: Final = ("connection", "close")
_STATUSES: Final = frozenset(http.HTTPStatus)
_BodyEvent = h11.Data | h11.EndOfMessage


class _Http1Response(HttpResponse):
    """Writes to the connection at once."""

    def __init__(self, connection: "Http1ServerConnection", *, bodiless: bool) -> None:
        super().__init__(bodiless=bodiless)
        self._connection = connection

    async def start(self, status: int, headers: HeaderList = ()) -> None:
        """Write the head."""
        await self._connection.write(self._start(status, headers))

    def _start(self, status: int, headers: HeaderList) -> list[Part]:
        if self.started:
            raise RuntimeError("the response was started already")
        self.started = True
        return self._connection.make_head(status, headers)

    async def send(self, data: bytes) -> None:
        """Write *data*, as a chunk if the length was not given."""
        if data and not self._bodiless:
            await self._connection.write(self._connection.make(h11.Data(data=data)))

    async def end(self) -> None:
        """Write the end of a chunked body."""
        self.ended = True
        await self._connection.write(self._connection.make(h11.EndOfMessage()))

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Write the whole response at once."""
        if status not in (204, 304):
            headers = [*headers, ("content-length", str(len(body)))]
        parts = self._start(status, headers)
        if body and not self._bodiless:
            parts += self._connection.make(h11.Data(data=body))
        self.ended = True
        await self._connection.write(parts + self._connection.make(h11.EndOfMessage()))

    def abort(self) -> None:
        """Break the connection off: the peer must see that the response is not whole."""
        self.ended = True
        self._connection.abort()


class Http1ServerConnection:
    """Serves one connection; `run` it once.

    While a handler runs, the connection goes on reading: the body, up to `body_queue_bytes` ahead
    of the handler, then whatever shows that the peer has left.
    """

    def __init__(
        self,
        stream: ByteStream,
        handler: Handler,
        limits: HttpLimits,
        faults: FaultLog,
        budget: BodyBudget,
    ) -> None:
        self._stream = stream
        self._handler = handler
        self._limits = limits
        self._faults = faults
        self._peer = stream.peer
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_list_bytes)
        self._held = HeldBytes(budget)
        self._room = asyncio.Event()  # set while the body's queue may be filled
        self._wanted = asyncio.Event()  # set once the handler wants the body
        self._writing = asyncio.Lock()  # "100 Continue" is not written by the handler's task
        self._failure: TransientError | None = None
        self._draining = False
        self._first = True  # no request was served yet
        self._waiting: asyncio.Timeout | None = None  # for a request

    async def run(self, first: bytes) -> None:
        """Serve requests until the connection is over; *first* bytes were read before."""
        if first:
            self._h11.receive_data(first)
        try:
            while (event := await self._next_request()) is not None:
                if not await self._serve(event):
                    return
                self._h11.start_next_cycle()
        except h11.RemoteProtocolError as error:
            self._faults.note_fault(self._peer.address, str(error), "")
            await self._refuse(error.error_status_hint)
        except TimeoutError:  # no request, or only the beginning of one
            return

    def begin_drain(self) -> None:
        """Close the connection as soon as it has no request under way."""
        self._draining = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    def stop(self) -> None:
        """Close the connection now."""
        self.abort()

    async def _next_request(self) -> h11.Request | None:
        """Return the next request's head, or None at the end of the connection."""
        if self._draining:
            return None
        begun = self._first or bool(self._h11.trailing_data[0])
        self._first = False
        seconds = self._limits.head_seconds if begun else self._limits.idle_seconds
        async with asyncio.timeout(seconds) as waiting:
            self._waiting = waiting
            try:
                while True:
                    event = self._h11.next_event()
                    if isinstance(event, h11.Request):
                        self._check_head(event)
                        return event
                    if event is not h11.NEED_DATA:
                        return None
                    data = await self._stream.read()
                    if not data:
                        return None
                    self._h11.receive_data(data)
                    # from its first byte on a head has less time than an idle connection
                    self._shorten(waiting)
            finally:
                self._waiting = None

    def _check_head(self, event: h11.Request) -> None:
        """Refuse a head that is too long; h11 does so only if it comes in pieces.

        And one with two lengths, of which a proxy may have taken the other one (RFC 9112, section
        6.3): what it took for a body would be a request here.
        """
        names = {name for name, _ in event.headers}
        if {b"content-length", b"transfer-encoding"} <= names:
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        size = len(event.target) + sum(len(name) + len(value) for name, value in event.headers)
        if size > self._limits.header_list_bytes:
            raise h11.RemoteProtocolError("the request's head is too long", error_status_hint=431)

    def _shorten(self, waiting: asyncio.Timeout) -> None:
        when = waiting.when()
        if when is not None and not waiting.expired():
            soon = asyncio.get_running_loop().time() + self._limits.head_seconds
            waiting.reschedule(min(when, soon))

    async def _serve(self, event: h11.Request) -> bool:
        """Answer a request; return whether the connection can be used for another one."""
        headers = join_headers(event.headers)
        method = event.method.decode("latin-1")
        target = origin_form(event.target.decode("latin-1"))
        self._room.set()
        self._wanted.clear()
        body = BodyQueue(self._on_taken, self._wanted.set)
        request = HttpRequest(
            method, target or "", headers, peer=self._peer, version="1.1", body=body
        )
        response = _Http1Response(self, bodiless=method == "HEAD")
        handler = self._handler if target is not None else refuse_target
        async with asyncio.TaskGroup() as tasks:
            answer = tasks.create_task(
                run_handler(handler, request, response), name=f"http1-request {self._peer.address}"
            )
            reading = tasks.create_task(
                self._read(body, response, answer), name=f"http1-read {self._peer.address}"
            )
            await asyncio.wait([answer])
            reading.cancel()
        self._held.clear()
        return self._failure is None and await self._drop_unread()

    def _on_taken(self, size: int) -> None:
        self._held.remove(size)
        self._room.set()

    # Reading while a handler runs ----------------------------------------------------------------

    async def _read(
        self, body: BodyQueue, response: _Http1Response, answer: "asyncio.Task[None]"
    ) -> None:
        """Fill *body*, then watch for the peer's end."""
        try:
            await self._read_body(body, response)
            # bytes that wait in h11 are the next request: it has its turn later
            while not self._h11.trailing_data[0]:
                data = await self._stream.read()
                if not data:
                    break
                self._h11.receive_data(data)
            else:
                return
        except TransientError as error:
            self._failure = error
        except h11.RemoteProtocolError as error:
            self._faults.note_fault(self._peer.address, str(error), "")
            self._failure = TransientError(f"{self._peer.address}: {error}")
        if self._failure is not None:
            body.fail(self._failure)
        await asyncio.sleep(self._limits.orphan_seconds)
        answer.cancel()

    async def _read_body(self, body: BodyQueue, response: _Http1Response) -> None:
        events = 0
        while True:
            if self._h11.they_are_waiting_for_100_continue:
                await self._wanted.wait()
                if not response.started:
                    information = h11.InformationalResponse(status_code=100, headers=[])
                    await self.write(self.make(information))
            event = self._h11.next_event()
            if isinstance(event, h11.Data):
                if event.data:
                    self._held.add(len(event.data))
                    body.feed(bytes(event.data))
                if body.size >= self._limits.body_queue_bytes:
                    self._room.clear()
                    await self._room.wait()
            elif event is h11.NEED_DATA:
                await self._held.wait_room()
                data = await self._stream.read()
                if not data:
                    raise TransientError(f"{self._peer.address}: the peer ended the connection")
                self._h11.receive_data(data)
            else:
                if isinstance(event, h11.EndOfMessage):
                    body.feed_end()
                return
            # a peer that sends tiny chunks must not keep other connections waiting
            events += 1
            if events % self._limits.frames_a_turn == 0:
                await asyncio.sleep(0)

    async def _drop_unread(self) -> bool:
        """Read and drop the rest of the body; return whether another request may follow."""
        dropped = 0
        if self._h11.they_are_waiting_for_100_continue:
            return False
        async with asyncio.timeout(self._limits.head_seconds):
            while self._h11.their_state is h11.SEND_BODY:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    if not (data := await self._stream.read()):
                        return False
                    self._h11.receive_data(data)
                elif isinstance(event, h11.Data):
                    dropped += len(event.data)
                    if dropped > self._limits.unread_body_bytes:
                        return False
        return self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE

    # Writing -------------------------------------------------------------------------------------

    def make_head(self, status: int, headers: HeaderList) -> list[Part]:
        """Return the bytes of a response's head."""
        if self._draining:
            headers = [*headers, _CLOSE]
        reason = http.HTTPStatus(status).phrase if status in _STATUSES else ""
        return self.make(h11.Response(status_code=status, headers=list(headers), reason=reason))

    def make(self, event: h11.Response | h11.InformationalResponse | _BodyEvent) -> list[Part]:
        """Return the bytes of *event*; those of a body are not copied."""
        parts = self._h11.send_with_data_passthrough(event)
        return [part for part in parts or () if part]

    async def write(self, parts: list[Part]) -> None:
        """Write *parts*. Raises `TransientError`, also if the peer does not read for too long."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if not parts:
            return
        try:
            async with self._writing, asyncio.timeout(self._limits.write_stall_seconds):
                await self._stream.write(parts)
        except TransientError as error:
            # without the traceback, which would keep *parts* until the next collection
            self._failure = TransientError(str(error))
            raise
        except TimeoutError:
            seconds = self._limits.write_stall_seconds
            self._failure = TransientError(
                f"{self._peer.address}: the peer has read nothing for {seconds:g} s"
            )
            self._stream.abort()
            raise self._failure from None

    def abort(self) -> None:
        """Break the connection off."""
        self._failure = self._failure or TransientError(
            f"{self._peer.address}: the connection was closed on this side"
        )
        self._stream.abort()

    async def _refuse(self, status: int) -> None:
        """Answer what is no HTTP request, if nothing was answered yet."""
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            head = self.make_head(status, [("content-length", "0"), _CLOSE])
            await self.write(head + self.make(h11.EndOfMessage()))
