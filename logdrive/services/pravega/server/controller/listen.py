"""`serve_controller_at`: a controller that listens while a context is open.

gRPC opens its own sockets here, past `Transport` (docs/adr/0006).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import grpc
import grpc.aio

from logdrive.errors import ConfigError, Mistake, UnavailableError, file_error_text
from logdrive.host.disk import Disk
from logdrive.host.transport import ServerTls
from logdrive.model.units import MIB
from logdrive.services.auth.open import Access
from logdrive.services.pravega.server.controller.authorization import ControllerAuthorization
from logdrive.services.pravega.server.controller.kv_tables import KeyValueTableMethods
from logdrive.services.pravega.server.controller.reader_groups import ReaderGroupMethods
from logdrive.services.pravega.server.controller.serve_rpc import ServeRpc
from logdrive.services.pravega.server.controller.service import ControllerService
from logdrive.services.pravega.server.controller.transactions import TransactionMethods
from logdrive.services.pravega.server.controller.writers import WriterMethods
from logdrive.services.pravega.server.streams.kv_tables import KeyValueTables
from logdrive.services.pravega.server.streams.reader_groups import ReaderGroups
from logdrive.services.pravega.server.streams.transactions import Transactions
from logdrive.services.pravega.server.streams.watermarks import Watermarks
from logdrive.services.pravega.server.streams.writer_times import WriterTimes
from logdrive.store.retention import Retention
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.scaling import Scaling
from logdrive.store.streams.streams import Streams

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # a port that is taken is an error
    ("grpc.max_receive_message_length", 4 * MIB),
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.max_concurrent_streams", 1000),
)
_GRACE_SECONDS: Final = 5.0
"""Limit on the time that calls under way may take at the end."""
_PEM_BYTES: Final = MIB
"""Limit on the size of a certificate or key."""


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


@contextlib.asynccontextmanager
async def serve_controller_at(
    catalog: Catalog,
    where: tuple[str, int],
    tls: ServerTls | None,
    node: tuple[str, int],
    *,
    disk: Disk,
    serve_rpc: ServeRpc = serve_rpc_over_grpc,
    access: Access | None = None,
) -> AsyncIterator[tuple[str, int]]:
    """Serve the streams of *catalog* at *where*; yield host and the port bound.

    *node* is the segment store's address, which clients are told. Without *access* calls need no
    login. Leave the context before the store closes: calls under way are answered first, within a
    few seconds. Raises `ConfigError` where it can't bind.
    """
    transactions = Transactions(catalog)
    streams = Streams(catalog)
    writers = WriterTimes(catalog)
    parts = (
        TransactionMethods(transactions, writers),
        ReaderGroupMethods(ReaderGroups(catalog)),
        KeyValueTableMethods(KeyValueTables(catalog)),
        WriterMethods(writers),
    )
    controller = ControllerService(streams, *node, parts)
    handlers = (
        controller.grpc_handlers()
        if access is None
        else ControllerAuthorization(controller.grpc_handlers(), access)
    )

    async with catalog.turn():
        pass  # the first turn finishes what a crash left undone, before any call is answered

    async with serve_rpc(handlers, where, tls, disk) as port:
        controller.set_own_port(port)
        upkeep = [
            asyncio.create_task(transactions.run_lease_expiry(), name="transaction-leases"),
            asyncio.create_task(
                Retention(catalog.store, streams.retention_policy, catalog.clock).run(),
                name="streams-retention",
            ),
            asyncio.create_task(
                Retention(catalog.store, streams.max_retention_policy, catalog.clock).run(),
                name="streams-most",
            ),
            asyncio.create_task(Scaling(catalog, streams).run(), name="streams-scaling"),
            asyncio.create_task(Watermarks(catalog).run(), name="streams-watermarks"),
        ]
        try:
            yield where[0], port
        finally:
            for task in upkeep:
                task.cancel()
            await asyncio.wait(upkeep)


def _bind(
    server: grpc.aio.Server, where: tuple[str, int], tls: ServerTls | None, disk: Disk
) -> int:
    host, port = where
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    credentials = _credentials(tls, disk) if tls is not None else None
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


def _credentials(tls: ServerTls, disk: Disk) -> grpc.ServerCredentials:
    key, chain = _pem(disk, "key", tls.key), _pem(disk, "cert", tls.cert)
    trusted = _pem(disk, "ca", tls.ca) if tls.ca is not None else None
    return grpc.ssl_server_credentials(
        [(key, chain)], root_certificates=trusted, require_client_auth=trusted is not None
    )


def _pem(disk: Disk, key: str, path: str) -> bytes:
    try:
        file = disk.open(path)
        try:
            return file.pread(_PEM_BYTES, 0)
        finally:
            file.close()
    except OSError as error:
        raise ConfigError("tls", [Mistake(key, path, file_error_text(error))]) from error
