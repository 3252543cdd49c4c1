"""Shared by the tests over real sockets: a bounded run, a listener that keeps what happened, and
captured log lines.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from logdrive.errors import TransientError
from logdrive.host.transport import Accept, ByteStream, ServerTls
from logdrive.net.tcp import SystemTransport

T = TypeVar("T")


def run(test: Coroutine[Any, Any, T], seconds: float = 30) -> T:
    """Run *test* on a loop of its own, not longer than *seconds*."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await test

    return asyncio.run(bounded())


class Echo:
    """A server that sends back what it gets, and keeps its peers and how each connection ended."""

    def __init__(self) -> None:
        self.streams: list[ByteStream] = []
        self.ends: list[str] = []

    async def __call__(self, stream: ByteStream) -> None:
        self.streams.append(stream)
        try:
            while data := await stream.read():
                await stream.write([data])
        except TransientError as error:
            self.ends.append(str(error))
            raise
        self.ends.append("")


@contextlib.asynccontextmanager
async def listening(
    tls: ServerTls | None, accept: Accept, transport: SystemTransport | None = None
) -> AsyncIterator[int]:
    """Listen on a free loopback port until the context ends, with the tasks of its connections."""
    before = asyncio.all_tasks()
    listener = await (transport or SystemTransport()).listen("127.0.0.1", 0, tls, accept)
    try:
        yield listener.address[1]
    finally:
        await listener.close()
        left = [
            task
            for task in asyncio.all_tasks()
            if task not in before and task.get_name().startswith("connection ")
        ]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def read_exactly(stream: ByteStream, size: int) -> bytes:
    """Read until *size* bytes have come or the stream ends."""
    parts: list[bytes] = []
    while size > 0 and (data := await stream.read()):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


async def eventually(condition: Any, seconds: float = 5.0) -> None:
    """Return once *condition*() holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other tasks, which know of no event
            await asyncio.sleep(0.005)
