"""`logdrive receiver run`: store, sink, face and listener, started and ended in the order in which data flows."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from random import Random, SystemRandom

import structlog

from logdrive.address import StreamAddress
from logdrive.clock import Clock
from logdrive.disk import Disk
from logdrive.executor import Executor
from logdrive.limits import MIB, StoreLimits
from logdrive.net.stream import Transport
from logdrive.sinks.embedded import EmbeddedSink
from logdrive.store.engine import Store
from logdrive.store.pravega.listening import listening
from logdrive.store.running import Failure, either, running
from receiver.config import ReceiverConfig
from receiver.counters import Counters
from receiver.listener import Sessions
from receiver.memory import Memory
from receiver.router import Router
from receiver.services import Services
from receiver.writers import CountingWriters, WriterTable

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Started:
    """Where the receiver listens, with the real ports where 0 was asked for; and what it counts."""

    address: Address
    pravega: Address | None
    counters: Counters


async def run(
    config: ReceiverConfig,
    *,
    clock: Clock,
    disk: Disk,
    transport: Transport,
    executor: Executor,
    stop: asyncio.Event,
    random: Random | None = None,
    started: Callable[[Started], None] = lambda started: None,
) -> None:
    """Receive until *stop*; then drain, within the configured time. *executor* has one thread: the store's.

    *started* is called once connections are taken. Raises `ConfigError` where an address or the store's directory can't be had,
    `StorageError` where the disk fails: from then on nothing was acknowledged, and the process must end.
    """
    failure = Failure()
    limits = store_limits(config)
    async with (
        running(config.sink.stream.path, failure, disk=disk, executor=executor, clock=clock, limits=limits, random=random) as store,
        _face(config, store, transport, disk) as face,
    ):
        services = await _services(config, store, failure, clock, random or SystemRandom())
        sessions = Sessions(services)
        host, port = config.listen.where
        listener = await transport.listen(host, port, config.listen.settings, sessions.accept)
        try:
            started(Started(listener.address, face, services.counters))
            await either(stop, failure.happened)
        finally:
            await listener.close()
        await _end(sessions, services, config.drain_seconds)


def store_limits(config: ReceiverConfig) -> StoreLimits:
    """Return limits that let the store take whatever the receiver lets in, so that it is the receiver that waits."""
    usual = StoreLimits()
    pending = max(usual.pending, config.limits.total_bytes + 128 * MIB)
    return replace(usual, pending=pending, log_file=config.sink.log_file_bytes)


@contextlib.asynccontextmanager
async def _face(config: ReceiverConfig, store: Store, transport: Transport, disk: Disk) -> AsyncIterator[Address | None]:
    face = config.listen.pravega
    if face is None:
        yield None
        return
    host, port = face.where
    async with listening(store, host, port, face.settings, transport=transport, disk=disk) as address:
        yield address


async def _services(config: ReceiverConfig, store: Store, failure: Failure, clock: Clock, random: Random) -> Services:
    sink = await _sink(store, config.sink.stream, config.sink.segments)
    dead = await _sink(store, config.sink.dead_letters, 1)
    return Services(
        listen=config.listen,
        clock=clock,
        random=random,
        memory=Memory(config.limits.total_bytes, config.limits.connection_bytes),
        router=Router(sink),
        sink=sink,
        writers=WriterTable(sink),
        foreign=CountingWriters(sink, random),
        dead=CountingWriters(dead, random),
        failure=failure,
    )


async def _sink(store: Store, stream: StreamAddress, segments: int) -> EmbeddedSink:
    return await EmbeddedSink.of_stream(store, stream.scope, stream.stream, segments)


async def _end(sessions: Sessions, services: Services, seconds: float) -> None:
    log = structlog.get_logger("receiver")
    error = services.failure.error
    if error is not None:
        log.error("the disk failed: nothing more is acknowledged", reason=str(error))
        await sessions.fail("the disk failed")
        return
    log.info("draining", connections=services.counters.connections_open, seconds=seconds)
    whole = await sessions.drain(seconds)
    await services.sink.close()
    log.info("drained" if whole else "not all connections ended in time", windows=services.counters.windows_acknowledged)
