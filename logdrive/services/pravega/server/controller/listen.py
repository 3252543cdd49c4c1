"""A controller at an address, while a context lasts.

The one place where gRPC brings its own sockets (docs/adr/0006).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import grpc
import grpc.aio

from logdrive.errors import ConfigError, Mistake, UnavailableError, file_error_text
from logdrive.host.disk import Disk
from logdrive.model.units import MIB
from logdrive.net.stream import ServerTls
from logdrive.services.auth.open import Access
from logdrive.services.pravega.server.controller.authorization import ControllerAuthorization
from logdrive.services.pravega.server.controller.kv_tables import MapMethods
from logdrive.services.pravega.server.controller.reader_groups import GroupMethods
from logdrive.services.pravega.server.controller.service import ControllerService
from logdrive.services.pravega.server.controller.serving import Serving
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
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 4 * MIB),
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.max_concurrent_streams", 1000),
)
_GRACE_SECONDS: Final = 5.0
_PEM_BYTES: Final = MIB


@contextlib.asynccontextmanager
async def over_grpc(
    handlers: grpc.GenericRpcHandler, where: tuple[str, int], tls: ServerTls | None, disk: Disk
) -> AsyncIterator[int]:
    """Serve *handlers* while the context lasts; yield the real port.

    Raises `ConfigError` where it can't bind.
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
async def controlling(
    catalogue: Catalog,
    where: tuple[str, int],
    tls: ServerTls | None,
    node: tuple[str, int],
    *,
    disk: Disk,
    serving: Serving = over_grpc,
    access: Access | None = None,
) -> AsyncIterator[tuple[str, int]]:
    """Answer at *where* for the streams of *catalogue*, whose segments clients find at *node*;
    yield the address with the real port.

    Without *access* nobody is asked who comes. What was begun at the end is answered, within a few
    seconds: leave before the store closes. Raises `ConfigError` where it can't bind.
    """
    transactions = Transactions(catalogue)
    streams, writers = Streams(catalogue), WriterTimes(catalogue)
    others = (
        GroupMethods(ReaderGroups(catalogue)),
        MapMethods(KeyValueTables(catalogue)),
        WriterMethods(writers),
    )
    controller = ControllerService(streams, transactions, writers, *node, others)
    handlers = (
        controller.handlers()
        if access is None
        else ControllerAuthorization(controller.handlers(), access)
    )
    async with catalogue.turn():
        pass  # what a crash left undone is done before anybody is answered
    async with serving(handlers, where, tls, disk) as port:
        controller.listens(port)
        upkeep = [
            asyncio.create_task(transactions.run(), name="transaction-leases"),
            asyncio.create_task(
                Retention(catalogue.store, streams.retention_policy, catalogue.clock).run(),
                name="streams-retention",
            ),
            asyncio.create_task(
                Retention(catalogue.store, streams.max_retention_policy, catalogue.clock).run(),
                name="streams-most",
            ),
            asyncio.create_task(Scaling(catalogue, streams).run(), name="streams-scaling"),
            asyncio.create_task(Watermarks(catalogue).run(), name="streams-watermarks"),
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
