"""The client for programs without an event loop, such as Spark's workers.

with BlockingClient(target) as client:
    info = client.call(lambda service: service.segment_info(segment))
    data = client.fetch(segment, 0, info.length)
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from logdrive.model.framing import Part
from logdrive.net.stream import ClientTls
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.client import SegmentClient, connected
from logdrive.services.pravega.client.controller import Login

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a segment store or a controller listens.

    Plain TCP without *tls*. Pickles, to travel to workers.

    *token* is what the one wants to see, *login* what the other does, where they ask.
    """

    host: str
    port: int
    tls: ClientTls | None = None
    token: str = field(default="", repr=False)
    login: Login | None = None

    def token_of(self, segment: str) -> str:
        """Return the token, for whichever of its segments."""
        return self.token


class BlockingClient:
    """One connection with an event loop of its own, which runs during calls only.

    Entering raises `TransientError` where nobody answers.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._runner = asyncio.Runner()
        self._connection = AsyncExitStack()
        self._client: SegmentClient | None = None

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._runner.close)
            self._runner.run(self._connect())
            undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._runner.run(self._connection.aclose())
        finally:
            self._runner.close()

    async def _connect(self) -> None:
        target = self._target
        connecting = connected(
            SystemTransport(), target.host, target.port, target.tls, token=target.token_of
        )
        self._client = await self._connection.enter_async_context(connecting)

    def call(self, operation: Callable[[SegmentClient], Awaitable[T]]) -> T:
        """Return what *operation* does on the connection, and raise what it raises."""
        client = self._client
        assert client is not None, "not entered"
        # not the task's result: where that is long, the runner spends seconds on its repr for
        # signal handlers
        found: list[T] = []

        async def main() -> None:
            found.append(await operation(client))

        self._runner.run(main())
        return found[0]

    def fetch(self, segment: str, start: int, end: int) -> bytes:
        """Return the bytes of [start, end) of *segment*, all of which must be there.

        Fastest for 4 to 32 MiB at a time.
        """

        async def read(client: SegmentClient) -> list[Part]:
            return [piece async for piece in client.read_range(segment, start, end)]

        # one buffer that grew with each piece would be moved in memory time and again
        return b"".join(self.call(read))
