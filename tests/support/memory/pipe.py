"""One direction of a connection in memory: ordered bytes with a bound, delays, an end, failures."""

import asyncio
import random as random_module
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from logdrive.errors import TransientError
from logdrive.model.framing import Part

_READ_BYTES = 256 * 1024


class Weather(Protocol):
    """What the pipe asks of its link at every write."""

    delay: float
    jitter: float
    capacity: int
    up: bool
    vanish_to: frozenset[str]


class Pipe:
    """Bytes from one end to the other, at the host *to*.

    Written bytes count against the capacity until they are read.
    """

    def __init__(self, link: Weather, random: random_module.Random | None, to: str = "") -> None:
        self._link, self._random, self._to = link, random, to
        self.swallowed = False
        """Something has vanished on the way: nothing that was written after it can arrive any
        more.
        """
        self._arrived: deque[bytes] = deque()
        self._on_the_way: deque[bytes | None] = deque()  # None is the end
        self._waiting: deque[bytes | None] = deque()  # arrived while stalled
        self._held = 0  # bytes written and not yet read
        self._last_arrival = 0.0
        self._epoch = 0  # grows at a failure, so that what was on the way does not arrive
        self._ended = self._stalled = self._left = False
        self._closed_for_writing = False
        self._broken: str | None = None
        self._refused: str | None = None
        self._to_reader, self._to_writer = asyncio.Event(), asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether nothing can come out any more."""
        return self._left or self._broken is not None or (self._ended and not self._arrived)

    async def put(self, parts: Sequence[Part]) -> None:
        """Return once all *parts* are on the way."""
        for part in parts:
            rest = memoryview(part)
            while rest:
                await self._room()
                piece = bytes(rest[: max(1, self._link.capacity - self._held)])
                rest = rest[len(piece) :]
                self._held += len(piece)
                self._send(piece)
        self._check_writable()

    async def _room(self) -> None:
        while True:
            self._check_writable()
            if self._held < self._link.capacity:
                return
            self._to_writer.clear()
            await self._to_writer.wait()

    def _check_writable(self) -> None:
        if self._refused is not None:
            raise TransientError(self._refused)
        if self._closed_for_writing:
            raise TransientError("the connection was closed here")

    def _send(self, piece: bytes | None) -> None:
        loop = asyncio.get_running_loop()
        delay = self._link.delay + (
            self._random.uniform(0, self._link.jitter) if self._random is not None else 0.0
        )
        arrival = max(loop.time() + delay, self._last_arrival)
        self._last_arrival = arrival
        self._on_the_way.append(piece)
        if arrival <= loop.time() and len(self._on_the_way) == 1:
            self._arrive(self._epoch)
        else:
            loop.call_at(arrival, self._arrive, self._epoch)

    def _arrive(self, epoch: int) -> None:
        """Deliver the oldest piece: timers of one instant may fire in any order, pieces may not."""
        if epoch != self._epoch:
            return
        piece = self._on_the_way.popleft()
        if self.swallowed or self._to in self._link.vanish_to:
            self.swallowed = True
            # the writer is never told: not even by a buffer that fills up
            self._held -= len(piece or b"")
            self._to_writer.set()
        elif self._stalled or self._waiting or not self._link.up:
            self._waiting.append(piece)
        else:
            self._deliver(piece)

    def _deliver(self, piece: bytes | None) -> None:
        if piece is None:
            self._ended = True
        else:
            self._arrived.append(piece)
        self._to_reader.set()

    async def get(self) -> bytes:
        """Return bytes that have arrived, b"" at the end."""
        while not self._arrived:
            if self._left:
                return b""
            if self._broken is not None:
                raise TransientError(self._broken)
            if self._ended:
                return b""
            self._to_reader.clear()
            await self._to_reader.wait()
        if self._left:
            return b""
        data = self._take()
        self._held -= len(data)
        self._to_writer.set()
        return data

    def _take(self) -> bytes:
        data = self._arrived.popleft()
        while self._arrived and len(data) + len(self._arrived[0]) <= _READ_BYTES:
            data += self._arrived.popleft()
        limit = min(len(data), _READ_BYTES)
        if self._random is not None:
            limit = self._random.randint(1, limit)
        if limit < len(data):
            self._arrived.appendleft(data[limit:])
        return data[:limit]

    def end(self) -> None:
        """Say that no more is written; the reader gets b"" after the last byte."""
        if not self._closed_for_writing:
            self._closed_for_writing = True
            self._send(None)
            self._to_writer.set()

    def leave(self) -> None:
        """End reading: writes fail from now on, and a waiting read returns b""."""
        self._left = True
        self.refuse_writes("connection reset by the peer")
        self._to_reader.set()

    def fail(self, reason: str) -> None:
        """Lose what is on the way; the reader sees `TransientError` after what has arrived."""
        self._epoch += 1
        self._on_the_way.clear()
        self._waiting.clear()
        self._broken = self._broken or reason
        self._to_reader.set()

    def refuse_writes(self, reason: str) -> None:
        """Make every write raise `TransientError`, the waiting one too."""
        self._refused = self._refused or reason
        self._to_writer.set()

    def stall(self) -> None:
        """Keep what arrives from the reader."""
        self._stalled = True

    def resume(self) -> None:
        """Hand on what was kept."""
        self._stalled = False
        while self._waiting and self._link.up:
            self._deliver(self._waiting.popleft())
