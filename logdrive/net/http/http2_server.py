"""The server's end of an HTTP/2 connection: each stream is a request for the handler."""

import asyncio
from typing import Any, Final

from h2 import events
from h2.errors import ErrorCodes

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.net.http.bodies import BodyBudget
from logdrive.net.http.errors import PeerFaultError
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
from logdrive.net.http.multiplexer import MultiplexedStream, Multiplexer

_CONTINUE: Final = [(":status", "100")]


class _ServerStream(MultiplexedStream):
    """One request under way."""

    def __init__(self, multiplexer: "Http2ServerConnection", stream_id: int) -> None:
        super().__init__(multiplexer, stream_id)
        self.expects_continue = False
        self.response: _Http2Response | None = None
        self.task: asyncio.Task[None] | None = None  # of the handler
        self._connection = multiplexer

    def on_body_wanted(self) -> None:
        """Tell a peer that asked for it that the body is welcome (RFC 9110, section 10.1.1)."""
        waits = self.expects_continue and self.response is not None and not self.response.started
        if waits and self.stream_id in self._connection.streams:
            self._connection.send_headers(self.stream_id, _CONTINUE)


class _Http2Response(HttpResponse):
    """Sends by way of the connection's writer."""

    def __init__(
        self, multiplexer: "Http2ServerConnection", stream: _ServerStream, *, bodiless: bool
    ) -> None:
        super().__init__(bodiless=bodiless)
        self._multiplexer = multiplexer
        self._stream = stream

    async def start(self, status: int, headers: HeaderList = ()) -> None:
        """Queue the head for the next write."""
        self._start(status, headers)

    def _start(self, status: int, headers: HeaderList) -> None:
        self._stream.outbound.check_open()
        if self.started:
            raise RuntimeError("the response was started already")
        self.started = True
        self._multiplexer.send_headers(self._stream.stream_id, [(":status", str(status)), *headers])

    async def send(self, data: bytes) -> None:
        """Return once *data* was put into frames."""
        if not self._bodiless:
            await self._multiplexer.send(self._stream.outbound, data)

    async def end(self) -> None:
        """Return once END_STREAM was put into a frame."""
        outbound = self._stream.outbound
        outbound.check_open()
        self.ended = outbound.ending = True
        self._multiplexer.offer(outbound)
        await outbound.wait_sent()

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Send the whole response, in one write if the windows allow."""
        if status not in (204, 304):
            headers = [*headers, ("content-length", str(len(body)))]
        self._start(status, headers)
        if not self._bodiless:
            self._stream.outbound.add(body)
        await self.end()

    def abort(self) -> None:
        """Reset the stream."""
        self.ended = True
        self._multiplexer.reset(self._stream, ErrorCodes.INTERNAL_ERROR)


class Http2ServerConnection(Multiplexer):
    """Serves one connection; `run` it once."""

    def __init__(
        self,
        stream: ByteStream,
        handler: Handler,
        limits: HttpLimits,
        faults: FaultLog,
        budget: BodyBudget,
    ) -> None:
        super().__init__(stream, limits, budget, server=True)
        self._handler = handler
        self._faults = faults
        self._peer = stream.peer
        self._tasks: asyncio.TaskGroup | None = None
        self._handlers = 0  # that run, also for streams that are gone
        self._draining = False
        self._idle: asyncio.TimerHandle | None = None  # runs while there are no streams

    async def run(self, first: bytes) -> None:
        """Serve requests until the connection is over; *first* bytes were read before."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self.write_until_closed(), name=f"http2-write {self._peer.address}")
            pings = tasks.create_task(self.keep_alive(), name=f"http2-ping {self._peer.address}")
            self._arm_idle()
            try:
                await self.read_until_closed(first)
                failure = TransientError(f"{self._peer.address}: the peer ended the connection")
            except PeerFaultError as fault:
                self._faults.note_fault(self._peer.address, str(fault), fault.limit)
                failure = TransientError(f"{self._peer.address}: {fault}")
            except TransientError as error:
                failure = error
            finally:
                self._disarm_idle()
            self.fail_streams(failure)
            pings.cancel()
            self.close_writing()

    def begin_drain(self) -> None:
        """Close the connection as soon as it has no request under way."""
        self._draining = True
        self._check_idle()

    def stop(self) -> None:
        """Close the connection now; requests under way are reset."""
        for stream in list(self.streams.values()):
            self.reset(stream, ErrorCodes.CANCEL)
            if stream.task is not None:
                stream.task.cancel()
        # last, for h2 takes nothing after a GOAWAY frame, not even a reset
        self.say_goodbye()
        self.close_writing()

    # Events --------------------------------------------------------------------------------------

    def on_event(self, event: events.Event) -> None:
        """Begin a request; other events need nothing done."""
        if isinstance(event, events.RequestReceived):
            self._on_request(event)

    def on_going_away(self, last_stream: int, code: int) -> None:
        """Close the connection once its requests are answered."""
        self.begin_drain()

    def _on_request(self, event: Any) -> None:
        headers = join_headers(event.headers)
        if self._tasks is None or self._handlers >= self.limits.concurrent_streams:
            self.refuse(event.stream_id)
            return
        method = headers.pop(":method", "")
        target = origin_form(headers.pop(":path", ""))
        headers.pop(":scheme", "")
        if authority := headers.pop(":authority", ""):
            headers["host"] = authority

        self._disarm_idle()
        stream = _ServerStream(self, event.stream_id)
        stream.expects_continue = headers.get("expect", "").lower() == "100-continue"
        self.add_stream(stream)
        request = HttpRequest(
            method, target or "", headers, peer=self._peer, version="2", body=stream.inbound
        )
        response = _Http2Response(self, stream, bodiless=method == "HEAD")
        stream.response = response
        handler = self._handler if target is not None else refuse_target
        self._handlers += 1
        stream.task = self._tasks.create_task(
            self._answer(handler, stream, request, response),
            name=f"http2-request {self._peer.address}",
        )

    async def _answer(
        self, handler: Handler, stream: _ServerStream, request: HttpRequest, response: HttpResponse
    ) -> None:
        try:
            await run_handler(handler, request, response)
        finally:
            self._handlers -= 1
            stream.task = None
            self._discard_rest(stream)
            self._check_idle()

    def _discard_rest(self, stream: _ServerStream) -> None:
        """Drop what the handler left of a body; reset the stream if it goes on.

        Not at once: some clients lose a response if the reset (RFC 9113, section 8.1) comes with
        it.
        """
        stream.inbound.discard()
        if stream.outbound.ended and not stream.inbound.ended:
            linger = self.limits.linger_seconds
            self._loop.call_later(linger, self.reset, stream, ErrorCodes.NO_ERROR)

    def on_stream_closed(self, stream: _ServerStream) -> None:
        """Give the handler of a lost stream some time to end by itself."""
        if stream.task is not None and stream.outbound.failed:
            timer = self._loop.call_later(self.limits.orphan_seconds, stream.task.cancel)
            stream.task.add_done_callback(lambda _: timer.cancel())
        self._check_idle()

    # Idle connections ----------------------------------------------------------------------------

    def _check_idle(self) -> None:
        if self.streams or self._handlers or self.failure is not None:
            return
        if self._draining:
            self._leave()
        else:
            self._arm_idle()

    def _arm_idle(self) -> None:
        self._disarm_idle()
        self._idle = self._loop.call_later(self.limits.idle_seconds, self._leave)

    def _disarm_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _leave(self) -> None:
        self._disarm_idle()
        if not self._closing:
            self.say_goodbye()
            self.close_writing()
