"""A store behind its Pravega face in memory, and a peer that speaks to it message by message."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from logdrive.host.transport import ByteStream
from logdrive.services.auth.token_verifier import TokenVerifier
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.wire.pravega.codec import MessageReader, encode
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import PRAVEGA_HELD_BYTES
from tests.support import virtual_time
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryHost, MemoryNetwork

M = TypeVar("M", bound=Message)
S = "logs/app/0.#epoch.0"
SYNC_SECONDS = 0.004


class Peer:
    """One connection, spoken by hand."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self._frames = MessageReader()
        self._got: list[Message] = []

    async def say(self, *messages: Message) -> None:
        """Write *messages* together."""
        await self.stream.write([part for message in messages for part in encode(message)])

    async def hear(self) -> Message:
        """Return the next message. Raises EOFError at the end of the stream."""
        while not self._got:
            data = await self.stream.read()
            if not data:
                raise EOFError
            self._got += self._frames.receive_data(data)
        return self._got.pop(0)

    async def ask(self, *messages: Message) -> Message:
        """Say *messages* and return the next one heard."""
        await self.say(*messages)
        return await self.hear()

    async def rest(self) -> list[Message]:
        """Return what comes until the server closes."""
        heard = []
        with contextlib.suppress(EOFError):
            while True:
                heard.append(await self.hear())
        return heard


@dataclass(frozen=True, slots=True)
class World:
    """A running store, its disk, and how to reach it."""

    store: Store
    disk: MemoryDisk
    network: MemoryNetwork
    client: MemoryHost
    port: int

    async def peer(self) -> Peer:
        """Return a new connection to the face."""
        return Peer(await self.client.connect("server", self.port, None))


@contextlib.asynccontextmanager
async def world(
    *,
    random: Random | None = None,
    limits: StoreLimits | None = None,
    sync_seconds: float = SYNC_SECONDS,
    verifier: TokenVerifier | None = None,
    held_bytes: int = PRAVEGA_HELD_BYTES,
) -> AsyncIterator[World]:
    """Run a new store and its face while the context lasts."""
    disk, network = MemoryDisk(["/var"]), MemoryNetwork(random)
    executor = InlineExecutor(sync_seconds)
    store = await Store.open(
        "/var/store",
        disk=disk,
        executor=executor,
        clock=virtual_time.VirtualClock(),
        limits=limits or StoreLimits(),
        random=Random(1),
    )
    running = asyncio.create_task(store.run(asyncio.Event()))
    try:
        host = network.host("server")
        async with serve_segment_store(
            store,
            "server",
            0,
            None,
            transport=host,
            disk=disk,
            random=Random(2),
            verifier=verifier,
            held_bytes=held_bytes,
        ) as address:
            yield World(store, disk, network, network.host("client"), address[1])
    finally:
        await network.close()
        with contextlib.suppress(Exception):
            await store.close()
        await asyncio.wait([running])


def in_world(test: Callable[[World], Awaitable[None]], **settings: Any) -> Callable[[], None]:
    """Make a test of *test*, run in virtual time against a new world."""

    async def main() -> None:
        async with world(**settings) as made:
            await test(made)

    def run() -> None:
        virtual_time.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a plain test of a coroutine function, run in virtual time."""

    def run() -> None:
        virtual_time.run(main())

    run.__name__, run.__doc__ = main.__name__, main.__doc__
    return run
