"""Bodies on their way out over one HTTP/2 connection: streams take turns, frame by frame."""

import asyncio
from collections import deque

from h2.connection import H2Connection

from logdrive.errors import TransientError
from logdrive.model.framing import Part


class OutboundBody:
    """What one stream has to send: bytes that wait for the windows, and the end."""

    __slots__ = ("_failure", "_parts", "_waiters", "ended", "ending", "size", "stream_id")

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id
        self.size = 0  # bytes that wait
        self.ending = False  # END_STREAM follows the last byte
        self.ended = False  # END_STREAM was sent
        self._parts: deque[memoryview] = deque()
        self._waiters: list[asyncio.Future[None]] = []
        self._failure: TransientError | None = None

    @property
    def failed(self) -> bool:
        """Whether the stream was reset or lost."""
        return self._failure is not None

    @property
    def pending(self) -> bool:
        """Whether a frame can be made, if the windows allow."""
        return self.size > 0 or (self.ending and not self.ended)

    def check_open(self) -> None:
        """Raise the `TransientError` that ended the stream, if one has."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def add(self, data: bytes) -> None:
        """Add *data*; without copying it."""
        if data:
            self._parts.append(memoryview(data))
            self.size += len(data)

    async def wait_sent(self) -> None:
        """Return once all bytes, and the end if it was set, were put into frames.

        Raises the `TransientError` of `fail`.
        """
        if self.pending:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self.check_open()

    def pop(self, limit: int) -> memoryview:
        """Remove and return the next bytes, at most *limit* of them, for one frame."""
        part = self._parts[0]
        if len(part) <= limit:
            self._parts.popleft()
        else:
            self._parts[0] = part[limit:]
            part = part[:limit]
        self.size -= len(part)
        return part

    def fail(self, failure: TransientError) -> None:
        """Drop what waits; its senders get *failure*."""
        if self._failure is None:
            self._failure = failure
        self._parts.clear()
        self.size = 0
        self.wake()

    def wake(self) -> None:
        """Let the waiting senders go on."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


class OutboundScheduler:
    """Fills the connection's windows with DATA frames of all streams in turn.

    A stream is in one of two queues while it has something to send: *ready*, or *blocked* by a
    window until the peer opens it.
    """

    def __init__(self, h2: H2Connection, frame_bytes: int) -> None:
        self._h2 = h2
        self._frame_bytes = frame_bytes
        self._ready: dict[int, OutboundBody] = {}  # by stream, in the order of their turns
        self._blocked: dict[int, OutboundBody] = {}

    @property
    def ready(self) -> bool:
        """Whether `fill` would make a frame."""
        return bool(self._ready)

    def offer(self, body: OutboundBody) -> None:
        """Queue *body*, which has something to send."""
        if body.stream_id not in self._blocked:
            self._ready[body.stream_id] = body

    def forget(self, stream_id: int) -> None:
        """Drop a stream that was reset."""
        self._ready.pop(stream_id, None)
        self._blocked.pop(stream_id, None)

    def unblock(self, stream_id: int) -> None:
        """Note that a window was opened: of one stream, or of the connection (0)."""
        if stream_id == 0:
            self._ready |= self._blocked
            self._blocked.clear()
        elif (body := self._blocked.pop(stream_id, None)) is not None:
            self._ready[stream_id] = body

    def fill(self, limit: int, parts: list[Part]) -> list[OutboundBody]:
        """Append frames of up to *limit* bytes, and one frame more, to *parts*.

        Before them comes what h2 has made: no DATA may come before its HEADERS. Return the bodies
        that ended.
        """
        ended: list[OutboundBody] = []
        made = 0
        while self._ready and made < limit:
            stream_id = next(iter(self._ready))
            body = self._ready.pop(stream_id)
            size = self._make_frame(body, parts)
            if size < 0:
                self._blocked[stream_id] = body
            else:
                made += size
                if body.pending:
                    self._ready[stream_id] = body
                elif body.ended:
                    ended.append(body)
        return ended

    def _make_frame(self, body: OutboundBody, parts: list[Part]) -> int:
        """Make the next DATA frame of *body*; return its size, or -1 if a window is closed."""
        if not body.pending:
            return 0
        data: bytes | memoryview = b""
        if body.size:
            window = self._h2.local_flow_control_window(body.stream_id)
            if window <= 0:
                return -1
            data = body.pop(min(window, self._frame_bytes, self._h2.max_outbound_frame_size))
        body.ended = body.ending and not body.size
        if body.ended:
            self._h2.send_data(body.stream_id, data, end_stream=True)
        if made := self._h2.data_to_send():
            parts.append(made)
        if not body.ended:
            parts += self._data_frame(body.stream_id, data)
        if not body.pending:
            body.wake()
        return len(data)

    def _data_frame(self, stream_id: int, data: Part) -> tuple[Part, Part]:
        """Return a DATA frame that ends nothing, in two parts.

        h2 would copy each byte four times. It has to know of such a frame only what the windows
        lose by it.
        """
        size = len(data)
        self._h2.outbound_flow_control_window -= size
        self._h2.streams[stream_id].outbound_flow_control_window -= size
        return size.to_bytes(3, "big") + b"\0\0" + stream_id.to_bytes(4, "big"), data
