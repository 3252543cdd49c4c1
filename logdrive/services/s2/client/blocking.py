"""A blocking client of S2, for programs without an event loop such as Spark's workers.

with BlockingS2Client(target) as client:
    tail = client.call(lambda service: service.check_tail("events"))
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from logdrive.net.tcp import SystemTransport
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.target import S2Target

T = TypeVar("T")


class BlockingS2Client:
    """An `S2Client` with an event loop that runs only during calls. Use it in a `with` block."""

    def __init__(self, target: S2Target) -> None:
        self._target = target
        self._runner = asyncio.Runner()
        self._client: S2Client | None = None  # None outside the `with` block

    def __enter__(self) -> Self:
        self._runner.run(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        client, self._client = self._client, None
        try:
            if client is not None:
                self._runner.run(client.close())
        finally:
            self._runner.close()

    async def _open(self) -> None:
        self._client = S2Client(SystemTransport(), self._target)

    def call(self, operation: Callable[[S2Client], Awaitable[T]]) -> T:
        """Run *operation* with the client; return its result or raise its exception."""
        client = self._client
        assert client is not None, "not entered"
        # Not as the task's result: the runner spends seconds on the repr of a long one, for its
        # signal handlers.
        found: list[T] = []

        async def main() -> None:
            found.append(await operation(client))

        self._runner.run(main())
        return found[0]
