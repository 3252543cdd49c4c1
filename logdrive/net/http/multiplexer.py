"""One HTTP/2 connection over a `ByteStream`: what a server's and a client's end have in common.

Theory of operation. Two tasks share one h2 state machine. The *reader* feeds it what arrives, after
the `FrameGuard`, and acts on its events. The *writer* alone writes: it sleeps until something was
queued, then sends all that h2 has made, and the DATA frames that the windows allow, in one write.
So frames of one round of the event loop share a write, and back-pressure has one place.

A stream is known from its first HEADERS frame until both directions ended, or either end reset it:

| what happens                     | body received | body sent | stream    |
|----------------------------------|---------------|-----------|-----------|
| END_STREAM from the peer         | ends          |           | forgotten if we have ended, too |
| END_STREAM sent                  |               | ends      | forgotten if the peer has, too  |
| RST_STREAM from the peer, or ours| fails         | fails     | forgotten |
| connection lost                  | fails         | fails     | forgotten |
"""

import abc
import asyncio
import contextlib
from typing import Any

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError as H2ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import DataFrame, GoAwayFrame

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.model.framing import Part
from logdrive.net.http.bodies import BodyBudget, BodyQueue, HeldBytes
from logdrive.net.http.errors import PeerFaultError, StreamResetError
from logdrive.net.http.guard import FrameGuard
from logdrive.net.http.limits import DEFAULT_WINDOW_BYTES, HttpLimits
from logdrive.net.http.outbound import OutboundBody, OutboundScheduler

_LARGEST_FRAME = 2**24 - 1
_PING = b"logdrive"  # the eight bytes of a PING frame


def _describe(frame: DataFrame) -> str:
    return f"DataFrame(stream_id={frame.stream_id}, {len(frame.data)} bytes)"


# h2 formats each frame that it receives for a log that is off, all of the body in hexadecimal: two
# thirds of what a DATA frame costs it
DataFrame.__repr__ = _describe  # type: ignore[assignment, method-assign]


class MultiplexedStream:
    """One stream: the body that arrives and the body that goes out."""

    def __init__(self, multiplexer: "Multiplexer", stream_id: int) -> None:
        self.stream_id = stream_id
        self.inbound = BodyQueue(self._give_back, self.on_body_wanted)
        self.outbound = OutboundBody(stream_id)
        self._multiplexer = multiplexer

    def _give_back(self, size: int) -> None:
        self._multiplexer.on_taken(self.stream_id, size)

    def on_body_wanted(self) -> None:
        """Do what must be done before the body is first waited for: nothing, unless overridden."""

    def fail(self, failure: TransientError) -> None:
        """Let both directions raise *failure*."""
        self.inbound.fail(failure)
        self.outbound.fail(failure)


