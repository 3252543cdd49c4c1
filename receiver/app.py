"""`logdrive receiver run`: sink, sessions and listener, started and ended in the order in which
data flows.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random, SystemRandom

import structlog

from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.host.heap import Heap
from logdrive.net.stream import Transport
from logdrive.services.pravega.client.controller import Controllers
from logdrive.services.pravega.client.grpc_extra import over_grpc
from logdrive.services.pravega.server.controller.serving import Serving
from logdrive.store.running import wait_for_any
from receiver.config import ReceiverConfig
from receiver.counters import Counters
from receiver.listener import Sessions
from receiver.memory_budget import MemoryBudget
from receiver.open_sink import HostPort, OpenedSink, open_sink
from receiver.outbox import WAITING_BYTES
from receiver.router import Router
from receiver.services import ReceiverServices
from receiver.source_quota import SourceQuota
from receiver.summary import ReceiverSummary
from receiver.writers import CountingWriters, WriterTable


@dataclass(frozen=True, slots=True)
class Started:
    """Where the receiver listens, with the real ports where 0 was asked for; what it counts, and
    what it holds in memory.
    """

    address: HostPort
    pravega: HostPort | None
    counters: Counters
    memory: MemoryBudget
    shares: SourceQuota


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
    controllers: Controllers = over_grpc,
    serving: Serving | None = None,
    outbox_bytes: int = WAITING_BYTES,
) -> None:
    """Receive until *stop*; then drain, within the configured time.

    *executor* has one thread: the store's.

    *started* is called once connections are taken, which is not before the sink's service answers;
    *controllers* is how a Pravega controller is reached, where the sink has one, and *serving* how
    the own store's is served, where that is not gRPC. *outbox_bytes* is what may wait to be written
    to one peer before it is cut off. Raises `ConfigError` where an address or the store's directory
    can't be had, `StorageError` where the disk fails: from then on nothing was acknowledged, and
    the process must end.
    """
    random = random or SystemRandom()
    sinks = open_sink(
        config,
        clock=clock,
        disk=disk,
        transport=transport,
        executor=executor,
        random=random,
        stop=stop,
        controllers=controllers,
        serving=serving,
    )
    async with sinks as found:
        if found is None:
            return
        services = _services(config, found, clock, random, outbox_bytes)
        sessions = Sessions(services)
        host, port = config.listen.where
        listener = await transport.listen(
            host, port, config.listen.settings, sessions.serve_connection
        )
        try:
            started(
                Started(
                    listener.address,
                    found.face,
                    services.counters,
                    services.memory,
                    services.shares,
                )
            )
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(_summary(services).run(), name="receiver-summary")
                await wait_for_any(stop, found.failure.happened)
                telling.cancel()
        finally:
            await listener.close()
        await _end(sessions, services, config.drain_seconds)


def _services(
    config: ReceiverConfig, found: OpenedSink, clock: Clock, random: Random, outbox_bytes: int
) -> ReceiverServices:
    heap = Heap()
    return ReceiverServices(
        listen=config.listen,
        clock=clock,
        random=random,
        memory=MemoryBudget(
            config.limits.total_bytes, config.limits.connection_bytes, heap.add_held
        ),
        heap=heap,
        source_quota=SourceQuota(config.limits.sources_bytes),
        router=Router(found.sink),
        sink=found.sink,
        writers=WriterTable(),
        foreign_writers=CountingWriters(found.sink, random),
        dead_letter_writers=CountingWriters(found.dead, random),
        failure=found.failure,
        outbox_bytes=outbox_bytes,
    )


def _summary(services: ReceiverServices) -> ReceiverSummary:
    return ReceiverSummary(services.counters, services.clock, structlog.get_logger("receiver"))


async def _end(sessions: Sessions, services: ReceiverServices, seconds: float) -> None:
    log = structlog.get_logger("receiver")
    error = services.failure.error
    if error is not None:
        log.error("the disk failed: nothing more is acknowledged", reason=str(error))
        await sessions.disconnect_all("the disk failed")
        return
    log.info("draining", connections=services.counters.connections_open, seconds=seconds)
    whole = await sessions.drain(seconds)
    log.info(
        "drained" if whole else "not all connections ended in time",
        windows=services.counters.windows_acknowledged,
    )
