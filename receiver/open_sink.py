"""Opens the sink that the configured URI names: a store in this process, with its Pravega face, or
connections to a streaming service.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import structlog

from logdrive.address import (
    AnyAddress,
    IggyAddress,
    S2Address,
    ServiceAddress,
    StreamAddress,
)
from logdrive.host.host import Host
from logdrive.model.units import MIB
from logdrive.services.auth.open import open_access
from logdrive.services.auth.token_verifier import TokenVerifier
from logdrive.services.embedded.sink import EmbeddedSink
from logdrive.services.iggy.server.listen import serve_iggy_face
from logdrive.services.numbering.segments import open_numbering
from logdrive.services.optional_libraries import libraries_of
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.cluster import Cluster, open_cluster
from logdrive.services.pravega.client.controller import Controllers
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.services.pravega.server.serve_controller import serve_controller
from logdrive.services.pravega.sink import PravegaSink
from logdrive.services.s2.server.listen import serve_s2_face
from logdrive.services.sink import Sink
from logdrive.store.engine import Store
from logdrive.store.errors import name_store_in_errors
from logdrive.store.limits import StoreLimits
from logdrive.store.running import Failure, open_store
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.journal import SEGMENT as JOURNAL
from logdrive.store.streams.streams import Streams
from receiver.config import ReceiverConfig

if TYPE_CHECKING:
    from logdrive.services.s2.client.client import S2Client

T = TypeVar("T")
HostPort = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OpenedSink:
    """The sinks of one receiver."""

    sink: Sink  # onto the stream
    dead: Sink  # onto the dead-letter stream
    failure: Failure  # set if the store's disk fails
    face: HostPort | None = None  # where the store's Pravega face listens


@contextlib.asynccontextmanager
async def open_sink(
    config: ReceiverConfig,
    *,
    host: Host,
    stop: asyncio.Event,
    controllers: Controllers,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[OpenedSink | None]:
    """Yield the sinks; None if *stop* was set before the service answered.

    *environ* may have the endpoints and the access token of S2.

    Raises `ConfigError` if an address, a certificate or the store's directory can't be used, and
    `StorageError` if the disk fails.
    """
    opening: contextlib.AbstractAsyncContextManager[OpenedSink | None]
    match config.sink.stream:  # the one place that chooses a sink by the kind of address
        case StreamAddress(path=path):
            opening = _open_embedded(config, path, host)
        case ServiceAddress() as address:
            opening = _open_service(config, address, host, stop, controllers)
        case S2Address() as address:
            opening = _open_s2(config, address, host, stop, environ)
        case IggyAddress() as address:
            opening = _open_iggy(config, address, host, stop)
    async with opening as sinks:
        yield sinks


@contextlib.asynccontextmanager
async def _open_service(
    config: ReceiverConfig,
    address: ServiceAddress,
    host: Host,
    stop: asyncio.Event,
    controllers: Controllers,
) -> AsyncIterator[OpenedSink | None]:
    connections = open_cluster(
        host.transport,
        Target(address.host, address.port, config.sink.settings),
        clock=host.clock,
        random=host.random,
        in_flight_bytes=store_limits(config).pending,
        login=config.sink.credentials,
        controllers=controllers,
    )
    async with connections as service:
        sinks = await _unless_stopped(stop, _open_at_service(config, service))
        yield OpenedSink(*sinks, Failure()) if sinks is not None else None
        for sink in sinks or ():  # after an exception connections are dropped at once instead
            await sink.close()


@contextlib.asynccontextmanager
async def _open_s2(
    config: ReceiverConfig,
    address: S2Address,
    host: Host,
    stop: asyncio.Event,
    environ: Mapping[str, str],
) -> AsyncIterator[OpenedSink | None]:
    with libraries_of("S2", "sink", "uri", address.uri):
        from logdrive.services.s2.client.client import S2Client
    target = config.sink.s2_target(address, environ)
    async with S2Client(host.transport, target) as client, contextlib.AsyncExitStack() as stack:
        sinks = await _unless_stopped(stop, _open_at_s2(config, client, host, stack))
        yield OpenedSink(*sinks, Failure()) if sinks is not None else None


async def _open_at_s2(
    config: ReceiverConfig, client: "S2Client", host: Host, stack: contextlib.AsyncExitStack
) -> tuple[Sink, Sink]:
    from logdrive.services.s2.sink import S2Sink  # with the client's libraries

    log = structlog.get_logger("receiver").bind(uri=config.sink.uri)
    log.info("looking for the stream")
    sinks: list[S2Sink] = []
    for address in (config.sink.stream, config.sink.dead_letters):
        assert isinstance(address, S2Address)
        opened = await S2Sink.open_stream(
            client,
            address,
            store_id=config.sink.service_id,
            clock=host.clock,
            random=host.random,
            pending_bytes=store_limits(config).pending,
        )
        sinks.append(await stack.enter_async_context(opened))
    log.info("stream found", store=str(config.sink.service_id))
    return sinks[0], sinks[1]


@contextlib.asynccontextmanager
async def _open_iggy(
    config: ReceiverConfig, address: IggyAddress, host: Host, stop: asyncio.Event
) -> AsyncIterator[OpenedSink | None]:
    async with contextlib.AsyncExitStack() as stack:
        sinks = await _unless_stopped(stop, _open_at_iggy(config, address, host, stack))
        yield OpenedSink(*sinks, Failure()) if sinks is not None else None


async def _open_at_iggy(
    config: ReceiverConfig, address: IggyAddress, host: Host, stack: contextlib.AsyncExitStack
) -> tuple[Sink, Sink]:
    log = structlog.get_logger("receiver").bind(uri=address.uri)
    log.info("looking for the topic")
    with libraries_of("Iggy", "sink", "uri", address.uri):
        from logdrive.services.iggy.sink import IggySink
    sinks: list[IggySink] = []
    for found, partitions in (
        (address, config.sink.segments),
        (config.sink.dead_letters, 1),
    ):
        assert isinstance(found, IggyAddress)
        opened = await IggySink.open_topic(
            host.transport,
            config.sink.iggy_target(address),
            found,
            partitions=partitions,
            store_id=config.sink.service_id,
            clock=host.clock,
            random=host.random,
            pending_bytes=store_limits(config).pending,
        )
        sinks.append(await stack.enter_async_context(opened))
    partitions = len(sinks[0].segments)
    log.info("topic found", partitions=partitions, store=str(config.sink.service_id))
    return sinks[0], sinks[1]


@contextlib.asynccontextmanager
async def _open_embedded(
    config: ReceiverConfig, path: str, host: Host
) -> AsyncIterator[OpenedSink]:
    failure = Failure()
    store_runs = open_store(
        path,
        failure,
        disk=host.disk,
        executor=host.executor,
        clock=host.clock,
        limits=store_limits(config),
        random=host.random,
        retention=[table.policy for table in config.retention],
    )
    # access first: a mistake in its files is found before the store is opened
    async with (
        open_access(
            config.listen.auth, disk=host.disk, clock=host.clock, random=host.random
        ) as access,
        name_store_in_errors("receiver", "sink.uri", config.sink.uri),
        store_runs as store,
        _serve_face(config, store, host, access.verifier if access else None) as face,
    ):
        catalog = Catalog(store, clock=host.clock, random=host.random)
        sink = await _embedded_sink(
            config, store, catalog, config.sink.stream, config.sink.segments
        )
        dead = await _embedded_sink(config, store, catalog, config.sink.dead_letters, 1)
        async with (
            open_numbering(store, clock=host.clock) as numbering,
            serve_s2_face(catalog, numbering, config.listen.s2, host=host, access=access),
            serve_iggy_face(catalog, numbering, config.listen.iggy, host=host, access=access),
            serve_controller(
                catalog,
                config.listen.controller,
                face or ("", 0),
                host=host,
                access=access,
            ),
        ):
            yield OpenedSink(sink, dead, failure, face)


async def _embedded_sink(
    config: ReceiverConfig,
    store: Store,
    catalog: Catalog,
    stream: AnyAddress,
    segments: int,
) -> EmbeddedSink:
    """Return the sink onto *stream*.

    It follows scaling if a controller is configured, or once was; otherwise streams stay as they
    were made. The faces of S2 and Iggy use the catalog, too.
    """
    listen = config.listen
    if (listen.controller or listen.s2 or listen.iggy or store.info(JOURNAL)) is None:
        return await EmbeddedSink.open_stream(store, stream.scope, stream.stream, segments)
    return await EmbeddedSink.open_scaling_stream(
        store, Streams(catalog), stream.scope, stream.stream, segments
    )


@contextlib.asynccontextmanager
async def _serve_face(
    config: ReceiverConfig,
    store: Store,
    host: Host,
    verifier: TokenVerifier | None,
) -> AsyncIterator[HostPort | None]:
    face = config.listen.pravega
    if face is None:  # the store has no network face
        yield None
        return

    address, port = face.host_and_port
    async with serve_segment_store(
        store,
        address,
        port,
        face.tls_settings,
        transport=host.transport,
        disk=host.disk,
        verifier=verifier,
    ) as listening:
        yield listening


def store_limits(config: ReceiverConfig) -> StoreLimits:
    """Return the store's limits, wide enough for all that the receiver admits: so it is the
    receiver that waits, not the store that refuses.
    """
    usual = StoreLimits()
    pending = max(usual.pending, config.limits.total_bytes + 128 * MIB)
    return replace(
        usual, pending=pending, log_file=config.sink.log_file_bytes, direct=config.sink.direct_io
    )


async def _open_at_service(
    config: ReceiverConfig, service: Cluster
) -> tuple[PravegaSink, PravegaSink]:
    log = structlog.get_logger("receiver").bind(uri=config.sink.uri)
    log.info("looking for the stream")
    stream, dead, store = config.sink.stream, config.sink.dead_letters, config.sink.service_id
    sink = await PravegaSink.open_stream(
        service, stream.scope, stream.stream, segments=config.sink.segments, store_id=store
    )
    dead_letters = await PravegaSink.open_stream(
        service, dead.scope, dead.stream, segments=1, store_id=store
    )
    log.info("stream found", segments=len(sink.segments), store=str(store))
    return sink, dead_letters


async def _unless_stopped(stop: asyncio.Event, work: Awaitable[T]) -> T | None:
    """Return the result of *work*, None if *stop* is set before."""
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        stopped.cancel()
        await asyncio.wait([working, stopped])
