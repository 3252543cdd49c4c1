"""`serve_controller_at`: a controller that listens while a context is open."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import grpc

from logdrive.host.disk import Disk
from logdrive.host.rpc import ServeRpc
from logdrive.host.transport import ServerTls
from logdrive.services.auth.open import Access
from logdrive.services.pravega.server.controller.authorization import ControllerAuthorization
from logdrive.services.pravega.server.controller.grpc_listener import serve_rpc_over_grpc
from logdrive.services.pravega.server.controller.kv_tables import KeyValueTableMethods
from logdrive.services.pravega.server.controller.reader_groups import ReaderGroupMethods
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


@contextlib.asynccontextmanager
async def serve_controller_at(
    catalog: Catalog,
    where: tuple[str, int],
    tls: ServerTls | None,
    segment_store: tuple[str, int],
    *,
    disk: Disk,
    serve_rpc: ServeRpc = serve_rpc_over_grpc,
    access: Access | None = None,
) -> AsyncIterator[tuple[str, int]]:
    """Serve the streams of *catalog* at *where*; yield host and the port bound.

    *segment_store* is the address that clients are told. Without *access* calls need no login.
    Leave the context before the store closes: calls under way are answered first, within a few
    seconds. Raises `ConfigError` where it can't bind.
    """
    streams, transactions = Streams(catalog), Transactions(catalog)
    controller = _build_controller(catalog, streams, transactions, segment_store)
    handlers: grpc.GenericRpcHandler = controller.grpc_handlers()
    if access is not None:
        handlers = ControllerAuthorization(handlers, access)

    async with catalog.turn():
        pass  # the first turn finishes what a crash left undone, before any call is answered

    async with serve_rpc(handlers, where, tls, disk) as port:
        controller.set_own_port(port)
        upkeep = list(_start_upkeep(catalog, streams, transactions))
        try:
            yield where[0], port
        finally:
            for task in upkeep:
                task.cancel()
            await asyncio.wait(upkeep)


def _build_controller(
    catalog: Catalog,
    streams: Streams,
    transactions: Transactions,
    segment_store: tuple[str, int],
) -> ControllerService:
    writers = WriterTimes(catalog)
    parts = (
        TransactionMethods(transactions, writers),
        ReaderGroupMethods(ReaderGroups(catalog)),
        KeyValueTableMethods(KeyValueTables(catalog)),
        WriterMethods(writers),
    )
    return ControllerService(streams, *segment_store, parts)


def _start_upkeep(
    catalog: Catalog, streams: Streams, transactions: Transactions
) -> Iterator[asyncio.Task[None]]:
    """Start the tasks that streams need while they are served; yield each.

    Retention has two: one stops at what reader groups still need, the other, which applies the
    streams' upper limits, does not.
    """
    store, clock = catalog.store, catalog.clock
    usual = Retention(store, streams.retention_policy, clock)
    at_most = Retention(store, streams.max_retention_policy, clock)
    yield asyncio.create_task(transactions.run_lease_expiry(), name="transaction-leases")
    yield asyncio.create_task(usual.run(), name="streams-retention")
    yield asyncio.create_task(at_most.run(), name="streams-most")
    yield asyncio.create_task(Scaling(catalog, streams).run(), name="streams-scaling")
    yield asyncio.create_task(Watermarks(catalog).run(), name="streams-watermarks")
