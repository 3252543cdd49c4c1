"""An HTTP/2 client that costs next to nothing: a blocking socket, one request at a time, and bodies
that were put into DATA frames before. For loads where the server is to be the limit.
"""

import socket
from collections import deque
from collections.abc import Iterator, Sequence

from hpack import Decoder, Encoder

from bench.processes import BenchmarkError

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEAD = 9
# types and flags of frames (RFC 9113, section 6)
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 0x1, 0x1, 0x4
_ENABLE_PUSH, _INITIAL_WINDOW, _MAX_FRAME = 2, 4, 5  # settings
_SETTING_BYTES = 6
_DEFAULT_WINDOW = 65_535
_OUR_WINDOW = 8 << 20
_OUR_FRAME = 1 << 20
_MOST_FRAME = 64 << 10  # of a body that is sent, if the server takes it
_RECV_BYTES = 1 << 20
_IOV = 512  # parts of one write
_SECONDS = 120.0


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return b"".join((len(payload).to_bytes(3), bytes((kind, flags)), stream.to_bytes(4), payload))


def _settings(values: dict[int, int]) -> bytes:
    pairs = (key.to_bytes(2) + value.to_bytes(4) for key, value in values.items())
    return _frame(_SETTINGS, 0, 0, b"".join(pairs))


class Http2Socket:
    """One connection over *sock*, which it closes; requests go out one after the other."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        sock.settimeout(_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._arrived = bytearray()
        self._encoder, self._decoder = Encoder(), Decoder()
        self._window = _DEFAULT_WINDOW
        self._initial_window = _DEFAULT_WINDOW
        self._stream_window = 0
        self._stream = -1
        self._taken = 0  # bytes of bodies since windows were opened last
        self._unsent: deque[memoryview] = deque()  # DATA frames that wait for the window
        self._peer_frame = 16_384
        self._settled = False
        sock.sendall(
            _PREFACE
            + _settings({_INITIAL_WINDOW: _OUR_WINDOW, _MAX_FRAME: _OUR_FRAME, _ENABLE_PUSH: 0})
            + _frame(_WINDOW_UPDATE, 0, 0, (_OUR_WINDOW - _DEFAULT_WINDOW).to_bytes(4))
        )
        while not self._settled:
            for _ in self._receive():
                raise BenchmarkError("the server answered what was not asked")

    def __enter__(self) -> "Http2Socket":
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    # Requests ------------------------------------------------------------------------------------

    def open(
        self, method: str, path: str, headers: Sequence[tuple[str, str]], *, end: bool
    ) -> None:
        """Send the head of the next request; with *end* it has no body."""
        self._stream += 2
        self._stream_window = self._initial_window
        pseudo = [
            (":method", method),
            (":path", path),
            (":scheme", "http"),
            (":authority", "127.0.0.1"),
        ]
        block = self._encoder.encode([*pseudo, ("authorization", "Bearer bench"), *headers])
        flags = _END_HEADERS | (_END_STREAM if end else 0)
        self._sock.sendall(_frame(_HEADERS, flags, self._stream, block))

    def request(
        self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes = b""
    ) -> bytes:
        """Return the body of the answer. Raises `BenchmarkError` where its status is not 2xx."""
        self.open(method, path, headers, end=not body)
        if body:
            self.send(self.frames_of(body))
            self.end()
        return b"".join(self.body())

    def frames_of(self, body: bytes) -> list[bytes]:
        """Return DATA frames of the request that is open, for `send`."""
        size = min(self._peer_frame, _MOST_FRAME)
        return [
            _frame(_DATA, 0, self._stream, body[at : at + size]) for at in range(0, len(body), size)
        ]

    def send(self, frames: Sequence[bytes]) -> None:
        """Queue *frames*, and write what the windows allow."""
        self._unsent += map(memoryview, frames)
        self._write()

    def end(self) -> None:
        """End the request's body, once all is sent."""
        while self._unsent:
            for _ in self._receive():
                raise BenchmarkError("the server answered before it had the request")
        self._sock.sendall(_frame(_DATA, _END_STREAM, self._stream, b""))

    def body(self) -> Iterator[bytes]:
        """Yield the answer's body as it arrives, up to its end; queued frames go out meanwhile."""
        ended = False
        while not ended:
            for data, last in self._receive():
                ended = ended or last
                if data:
                    yield data

    # Frames --------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write what the windows allow of the frames that wait."""
        parts: list[memoryview] = []
        unsent = self._unsent
        while unsent and len(parts) < _IOV:
            size = len(unsent[0]) - _FRAME_HEAD
            if size > self._window or size > self._stream_window:
                break
            self._window -= size
            self._stream_window -= size
            parts.append(unsent.popleft())
        while parts:
            sent = self._sock.sendmsg(parts)
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if sent:
                parts[0] = parts[0][sent:]

    def _receive(self) -> Iterator[tuple[bytes, bool]]:
        """Wait for bytes; yield bodies that came with them, and whether they have ended."""
        # a server with Nagle's algorithm waits for our acknowledgement otherwise
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        data = self._sock.recv(_RECV_BYTES)
        if not data:
            raise BenchmarkError("the server has closed the connection")
        arrived = self._arrived
        arrived += data
        at = 0
        while len(arrived) - at >= _FRAME_HEAD:
            head = at + _FRAME_HEAD
            end = head + int.from_bytes(arrived[at : at + 3])
            if len(arrived) < end:
                break
            kind, flags = arrived[at + 3], arrived[at + 4]
            stream = int.from_bytes(arrived[at + 5 : head])
            at = end
            if kind == _DATA:
                self._taken += end - head
                yield bytes(memoryview(arrived)[head:end]), bool(flags & _END_STREAM)
            elif kind == _HEADERS:
                self._check_status(bytes(arrived[head:end]))
                if flags & _END_STREAM:
                    yield b"", True
            else:
                self._control(kind, flags, stream, bytes(arrived[head:end]))
        del arrived[:at]
        self._open_windows()
        self._write()

    def _open_windows(self) -> None:
        if self._taken > _OUR_WINDOW // 4:
            size = self._taken.to_bytes(4)
            self._taken = 0
            frames = [_frame(_WINDOW_UPDATE, 0, stream, size) for stream in (0, self._stream)]
            self._sock.sendall(b"".join(frames))

    def _check_status(self, block: bytes) -> None:
        decoded = self._decoder.decode(block)
        status = next((str(value) for name, value in decoded if str(name) == ":status"), "200")
        if not status.startswith("2"):
            raise BenchmarkError(f"the server answered {status}")

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _WINDOW_UPDATE:
            size = int.from_bytes(payload)
            if stream == 0:
                self._window += size
            elif stream == self._stream:
                self._stream_window += size
        elif kind == _SETTINGS and not flags & _ACK:
            self._on_settings(payload)
        elif kind == _PING and not flags & _ACK:
            self._sock.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _GOAWAY or (kind == _RST_STREAM and stream == self._stream):
            raise BenchmarkError(f"the server broke off with a frame of type {kind}: {payload!r}")

    def _on_settings(self, payload: bytes) -> None:
        for at in range(0, len(payload), _SETTING_BYTES):
            key = int.from_bytes(payload[at : at + 2])
            value = int.from_bytes(payload[at + 2 : at + _SETTING_BYTES])
            if key == _INITIAL_WINDOW:
                self._stream_window += value - self._initial_window
                self._initial_window = value
            elif key == _MAX_FRAME:
                self._peer_frame = value
        self._sock.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        self._settled = True
