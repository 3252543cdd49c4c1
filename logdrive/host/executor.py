"""Executor for blocking or heavy work: the protocol, and threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Executor(Protocol):
    """Runs plain functions off the event loop.

    With one thread, calls run in the order in which they were made.
    """

    async def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return what *function* returns, or raise what it raises."""
        ...

    def start(self, function: Callable[[*Ts], T], *arguments: *Ts) -> "asyncio.Future[T]":
        """Begin to run *function* and return a future of its result.

        The function runs whether or not the future is awaited.
        """
        ...

    def close(self) -> None:
        """Finish the calls that run and accept no more."""
        ...


class ThreadExecutor:
    """Named threads, for fdatasync and compression, which both release the GIL."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return what *function* returns, run in one of the threads."""
        return await self.start(function, *arguments)

    def start(self, function: Callable[[*Ts], T], *arguments: *Ts) -> "asyncio.Future[T]":
        """Begin to run *function* in one of the threads and return a future of its result."""
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def close(self) -> None:
        """Wait for the running calls and end the threads."""
        self._pool.shutdown()
