"""`serve_rpc_over_grpc`: the listener that a store's controller has outside of tests.

gRPC opens its own sockets here, past `Transport` (docs/adr/0006).
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

import grpc
import grpc.aio

from logdrive.errors import Mistake, UnavailableError
from logdrive.host.disk import Disk
from logdrive.host.transport import ServerTls
from logdrive.model.units import MIB
from logdrive.services.pravega.server.controller.grpc_credentials import GrpcCertificates

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # a port that is taken is an error
    ("grpc.max_receive_message_length", 4 * MIB),
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.max_concurrent_streams", 1000),
)
_GRACE_SECONDS: Final = 5.0
"""Limit on the time that calls under way may take at the end."""


@contextlib.asynccontextmanager
async def serve_rpc_over_grpc(
    handlers: grpc.GenericRpcHandler, where: tuple[str, int], tls: ServerTls | None, disk: Disk
) -> AsyncIterator[int]:
    """Serve *handlers* over gRPC at *where*; yield the port bound (a `ServeRpc`).

    Raises `ConfigError` where it can't bind, or the certificates can't be read.
    """
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((handlers,))
    port = _bind(server, where, tls, disk)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(_GRACE_SECONDS)


def _bind(
    server: grpc.aio.Server, where: tuple[str, int], tls: ServerTls | None, disk: Disk
) -> int:
    host, port = where
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    credentials = GrpcCertificates(tls, disk).credentials() if tls is not None else None
    try:
        return (
            server.add_insecure_port(address)
            if credentials is None
            else server.add_secure_port(address, credentials)
        )
    except RuntimeError as error:
        remedy = (
            "the controller can't listen there: free the port, give another one, or look at "
            "the certificates"
        )
        raise UnavailableError("listen", [Mistake("address", address, remedy)]) from error
