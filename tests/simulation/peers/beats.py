"""A foreign peer that speaks plain Lumberjack v2 as Beats do: it sends at least once."""

import asyncio
from collections import deque

from logdrive.errors import LogdriveError
from logdrive.host.transport import ByteStream, ClientTls
from logdrive.wire.lumberjack.frames import AckFrame, WindowFrame, json_frames
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameReader
from tests.support.memory.transport import MemoryNetwork

_WINDOW_EVENTS = 50  # limit on the events of a window
_PATIENCE_SECONDS = 30.0  # limit on the wait for an acknowledgement
_PAUSE_SECONDS = 1.0  # between two connections


class Beat:
    """One client with one connection and one window in flight; *hosts* are tried in turn."""

    def __init__(self, name: str, hosts: list[str], network: MemoryNetwork) -> None:
        self.name = name
        # every event of this peer has it, and no other event
        self.mark = b'{"beat":"%b"' % name.encode()
        self.sent: list[bytes] = []
        self.acknowledged: list[bytes] = []
        # events that may have been stored before a store was set back
        self._excused: set[bytes] = set()
        # events that were not acknowledged, in order
        self.waiting: deque[bytes] = deque()
        self.network = network
        # how it connects; None without TLS
        self.tls: ClientTls | None = ClientTls("ca.pem", "client.pem", "client.key")
        self._hosts = hosts
        # set when an event is added
        self._more = asyncio.Event()

    @property
    def settled(self) -> bool:
        """True if all events are acknowledged."""
        return not self.waiting

    def burst(self, lines: int) -> None:
        """Add *lines* events to those to send."""
        for _ in range(lines):
            self.send(self.event(len(self.sent)))

    def event(self, number: int) -> bytes:
        """Return event *number* as it is sent, and will be stored."""
        return self.mark + b',"number":%d,"message":"something happened"}' % number

    def window(self, events: list[bytes]) -> list[bytes]:
        """Return one window as it travels."""
        return [WindowFrame(len(events)).encode(), *json_frames(1, events)]

    def send(self, event: bytes) -> None:
        """Add *event* to those to send; it must have `mark` in it and differ from all others."""
        self.sent.append(event)
        self.waiting.append(event)
        self._more.set()

    async def run(self) -> None:
        """Send events on one connection after the other; never returns."""
        turn = 0
        while True:
            while not self.waiting:
                self._more.clear()
                await self._more.wait()
            try:
                await self.serve(self._hosts[turn % len(self._hosts)])
            except (LogdriveError, TimeoutError):
                turn += 1
                await asyncio.sleep(_PAUSE_SECONDS)

    async def serve(self, host: str) -> None:
        """Send on one connection to *host* until it fails. Raises its error."""
        transport = self.network.host(self.name, f"cn:{self.name}")
        stream = await transport.connect(host, 5044, self.tls)
        reader = FrameReader(PLAIN_LUMBERJACK, side="writer", dialect="lumberjack")
        try:
            while True:
                if not self.waiting:
                    self._more.clear()
                    await self._more.wait()
                    continue
                await self.exchange(stream, reader)
        finally:
            await stream.close()

    async def exchange(self, stream: ByteStream, reader: FrameReader) -> None:
        """Send one window, and read until it is acknowledged; partial acknowledgements count."""
        window = list(self.waiting)[:_WINDOW_EVENTS]
        await stream.write(self.window(window))
        done = 0
        while done < len(window):
            for frame in reader.receive_data(await self.heard(stream)):
                if isinstance(frame, AckFrame):
                    self.settle(frame.sequence - done)
                    done = max(done, frame.sequence)

    async def heard(self, stream: ByteStream) -> bytes:
        """Return the next bytes from the receiver. Raises TimeoutError if none come."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            data = await stream.read()
        if not data:
            raise TimeoutError
        return data

    def settle(self, count: int) -> None:
        """Move the first *count* waiting events to those acknowledged."""
        for _ in range(count):
            event = self.waiting.popleft()
            if event not in self._excused:
                self.acknowledged.append(event)

    def forget(self) -> None:
        """Forget what was acknowledged: it may be lost rightly. So may what is under way."""
        self.acknowledged.clear()
        self._excused.update(self.waiting)
