"""Runs one store with its network faces: what `logdrive store run` does."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from logdrive.host.host import Host
from logdrive.services.auth.open import open_access
from logdrive.services.pravega.server.config import StoreConfig
from logdrive.services.pravega.server.controller.serve_rpc import ServeRpc
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.services.pravega.server.serve_controller import serve_controller
from logdrive.services.s2.server.listen import serve_s2_face
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
    serve_rpc: ServeRpc | None = None,
) -> None:
    """Serve the store until *stop* is set; then wait until pending writes are acknowledged.

    *host*.executor must have a single thread. *started* is called with host and port as soon as
    connections are accepted. *serve_rpc* serves the controller in tests; the default is gRPC.

    Raises `ConfigError` if the address or the directory can't be used. Raises `StorageError` if the
    disk fails; the process must end then.
    """
    failure = Failure()

    address, port = config.listen.pravega.host_and_port
    tls = config.listen.pravega.tls_settings
    controller = config.listen.controller
    retention = [table.policy for table in config.retention]
    store_runs = open_store(
        config.store.path,
        failure,
        disk=host.disk,
        executor=host.executor,
        clock=host.clock,
        limits=replace(limits, direct=limits.direct and config.store.direct_io),
        random=host.random,
        retention=retention,
    )

    async with (
        open_access(
            config.listen.auth, disk=host.disk, clock=host.clock, random=host.random
        ) as access,
        store_runs as store,
        serve_s2_face(
            catalog := Catalog(store, clock=host.clock, random=host.random),
            config.listen.s2,
            host=host,
            access=access,
        ),
        serve_segment_store(
            store,
            address,
            port,
            tls,
            transport=host.transport,
            disk=host.disk,
            verifier=access.verifier if access else None,
        ) as face,
        serve_controller(
            catalog,
            controller,
            face,
            disk=host.disk,
            serve_rpc=serve_rpc,
            access=access,
        ),
    ):
        started(face)
        await wait_for_any(stop, failure.happened)
