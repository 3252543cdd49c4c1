"""A foreign writer: plain Lumberjack v2, at least once, as Beats are: what was not acknowledged is sent again."""

import asyncio
from collections import deque

from logdrive.errors import LogdriveError
from logdrive.net.stream import ClientTls, Stream
from logdrive.wire.lumberjack.frames import Ack, Window, json_frames
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameReader
from tests.support.memory_transport import MemoryNetwork

_WINDOW_EVENTS = 50
_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 1.0


class Beat:
    """One client with one connection and one window in flight; *hosts* are tried in turn."""

    def __init__(self, name: str, hosts: list[str], network: MemoryNetwork) -> None:
        self.name, self.mark = name, b'{"beat":"%b"' % name.encode()
        self.sent: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self._hosts, self._network = hosts, network
        self._waiting: deque[bytes] = deque()
        self._more = asyncio.Event()

    @property
    def settled(self) -> bool:
        """Whether all events are acknowledged."""
        return not self._waiting

    def burst(self, lines: int) -> None:
        """Have so many more events to send."""
        for _ in range(lines):
            self.send(self.mark + b',"number":%d,"message":"something happened"}' % len(self.sent))

    def send(self, event: bytes) -> None:
        """Have one more event to send, which has `mark` in it and is like no other."""
        self.sent.append(event)
        self._waiting.append(event)
        self._more.set()

    async def run(self) -> None:
        """Send, for ever."""
        turn = 0
        while True:
            await self._more.wait()
            try:
                await self._serve(self._hosts[turn % len(self._hosts)])
            except (LogdriveError, TimeoutError):
                turn += 1
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _serve(self, host: str) -> None:
        transport = self._network.host(self.name, f"cn:{self.name}")
        stream = await transport.connect(host, 5044, ClientTls("ca.pem", "client.pem", "client.key"))
        reader = FrameReader(PLAIN_LUMBERJACK, side="writer", dialect="lumberjack")
        try:
            while True:
                window = list(self._waiting)[:_WINDOW_EVENTS]
                if not window:
                    self._more.clear()
                    await self._more.wait()
                    continue
                await stream.write([Window(len(window)).encode(), *json_frames(1, window)])
                await self._await(stream, reader, len(window))
        finally:
            await stream.close()

    async def _await(self, stream: Stream, reader: FrameReader, count: int) -> None:
        """Take acknowledgements until the window is whole; a partial one counts at once."""
        done = 0
        while done < count:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                data = await stream.read()
            if not data:
                raise TimeoutError
            for frame in reader.feed(data):
                if isinstance(frame, Ack):
                    for _ in range(frame.sequence - done):
                        self.acknowledged.append(self._waiting.popleft())
                    done = max(done, frame.sequence)
