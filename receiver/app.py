"""`logdrive receiver run`: opens the sink and listens; on stop, ends sessions before the sink."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import structlog

from logdrive.host.heap import Heap
from logdrive.host.host import Host
from logdrive.host.transport import Listener
from logdrive.net.listener_certificates import warn_of_ends
from logdrive.services.pravega.client.controller import Controllers
from logdrive.services.pravega.client.grpc_extra import connect_controller
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
    counters: Counters  # of connections, windows, events …
    memory: MemoryBudget  # what connections and windows hold
    shares: SourceQuota  # what sources hold


async def run(
    config: ReceiverConfig,
    *,
    host: Host,
    stop: asyncio.Event,
    started: Callable[[Started], None] = lambda started: None,
    controllers: Controllers = connect_controller,
    environ: Mapping[str, str] = MappingProxyType({}),
    outbox_bytes: int = WAITING_BYTES,
) -> None:
    """Receive until *stop*; then drain, within the configured time.

    *host*.executor has one thread, for the store. *started* is called once connections are taken,
    which is not before the sink's service answers. *controllers* connects to the controller of the
    sink's Pravega; *environ* may have the endpoints and the access token of the sink's S2.
    *outbox_bytes* is the limit on what waits to be written to one peer.

    Raises `ConfigError` if an address or the store's directory can't be used, and `StorageError` if
    the disk fails: nothing was acknowledged since, and the process must end.
    """
    async with open_sink(
        config, host=host, stop=stop, controllers=controllers, environ=environ
    ) as sinks:
        if sinks is None:  # stopped before the service answered
            return

        services = _services(config, sinks, host, outbox_bytes)
        sessions = Sessions(services)
        listener = await host.transport.listen(
            *config.listen.where, config.listen.settings, sessions.serve_connection
        )
        try:
            started(_started(listener, sinks, services))
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(_summary(services).run(), name="receiver-summary"),
                    group.create_task(_certificates(config, host), name="receiver-certificates"),
                ]
                await wait_for_any(stop, sinks.failure.happened)
                for task in tasks:
                    task.cancel()
        finally:
            await listener.close()

        # before the sink is closed: what was received becomes durable through it
        await _end(sessions, services, config.drain_seconds)


def _services(
    config: ReceiverConfig, sinks: OpenedSink, host: Host, outbox_bytes: int
) -> ReceiverServices:
    heap = Heap()
    return ReceiverServices(
        listen=config.listen,
        clock=host.clock,
        random=host.random,
        memory=MemoryBudget(
            config.limits.total_bytes, config.limits.connection_bytes, heap.add_held
        ),
        heap=heap,
        source_quota=SourceQuota(config.limits.sources_bytes),
        router=Router(sinks.sink),
        sink=sinks.sink,
        writers=WriterTable(),
        foreign_writers=CountingWriters(sinks.sink, host.random),
        dead_letter_writers=CountingWriters(sinks.dead, host.random),
        failure=sinks.failure,
        unpack=config.sink.unpack,
        outbox_bytes=outbox_bytes,
    )


def _started(listener: Listener, sinks: OpenedSink, services: ReceiverServices) -> Started:
    return Started(
        listener.address, sinks.face, services.counters, services.memory, services.source_quota
    )


def _summary(services: ReceiverServices) -> ReceiverSummary:
    return ReceiverSummary(services.counters, services.clock, structlog.get_logger("receiver"))


async def _certificates(config: ReceiverConfig, host: Host) -> None:
    """Warn of certificates that end, until cancelled."""
    await warn_of_ends(
        config.listen.tls_tables,
        disk=host.disk,
        clock=host.clock,
        log=structlog.get_logger("receiver"),
    )


async def _end(sessions: Sessions, services: ReceiverServices, seconds: float) -> None:
    log = structlog.get_logger("receiver")
    error = services.failure.error
    if error is not None:  # to drain is to wait for acknowledgements, and there will be none
        log.error("the disk failed: nothing more is acknowledged", reason=str(error))
        await sessions.disconnect_all("the disk failed")
        return
    log.info("draining", connections=services.counters.connections_open, seconds=seconds)
    in_time = await sessions.drain(seconds)
    log.info(
        "drained" if in_time else "not all connections ended in time",
        windows=services.counters.windows_acknowledged,
    )
