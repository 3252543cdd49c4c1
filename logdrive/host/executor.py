"""Blocking or heavy work off the event loop, as an argument: what may ask for it, and the real
one.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Executor(Protocol):
    """Runs a plain function elsewhere.

    With one thread, calls run in the order in which they were made.
    """

    async def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return what *function* returns, or raise what it raises."""
        ...

    def start(self, function: Callable[[*Ts], T], *arguments: *Ts) -> "asyncio.Future[T]":
        """Return what *function* will return; it is under way from now on, whenever the future is
        awaited.
        """
        ...

    def close(self) -> None:
        """Finish what runs and take nothing more."""
        ...


class ThreadExecutor:
    """Threads with a name, for fdatasync and compression, both of which release the GIL."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return what *function* returns, from one of the threads."""
        return await self.start(function, *arguments)

    def start(self, function: Callable[[*Ts], T], *arguments: *Ts) -> "asyncio.Future[T]":
        """Return what *function* will return, from one of the threads."""
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def close(self) -> None:
        """Wait for the running calls and end the threads."""
        self._pool.shutdown()
