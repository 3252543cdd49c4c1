"""`logdrive store run`: one store and its network face, until told to stop."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random, SystemRandom

from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.net.stream import Transport
from logdrive.services.auth.open import open_access
from logdrive.services.pravega.server.config import StoreConfig
from logdrive.services.pravega.server.controller.serve_rpc import ServeRpc
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.services.pravega.server.serve_controller import serve_controller
from logdrive.store.limits import StoreLimits
from logdrive.store.running import Failure, open_store, wait_for_any
from logdrive.store.streams.catalog import Catalog


async def run(
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
    """Serve until *stop*; then let what was submitted become durable and be acknowledged.

    *executor* has one thread.

    *started* is called with the address once connections are taken; *serve_rpc* is how a controller
    is served, where it is not over the network's own gRPC. Raises `ConfigError` where the address
    or the directory can't be had, `StorageError` where the disk fails: the process must end then.
    """
    failure, random = Failure(), random or SystemRandom()
    host, port = config.listen.pravega.host_and_port
    tls = config.listen.pravega.tls_settings
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
    controller = config.listen.controller
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
