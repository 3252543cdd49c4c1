"""`serve_controller`: the controller of a store, if configured; gRPC is imported only then."""

import contextlib
from collections.abc import AsyncIterator

import structlog

from logdrive.errors import ConfigError, Mistake
from logdrive.host.disk import Disk
from logdrive.services.auth.open import Access
from logdrive.services.pravega.server.config import ControllerConfig
from logdrive.services.pravega.server.controller.serve_rpc import ServeRpc
from logdrive.store.streams.catalog import Catalog


@contextlib.asynccontextmanager
async def serve_controller(
    catalog: Catalog,
    config: ControllerConfig | None,
    face: tuple[str, int],
    *,
    disk: Disk,
    serve_rpc: ServeRpc | None = None,
    access: Access | None = None,
) -> AsyncIterator[None]:
    """Serve the controller of *config* while the context is open; nothing without *config*.

    *face* is where the segment store listens. *serve_rpc* serves the methods, by default over gRPC.
    Without *access* calls need no login. Raises `ConfigError` where gRPC is not installed or the
    address can't be bound.
    """
    if config is None:
        yield
        return
    try:
        from logdrive.services.pravega.server.controller.listen import (
            serve_controller_at,
            serve_rpc_over_grpc,
        )
    except ImportError as error:
        remedy = (
            f"the controller needs gRPC, and {error.name} is not installed: pip install "
            "'logdrive[pravega]', or leave the table out"
        )
        raise ConfigError("listen", [Mistake("address", config.address, remedy)]) from error
    where, node = config.host_and_port, config.advertised_address(face)
    serve_rpc = serve_rpc or serve_rpc_over_grpc
    async with serve_controller_at(
        catalog, where, config.tls_settings, node, disk=disk, serve_rpc=serve_rpc, access=access
    ) as (host, port):
        log = structlog.get_logger("logdrive.store.controller")
        log.info(
            "the controller listens", address=f"{host}:{port}", segments=f"{node[0]}:{node[1]}"
        )
        yield
