"""An executor without threads, for tests that must run the same way every time."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class InlineExecutor:
    """Runs each call on the event loop, in order, after *delay* seconds of the loop's time.

    Even without a delay the other tasks get one turn first, as they would while a thread works.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.calls = 0
        self.closed = False
        self._turn = asyncio.Lock()

    async def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return what *function* returns, or raise what it raises."""
        if self.closed:
            raise RuntimeError("the executor is closed")
        async with self._turn:
            await asyncio.sleep(self.delay)
            self.calls += 1
            return function(*arguments)

    def start(self, function: Callable[[*Ts], T], *arguments: *Ts) -> "asyncio.Future[T]":
        """Return what *function* will return."""
        return asyncio.ensure_future(self.run(function, *arguments))

    def close(self) -> None:
        """Take nothing more."""
        self.closed = True
