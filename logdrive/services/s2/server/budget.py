"""The memory budget of the S2 face: bytes of requests that are being done, over all connections.

What has arrived and was not taken yet is bounded by the windows of each connection instead. Who
waits for room takes nothing from their connection, so the peer is slowed down.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
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
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold *size* bytes during the context."""
        held = await self.take(size)
        try:
            yield
        finally:
            self.give(held)

    async def hold_until_done(
        self, size: int, begin: "Callable[[], asyncio.Future[_T]]"
    ) -> "asyncio.Future[_T]":
        """Hold *size* bytes from before *begin* until the future that it returns is done.

        Who waits for the future may leave. What *begin* raises goes to the caller.
        """
        held = await self.take(size)
        try:
            future = begin()
        except BaseException:
            self.give(held)
            raise
        future.add_done_callback(lambda _: self.give(held))
        return future

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():
                if size > self._free:
                    return
                self._free -= size
                turn.set_result(None)
            self._waiting.popleft()
