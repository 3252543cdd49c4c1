"""A blocking client, for programs without an event loop such as Spark's workers.

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

from logdrive.host.transport import ClientTls
from logdrive.model.framing import Part
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.client import SegmentClient, connect_segment_store
from logdrive.services.pravega.client.controller import Login

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a segment store or a controller, and what to connect with.

    It pickles, so that Spark can send it to its workers.
    """

    host: str
    port: int
    tls: ClientTls | None = None
    """None: plain TCP."""
    token: str = field(default="", repr=False)
    """Delegation token for a segment store, "" if it asks for none."""
    login: Login | None = None
    """User and password for a controller, None if it asks for none."""

    def token_of(self, segment: str) -> str:
        """Return the token, which is the same for all segments (a `TokenOf`)."""
        return self.token


class BlockingClient:
    """One connection to a segment store, with an event loop that runs only during calls.

    Use it in a `with` block. Entering raises `TransientError` if the store does not answer.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._runner = asyncio.Runner()
        # Closes the connection.
        self._connection = AsyncExitStack()
        # None outside the `with` block.
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
        connecting = connect_segment_store(
            SystemTransport(), target.host, target.port, target.tls, token=target.token_of
        )
        self._client = await self._connection.enter_async_context(connecting)

    def call(self, operation: Callable[[SegmentClient], Awaitable[T]]) -> T:
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

    def fetch(self, segment: str, start: int, end: int) -> bytes:
        """Return the bytes [*start*, *end*) of *segment*, all of which must exist.

        Fastest for 4 to 32 MiB at a time. Raises what `SegmentClient.read_range` raises.
        """

        async def read(client: SegmentClient) -> list[Part]:
            return [piece async for piece in client.read_range(segment, start, end)]

        # Joined once: a buffer that grows with each piece is moved in memory again and again.
        return b"".join(self.call(read))
