"""A receiver, whole, in memory and in virtual time: real sessions, sink and store; a network, a
disk and a clock of the tests.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from random import Random
from typing import Any, ParamSpec

from logdrive.host.host import Host
from logdrive.host.transport import ClientTls
from logdrive.net.settings import ServerTlsConfig
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.wire.lumberjack.limits import NATIVE, PACKED
from receiver import app
from receiver.config import LimitsConfig, ListenConfig, ReceiverConfig, SinkConfig
from receiver.counters import Counters
from receiver.memory_budget import MemoryBudget
from tests.receiver.peers import NativePeer, Peer
from tests.support import virtual_time
from tests.support.inline import InlineExecutor
from tests.support.ledger import Ledger, batches
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryNetwork
from tests.support.virtual_time import VirtualClock

P = ParamSpec("P")

STORE = "/store"
SYNC_SECONDS = 0.01
TLS = ServerTlsConfig(cert="server.pem", key="server.key", ca="ca.pem")


def in_virtual_time(scenario: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a scenario to its end on a virtual-time loop."""

    @wraps(scenario)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        virtual_time.run(scenario(*args, **kwargs))

    return test


@dataclass
class World:
    """What a test may reach of a running receiver."""

    network: MemoryNetwork
    disk: MemoryDisk
    executor: InlineExecutor
    stop: asyncio.Event
    task: "asyncio.Task[None]"
    counters: Counters
    memory: MemoryBudget
    port: int
    name: str

    async def connect(
        self,
        host: str = "web-1",
        identity: str = "cn:web-1",
        *,
        alpn: tuple[str, ...] = (),
        plain: bool = False,
    ) -> Any:
        """Return a stream to the receiver."""
        tls = None if plain else ClientTls("ca.pem", "client.pem", "client.key", alpn=alpn)
        return await self.network.host(host, identity).connect(self.name, self.port, tls)

    async def native(
        self, host: str = "web-1", identity: str = "cn:web-1", *, plain: bool = False
    ) -> NativePeer:
        """Return a connected `logdrive/1` peer."""
        return NativePeer(await self.connect(host, identity, alpn=(PACKED, NATIVE), plain=plain))

    async def foreign(
        self, host: str = "beat-1", identity: str = "cn:beat-1", *, plain: bool = False
    ) -> Peer:
        """Return a connected peer that speaks Lumberjack v1 or v2."""
        return Peer(await self.connect(host, identity, plain=plain), "lumberjack")

    async def end(self) -> None:
        """Drain and stop."""
        self.stop.set()
        await self.task

    async def crash(self) -> None:
        """End the receiver as SIGKILL does; what is on the disk stays for `disk.killed` or
        `disk.crash` to tell.
        """
        self.task.cancel()
        await self.network.crash(self.name)
        await asyncio.gather(self.task, return_exceptions=True)

    def stall(self, seconds: float = 3600.0) -> None:
        """Let each sync take so long from now on."""
        self.executor.delay = seconds


def configuration(**changes: Any) -> ReceiverConfig:
    """Return a receiver's configuration; *changes* are fields of the listener, of the limits,
    `drain_seconds`, or `unpack` of the sink.
    """
    unpack = changes.pop("unpack", "no")
    drain = changes.pop("drain_seconds", 20.0)
    limits = {
        name: changes.pop(name)
        for name in ("connection_bytes", "total_bytes", "sources_bytes")
        if name in changes
    }
    listen: dict[str, Any] = {"address": "127.0.0.1:5044", "tls": TLS} | changes
    sink = SinkConfig(uri=f"file://{STORE}#logs/events", segments=2, unpack=unpack)
    return ReceiverConfig(
        listen=ListenConfig(**listen), sink=sink, limits=LimitsConfig(**limits), drain_seconds=drain
    )


@contextlib.asynccontextmanager
async def receiver(
    *,
    network: MemoryNetwork | None = None,
    disk: MemoryDisk | None = None,
    config: ReceiverConfig | None = None,
    seed: int = 1,
    host: str = "receiver",
) -> AsyncIterator[World]:
    """Run a receiver while the context lasts; it is drained at the end, unless the test ended it or
    it failed.
    """
    network = network or MemoryNetwork()
    disk = disk or MemoryDisk()
    executor, stop = InlineExecutor(SYNC_SECONDS), asyncio.Event()
    started: asyncio.Future[app.Started] = asyncio.get_running_loop().create_future()
    transport = network.host(host, f"cn:{host}")
    task = asyncio.create_task(
        app.run(
            config or configuration(),
            host=Host(
                clock=VirtualClock(),
                disk=disk,
                transport=transport,
                executor=executor,
                random=Random(seed),
            ),
            stop=stop,
            started=started.set_result,
        ),
        name="receiver",
    )
    beginnings: list[asyncio.Future[Any]] = [task, started]
    await asyncio.wait(beginnings, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    yield World(
        network,
        disk,
        executor,
        stop,
        task,
        started.result().counters,
        started.result().memory,
        started.result().address[1],
        host,
    )
    executor.delay = 0.0
    if not task.done():
        stop.set()
        await task
    assert network.failures == []


async def stored(disk: MemoryDisk, stream: str = "logs/events") -> list[bytes]:
    """Return the segments of *stream* as they are on *disk*, which no store may hold."""
    executor = InlineExecutor()
    store = await Store.open(
        STORE,
        disk=disk,
        executor=executor,
        clock=VirtualClock(),
        limits=StoreLimits(),
        random=Random(0),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(store.run(asyncio.Event()))
        names = store.segments(f"{stream}/")
        found = [_whole(store, name) for name in names]
        await store.close()
    return found


def _whole(store: Store, segment: str) -> bytes:
    info = store.info(segment)
    assert info is not None
    parts, offset = [], 0
    while offset < info.length:
        parts.append(store.read(segment, offset, 1 << 20))
        offset += len(parts[-1])
    return b"".join(parts)


async def ledger(disk: MemoryDisk) -> Ledger:
    """Return what was delivered, by source, checked for gaps and overlaps."""
    return Ledger.read(await stored(disk))


async def headers(disk: MemoryDisk, stream: str = "logs/events") -> list[dict[str, Any]]:
    """Return all batch headers of *stream*."""
    return [header for segment in await stored(disk, stream) for header, _ in batches(segment)]
