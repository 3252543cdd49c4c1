"""A blocking client of Iggy, for programs without an event loop such as Spark's workers.

with BlockingIggyClient(target) as client:
    states = client.call(lambda service: partition_states(service, "logs", "events"))
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar

from logdrive.net.tcp import SystemTransport
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.reader.connect import connect_service
from logdrive.services.iggy.reader.polling import IggyRequester

T = TypeVar("T")


class BlockingIggyClient:
    """A connection with an event loop that runs only during calls. Use it in a `with` block.

    Entering connects and logs in: it raises `TransientError`, and `IggyError` for a refusal.
    """

    def __init__(self, target: IggyTarget) -> None:
        self._target = target
        self._runner = asyncio.Runner()
        self._connection = AsyncExitStack()  # closes the client
        self._service: IggyRequester | None = None  # None outside the `with` block

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
        self._service = None
        try:
            self._runner.run(self._connection.aclose())
        finally:
            self._runner.close()

    async def _open(self) -> None:
        self._service = await self._connection.enter_async_context(
            connect_service(SystemTransport(), self._target)
        )

    def call(self, operation: Callable[[IggyRequester], Awaitable[T]]) -> T:
        """Run *operation* with the connection; return its result or raise its exception."""
        service = self._service
        assert service is not None, "not entered"
        # Not as the task's result: the runner spends seconds on the repr of a long one, for its
        # signal handlers.
        found: list[T] = []

        async def main() -> None:
            found.append(await operation(service))

        self._runner.run(main())
        return found[0]
