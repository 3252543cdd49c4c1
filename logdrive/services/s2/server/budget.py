"""The memory budget of the S2 face: bytes of requests that are being done, over all connections.

What has arrived and was not taken yet is bounded by the windows of each connection instead. Who
waits for room takes nothing from their connection, so the peer is slowed down.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from typing import TypeVar

_T = TypeVar("_T")


class ByteBudget:
    """*total* bytes, given in the order in which they were asked for.

    What is larger than the whole budget gets it alone.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._free = total
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return self._total - self._free

    async def take(self, size: int) -> int:
        """Return once *size* bytes are held; give the number returned back with `give`."""
        size = min(size, self._total)
        if not self._waiting and size <= self._free:
            self._free -= size
            return size
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(size)  # it was given just before
            else:
                self._admit()
            raise
        return size

    def give(self, size: int) -> None:
        """Give back what `take` returned."""
        self._free += size
        self._admit()

    @contextlib.asynccontextmanager
    async def hold(self, size: int) -> "AsyncIterator[Held]":
        """Hold *size* bytes during the context, or longer: see `Held`."""
        held = Held(self, await self.take(size))
        try:
            yield held
        finally:
            held.leave()

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():
                if size > self._free:
                    return
                self._free -= size
                turn.set_result(None)
            self._waiting.popleft()


class Held:
    """Bytes that are held during a context of `ByteBudget.hold`."""

    def __init__(self, budget: ByteBudget, size: int) -> None:
        self._budget = budget
        self._size = size
        self._passed_on = False

    def shrink(self, size: int) -> None:
        """Give back all but *size* bytes, if more are held."""
        size = min(size, self._size)
        self._budget.give(self._size - size)
        self._size = size

    def give_when_done(self, future: "asyncio.Future[_T]") -> None:
        """Hold the bytes until *future* is done, whether or not someone waits for it still."""
        self._passed_on = True
        future.add_done_callback(lambda _: self._budget.give(self._size))

    def leave(self) -> None:
        """Give the bytes back at the context's end, unless a future gives them back."""
        if not self._passed_on:
            self._budget.give(self._size)
