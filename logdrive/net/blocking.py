"""Calls of an asynchronous client from programs without an event loop, such as Spark's workers."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Generic, Self, TypeVar

C = TypeVar("C")
T = TypeVar("T")


class BlockingConnection(Generic[C]):
    """A connection with an event loop that runs only during calls. Use it in a `with` block.

    Entering enters what *connect* returns and raises what that raises; leaving closes it.
    """

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[C]]) -> None:
        self._connect = connect
        self._runner = asyncio.Runner()
        # closes the client
        self._connection = AsyncExitStack()
        # None outside the `with` block
        self._client: C | None = None

    def __enter__(self) -> Self:
        try:
            self._runner.run(self._open())
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client = None
        try:
            self._runner.run(self._connection.aclose())
        finally:
            self._runner.close()

    async def _open(self) -> None:
        self._client = await self._connection.enter_async_context(self._connect())

    def call(self, operation: Callable[[C], Awaitable[T]]) -> T:
        """Run *operation* with the client; return its result or raise its exception."""
        client = self._client
        assert client is not None, "not entered"
        # Not as the task's result: the runner spends seconds on the repr of a long one, for its
        # signal handlers.
        results: list[T] = []

        async def main() -> None:
            results.append(await operation(client))

        self._runner.run(main())
        return results[0]
