"""`serve_controller`: the controller of a store, if configured; gRPC is imported only then."""

import contextlib
from collections.abc import AsyncIterator

import structlog

from logdrive.errors import ConfigError, Mistake
from logdrive.host.host import Host
from logdrive.services.auth.open import Access
from logdrive.services.pravega.server.config import ControllerConfig
from logdrive.store.streams.catalog import Catalog


@contextlib.asynccontextmanager
async def serve_controller(
    catalog: Catalog,
    config: ControllerConfig | None,
    face: tuple[str, int],
    *,
    host: Host,
    access: Access | None = None,
) -> AsyncIterator[None]:
    """Serve the controller of *config* while the context is open; nothing without *config*.

    *face* is where the segment store listens. *host*.serve_rpc serves the methods, by default over
    gRPC. Without *access* calls need no login. Raises `ConfigError` where gRPC is not installed or
    the address can't be bound.
    """
    if config is None:
        yield
        return
    require_grpc(config.address)
    from logdrive.services.pravega.server.controller.grpc_listener import serve_rpc_over_grpc
    from logdrive.services.pravega.server.controller.listen import serve_controller_at

    segment_store = config.advertised_address(face)
    async with serve_controller_at(
        catalog,
        config.host_and_port,
        config.tls_settings,
        segment_store,
        disk=host.disk,
        serve_rpc=host.serve_rpc or serve_rpc_over_grpc,
        access=access,
    ) as (address, port):
        log = structlog.get_logger("logdrive.store.controller")
        log.info(
            "the controller listens",
            address=f"{address}:{port}",
            segments=f"{segment_store[0]}:{segment_store[1]}",
        )
        yield


def require_grpc(address: str) -> None:
    """Raise `ConfigError` where gRPC is not installed, which a controller at *address* needs."""
    try:
        import logdrive.services.pravega.server.controller.grpc_listener
        import logdrive.services.pravega.server.controller.listen  # noqa: F401
    except ImportError as error:
        remedy = (
            f"the controller needs gRPC, and {error.name} is not installed: pip install "
            "'logdrive[pravega]', or leave the table out"
        )
        raise ConfigError(ControllerConfig.table, [Mistake("address", address, remedy)]) from error
