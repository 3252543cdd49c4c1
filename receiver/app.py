"""`logdrive receiver run`: opens the sink and listens; on stop, ends sessions before the sink."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import structlog

from logdrive.host.clock import Clock
from logdrive.host.heap import Heap
from logdrive.host.host import Host
from logdrive.services.pravega.client.controller import Controllers
from logdrive.services.pravega.client.grpc_extra import connect_controller
from logdrive.services.pravega.server.controller.serve_rpc import ServeRpc
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
    """What a receiver that takes connections tells its caller."""

    address: HostPort  # where agents connect; the real port if 0 was asked for
    pravega: HostPort | None  # where the store's Pravega face listens
    counters: Counters
    memory: MemoryBudget
    shares: SourceQuota


async def run(
    config: ReceiverConfig,
    *,
    host: Host,
    stop: asyncio.Event,
    started: Callable[[Started], None] = lambda started: None,
    controllers: Controllers = connect_controller,
    serve_rpc: ServeRpc | None = None,
    outbox_bytes: int = WAITING_BYTES,
) -> None:
    """Receive until *stop*; then drain, within the configured time.

    *host*.executor has one thread, for the store. *started* is called once connections are taken,
    which is not before the sink's service answers. *controllers* connects to the controller of the
    sink's Pravega; *serve_rpc*, if given, serves the store's own controller instead of gRPC.

    *outbox_bytes* is the limit on what waits to be written to one peer.

    Raises `ConfigError` if an address or the store's directory can't be used, and `StorageError` if
    the disk fails: nothing was acknowledged since, and the process must end.
    """
    sinks = open_sink(
        config,
        host=host,
        stop=stop,
        controllers=controllers,
        serve_rpc=serve_rpc,
    )
    async with sinks as found:
        if found is None:
            return
        services = _services(config, found, host.clock, host.random, outbox_bytes)
        sessions = Sessions(services)
        address, port = config.listen.where
        listener = await host.transport.listen(
            address, port, config.listen.settings, sessions.serve_connection
        )
        try:
            started(
                Started(
                    listener.address,
                    found.face,
                    services.counters,
                    services.memory,
                    services.source_quota,
                )
            )
            async with asyncio.TaskGroup() as group:
                summary = group.create_task(_summary(services).run(), name="receiver-summary")
                await wait_for_any(stop, found.failure.happened)
                summary.cancel()
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
