"""The client for programs without an event loop, such as Spark's workers: each call makes a loop, a connection, and ends both."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from logdrive.net.stream import ClientTls
from logdrive.net.tcp import SystemTransport
from logdrive.sinks.pravega_client import SegmentClient, connected

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a segment store listens. Plain TCP without *tls*. Pickles, to travel to workers."""

    host: str
    port: int
    tls: ClientTls | None = None


def call(target: Target, operation: Callable[[SegmentClient], Awaitable[T]]) -> T:
    """Return what *operation* does over a connection of its own. Raises what it raises, `TransientError` where nobody answers."""

    async def main() -> T:
        async with connected(SystemTransport(), target.host, target.port, target.tls) as client:
            return await operation(client)

    return asyncio.run(main())


def fetch(target: Target, segment: str, start: int, end: int) -> bytes:
    """Return the bytes of [start, end) of *segment*, all of which must be there."""

    async def read(client: SegmentClient) -> bytes:
        return b"".join([piece async for piece in client.read_range(segment, start, end)])

    return call(target, read)
