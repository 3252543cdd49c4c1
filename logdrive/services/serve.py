"""Runs one store with its network faces: what `logdrive store run` does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import structlog

from logdrive.host.host import Host
from logdrive.net.listener_certificates import warn_of_ends
from logdrive.services.auth.open import Access, open_access
from logdrive.services.config import StoreConfig, StoreListenConfig
from logdrive.services.iggy.server.listen import serve_iggy_face
from logdrive.services.numbering.segments import open_numbering
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.services.pravega.server.serve_controller import serve_controller
from logdrive.services.s2.server.listen import serve_s2_face
from logdrive.store.engine import Store
from logdrive.store.errors import name_store_in_errors
from logdrive.store.limits import StoreLimits
from logdrive.store.running import Failure, open_store, wait_for_any
from logdrive.store.streams.catalog import Catalog


async def serve_store(
    config: StoreConfig,
    *,
    host: Host,
    stop: asyncio.Event,
    started: Callable[[tuple[str, int]], None] = lambda address: None,
    limits: StoreLimits = StoreLimits(),
) -> None:
    """Serve the store until *stop* is set; then wait until pending writes are acknowledged.

    *host*.executor must have a single thread. *started* is called with host and port as soon as
    connections are accepted.

    Raises `ConfigError` if the address or the directory can't be used. Raises `StorageError` if the
    disk fails; the process must end then.
    """
    failure = Failure()
    logins = open_access(config.listen.auth, disk=host.disk, clock=host.clock, random=host.random)
    store_runs = open_store(
        config.store.path,
        failure,
        disk=host.disk,
        executor=host.executor,
        clock=host.clock,
        limits=replace(limits, direct=limits.direct and config.store.direct_io),
        random=host.random,
        retention=[table.policy for table in config.retention],
    )
    async with (
        logins as access,
        name_store_in_errors("store", "store.path", config.store.path),
        store_runs as store,
        _serve_faces(config.listen, store, host, access) as address,
    ):
        started(address)
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_certificates(config.listen, host), name="store-certificates")
            await wait_for_any(stop, failure.happened)
            watch.cancel()


async def _certificates(listen: StoreListenConfig, host: Host) -> None:
    """Warn of certificates that end, until cancelled."""
    await warn_of_ends(
        listen.tls_tables,
        disk=host.disk,
        clock=host.clock,
        log=structlog.get_logger("logdrive.store"),
    )


@contextlib.asynccontextmanager
async def _serve_faces(
    listen: StoreListenConfig, store: Store, host: Host, access: Access | None
) -> AsyncIterator[tuple[str, int]]:
    """Serve *store* in each protocol of *listen*; yield where the segment store listens."""
    address, port = listen.pravega.host_and_port
    segment_store = serve_segment_store(
        store,
        address,
        port,
        listen.pravega.tls_settings,
        transport=host.transport,
        disk=host.disk,
        verifier=access.verifier if access else None,
    )
    async with segment_store as face:
        catalog = Catalog(store, clock=host.clock, random=host.random)
        async with (
            open_numbering(store, clock=host.clock) as numbering,
            serve_s2_face(catalog, numbering, listen.s2, host=host, access=access),
            serve_iggy_face(catalog, numbering, listen.iggy, host=host, access=access),
            serve_controller(catalog, listen.controller, face, host=host, access=access),
        ):
            yield face
