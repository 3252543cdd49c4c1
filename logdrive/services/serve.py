"""Runs one store with its network faces: what `logdrive store run` does."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random, SystemRandom

from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.host.transport import Transport
from logdrive.services.auth.open import open_access
from logdrive.services.pravega.server.config import StoreConfig
from logdrive.services.pravega.server.controller.serve_rpc import ServeRpc
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.services.pravega.server.serve_controller import serve_controller
from logdrive.store.limits import StoreLimits
from logdrive.store.running import Failure, open_store, wait_for_any
from logdrive.store.streams.catalog import Catalog


async def serve_store(
    config: StoreConfig,
    *,
    clock: Clock,
    disk: Disk,
    transport: Transport,
    executor: Executor,
    stop: asyncio.Event,
    random: Random | None = None,
    started: Callable[[tuple[str, int]], None] = lambda address: None,
    limits: StoreLimits = StoreLimits(),
    serve_rpc: ServeRpc | None = None,
) -> None:
    """Serve the store until *stop* is set; then wait until pending writes are acknowledged.

    *executor* must have a single thread. *started* is called with host and port as soon as
    connections are accepted. *serve_rpc* serves the controller in tests; the default is gRPC.

    Raises `ConfigError` if the address or the directory can't be used. Raises `StorageError` if the
    disk fails; the process must end then.
    """
    failure = Failure()
    random = random or SystemRandom()

    host, port = config.listen.pravega.host_and_port
    tls = config.listen.pravega.tls_settings
    controller = config.listen.controller
    retention = [table.policy for table in config.retention]
    store_runs = open_store(
        config.store.path,
        failure,
        disk=disk,
        executor=executor,
        clock=clock,
        limits=replace(limits, direct=limits.direct and config.store.direct_io),
        random=random,
        retention=retention,
    )

    async with (
        open_access(config.listen.auth, disk=disk, clock=clock, random=random) as access,
        store_runs as store,
        serve_segment_store(
            store,
            host,
            port,
            tls,
            transport=transport,
            disk=disk,
            verifier=access.verifier if access else None,
        ) as address,
        serve_controller(
            Catalog(store, clock=clock, random=random),
            controller,
            address,
            disk=disk,
            serve_rpc=serve_rpc,
            access=access,
        ),
    ):
        started(address)
        await wait_for_any(stop, failure.happened)