class Multiplexer(abc.ABC):
    """Streams, windows and the writer of one connection. `run` it once."""

    def __init__(
        self, stream: ByteStream, limits: HttpLimits, budget: BodyBudget, *, server: bool
    ) -> None:
        self.streams: dict[int, Any] = {}  # of MultiplexedStream, or what the subclass makes of it
        self.limits = limits
        self.failure: TransientError | None = None  # why the connection is over
        self._held = HeldBytes(budget)
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._h2 = _new_state(limits, server=server)
        self._guard = FrameGuard(limits, self._loop.time, server=server)
        self._scheduler = OutboundScheduler(self._h2, limits.data_frame_bytes)
        self._queue: list[bytes] = []  # frames that are neither DATA nor h2's to make
        self._control_bytes = 0  # made by h2, and not yet written
        self._wake = asyncio.Event()  # of the writer
        self._closing = False  # the writer ends once everything was written
        self._last_read = self._loop.time()  # when bytes arrived last, in seconds
        self._actions = {
            events.DataReceived: self._on_data,
            events.StreamEnded: self._on_stream_ended,
            events.StreamReset: self._on_stream_reset,
            events.WindowUpdated: self._on_window_updated,
            events.RemoteSettingsChanged: self._on_settings,
        }

    # What a subclass does ------------------------------------------------------------------------

    @abc.abstractmethod
    def on_event(self, event: events.Event) -> None:
        """Act on an event of h2 that concerns requests, responses or pings."""

    @abc.abstractmethod
    def on_going_away(self, last_stream: int, code: int) -> None:
        """Act on the peer's GOAWAY: it serves no stream above *last_stream*."""

    @abc.abstractmethod
    def on_stream_closed(self, stream: Any) -> None:
        """Act on a stream that was forgotten."""

    # Reading -------------------------------------------------------------------------------------

    async def read_until_closed(self, first: bytes) -> None:
        """Act on *first* and all that follows, until the peer ends the connection.

        Raises `TransientError` if it is lost, and `PeerFaultError`, after which the GOAWAY frame is
        queued.
        """
        data = first
        while data or (data := await self._read()):
            try:
                await self._receive(data)
            except PeerFaultError as fault:
                self._queue_goaway(self._h2.highest_inbound_stream_id, fault.code)
                raise
            except H2ProtocolError as error:  # h2 has made the GOAWAY frame
                self.wake()
                code = int(getattr(error, "error_code", ErrorCodes.PROTOCOL_ERROR))
                raise PeerFaultError(str(error) or type(error).__name__, code=code) from error
            data = b""

    async def _read(self) -> bytes:
        await self._held.wait_room()
        return await self._stream.read()

    async def keep_alive(self) -> None:
        """Ping a peer that is silent while streams are open; lose it if it stays silent.

        TCP notices a vanished host only when something is sent, and not a hung one at all.
        """
        seconds = self.limits.ping_seconds
        pinged_at: float | None = None  # when the last PING was sent
        while self.failure is None:
            await asyncio.sleep(seconds)
            now = self._loop.time()
            if pinged_at is not None and self._last_read < pinged_at:
                address = self._stream.peer.address
                self.lose(TransientError(f"{address}: no answer to a ping for {seconds:g} s"))
                return
            pinged_at = None
            if self.streams and now - self._last_read >= seconds:
                pinged_at = now
                self._h2.ping(_PING)
                self.wake()

    async def _receive(self, data: bytes) -> None:
        self._last_read = self._loop.time()
        several = False
        for piece in self._guard.cut(data):
            if several:  # other connections first, after a piece that was all one turn may do
                await asyncio.sleep(0)
            several = True
            for event in self._h2.receive_data(piece):
                action = self._actions.get(type(event))
                if action is not None:
                    action(event)
                else:
                    self.on_event(event)
            self._take_control_frames()
        if self._guard.went_away is not None:
            last_stream, code = self._guard.went_away
            self._guard.went_away = None
            self.on_going_away(last_stream, code)

    def _take_control_frames(self) -> None:
        """Queue what h2 has made in answer; a peer that does not read it must not pile it up."""
        if data := self._h2.data_to_send():
            self._queue.append(data)
            self._control_bytes += len(data)
            self._wake.set()
            if self._control_bytes > self.limits.control_queue_bytes:
                raise PeerFaultError(
                    "the peer does not read our answers to its frames",
                    code=ErrorCodes.ENHANCE_YOUR_CALM,
                    limit="control_queue_bytes",
                )

    def _on_data(self, event: Any) -> None:
        stream = self.streams.get(event.stream_id)
        size = len(event.data)
        if stream is None:  # reset by us while it was on the way
            self.give_back(event.stream_id, event.flow_controlled_length)
            return
        if event.flow_controlled_length > size:
            self.give_back(event.stream_id, event.flow_controlled_length - size)
        if size:
            self._held.add(size)
            stream.inbound.feed(event.data)

    def _on_stream_ended(self, event: Any) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.inbound.feed_end()
            if stream.outbound.ended:
                self.forget(stream)

    def _on_stream_reset(self, event: Any) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            code = int(event.error_code or 0)
            stream.fail(
                StreamResetError(
                    f"{self._stream.peer.address}: the peer reset the stream (code {code})",
                    code=code,
                )
            )
            self.forget(stream)

    def _on_window_updated(self, event: Any) -> None:
        self._scheduler.unblock(event.stream_id or 0)
        self._wake.set()

    def _on_settings(self, event: Any) -> None:
        if SettingCodes.INITIAL_WINDOW_SIZE in event.changed_settings:
            self._scheduler.unblock(0)  # the windows of all streams have changed
        self.on_event(event)

    # Streams -------------------------------------------------------------------------------------

    def add_stream(self, stream: MultiplexedStream) -> None:
        """Know *stream* from now on."""
        self.streams[stream.stream_id] = stream

    def forget(self, stream: MultiplexedStream) -> None:
        """Drop a stream that has ended or was reset; what its reader left is given back."""
        if self.streams.pop(stream.stream_id, None) is not None:
            self._scheduler.forget(stream.stream_id)
            if not stream.inbound.ended:
                self.on_taken(stream.stream_id, stream.inbound.drop())
            self.on_stream_closed(stream)

    def on_taken(self, stream_id: int, size: int) -> None:
        """Note that *size* bytes of a body were taken or dropped; the peer may send as many."""
        self._held.remove(size)
        self.give_back(stream_id, size)

    def give_back(self, stream_id: int, size: int) -> None:
        """Let the peer send *size* bytes more."""
        if size and self.failure is None and not self._closing:
            self._h2.acknowledge_received_data(size, stream_id)
            self.wake()

    def send_headers(
        self, stream_id: int, headers: list[tuple[str, str]], *, end: bool = False
    ) -> None:
        """Queue a HEADERS frame, before any DATA of the stream."""
        self._h2.send_headers(stream_id, headers, end_stream=end)
        self.wake()

    async def send(self, body: OutboundBody, data: bytes) -> None:
        """Return once *data* was put into frames. Raises `TransientError`."""
        body.check_open()
        body.add(data)
        self.offer(body)
        await body.wait_sent()

    def offer(self, body: OutboundBody) -> None:
        """Let the writer look at *body*."""
        if body.pending:
            self._scheduler.offer(body)
            self.wake()

    def reset(self, stream: MultiplexedStream, code: ErrorCodes) -> None:
        """Reset *stream*, if it is still known."""
        if stream.stream_id in self.streams:
            self._h2.reset_stream(stream.stream_id, code)
            address = self._stream.peer.address
            stream.fail(TransientError(f"{address}: the stream was reset on this side"))
            self.forget(stream)
            self.wake()

    def refuse(self, stream_id: int) -> None:
        """Refuse a new stream, of which nothing was handled: the peer may try again."""
        self._h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
        self.wake()

    # Writing -------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the writer look for frames."""
        self._wake.set()

    async def write_until_closed(self) -> None:
        """Write what is queued, until `close_writing` and all is written.

        Closes the connection then, and resets it if the peer does not read for too long.
        """
        try:
            while True:
                parts = self._next_parts()
                if parts:
                    async with asyncio.timeout(self.limits.write_stall_seconds):
                        await self._stream.write(parts)
                elif self._closing:
                    await self._stream.close()  # the reader gets the end
                    return
                else:
                    self._wake.clear()
                    await self._wake.wait()
        except TransientError as error:
            self.lose(error)
        except TimeoutError:
            seconds = self.limits.write_stall_seconds
            address = self._stream.peer.address
            self.lose(TransientError(f"{address}: the peer has read nothing for {seconds:g} s"))

    def _next_parts(self) -> list[Part]:
        ended: list[OutboundBody] = []
        parts: list[Part] = [*self._queue]
        self._queue.clear()
        self._control_bytes = 0
        if self._scheduler.ready and self.failure is None:
            ended = self._scheduler.fill(self.limits.write_bytes, parts)
        if data := self._h2.data_to_send():
            parts.append(data)
        for body in ended:
            stream = self.streams.get(body.stream_id)
            if stream is not None:
                self.on_sending_ended(stream)
        return parts

    def on_sending_ended(self, stream: MultiplexedStream) -> None:
        """Act on the end of the body sent: the stream is over if the peer has ended, too."""
        if stream.inbound.ended:
            self.forget(stream)

    def _queue_goaway(self, last_stream: int, code: int) -> None:
        """Queue a GOAWAY frame; h2's own would close its state, and open streams with it."""
        frame = GoAwayFrame(0, last_stream_id=last_stream, error_code=code)
        if data := self._h2.data_to_send():
            self._queue.append(data)
        self._queue.append(frame.serialize())
        self.wake()

    def say_goodbye(self) -> None:
        """Tell the peer which stream was the last one that is served."""
        self._queue_goaway(self._h2.highest_inbound_stream_id, ErrorCodes.NO_ERROR)

    def close_writing(self) -> None:
        """Let the writer end after what is queued."""
        self._closing = True
        self.wake()

    def lose(self, failure: TransientError) -> None:
        """Note that the connection is over: all streams fail, and the reader ends."""
        if self.failure is None:
            self.failure = failure
        self.fail_streams(failure)
        self._stream.abort()

    def fail_streams(self, failure: TransientError) -> None:
        """Let all streams fail, and forget them."""
        self.failure = self.failure or failure
        self._held.clear()
        for stream in list(self.streams.values()):
            stream.fail(failure)
            with contextlib.suppress(H2ProtocolError):
                self.forget(stream)


def _new_state(limits: HttpLimits, *, server: bool) -> H2Connection:
    """Return h2's state, our settings in force and queued before any other frame."""
    h2 = H2Connection(H2Configuration(client_side=not server, header_encoding=None))
    values = {
        SettingCodes.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
        SettingCodes.MAX_CONCURRENT_STREAMS: limits.concurrent_streams,
        SettingCodes.MAX_FRAME_SIZE: limits.frame_bytes,
        SettingCodes.MAX_HEADER_LIST_SIZE: limits.header_list_bytes,
        SettingCodes.ENABLE_PUSH: 0,
    }
    h2.local_settings = Settings(client=not server, initial_values=values)
    h2.max_inbound_frame_size = _LARGEST_FRAME  # the guard refuses longer ones than we allow
    h2.decoder.max_header_list_size = limits.header_list_bytes
    h2.initiate_connection()
    if limits.connection_window_bytes > DEFAULT_WINDOW_BYTES:
        h2.increment_flow_control_window(limits.connection_window_bytes - DEFAULT_WINDOW_BYTES)
    return h2
