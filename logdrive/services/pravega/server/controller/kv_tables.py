"""The controller's methods for key-value tables (docs/protocols/pravega-controller.md)."""

from logdrive.services.pravega.server.controller import convert
from logdrive.services.pravega.server.controller.convert import NO_TOKEN
from logdrive.services.pravega.server.streams.kv_tables import KeyValueTables
from logdrive.store.streams.state import KeyValueTable, Segment
from logdrive.wire.pravega.controller import controller_pb2 as pb


class KeyValueTableMethods:
    """Answers calls about the key-value tables of one store."""

    def __init__(self, tables: KeyValueTables) -> None:
        self._tables = tables

    async def create_key_value_table(
        self, request: pb.KeyValueTableConfig
    ) -> pb.CreateKeyValueTableStatus:
        """Create a table."""
        config = KeyValueTable(
            request.partitionCount,
            request.primaryKeyLength,
            request.secondaryKeyLength,
            request.rolloverSizeBytes,
        )
        await self._tables.create_kv_table(request.scope, request.kvtName, config)
        return pb.CreateKeyValueTableStatus(status="SUCCESS")

    async def get_key_value_table_configuration(
        self, request: pb.KeyValueTableInfo
    ) -> pb.KeyValueTableConfigResponse:
        """Return a table's configuration."""
        table = await self._tables.get_kv_table(request.scope, request.kvtName)
        config = pb.KeyValueTableConfig(
            scope=request.scope,
            kvtName=request.kvtName,
            partitionCount=table.partitions,
            primaryKeyLength=table.primary,
            secondaryKeyLength=table.secondary,
            rolloverSizeBytes=table.rollover_bytes,
        )
        return pb.KeyValueTableConfigResponse(status="SUCCESS", config=config)

    async def get_current_segments_key_value_table(
        self, request: pb.KeyValueTableInfo
    ) -> pb.SegmentRanges:
        """List a table's segments, each with its share of the key space [0, 1]."""
        table = await self._tables.get_kv_table(request.scope, request.kvtName)
        bounds = [n / table.partitions for n in range(table.partitions)] + [1.0]
        segments = [
            Segment(table.first + n, bounds[n], bounds[n + 1]) for n in range(table.partitions)
        ]
        return convert.segment_ranges_message(
            pb.StreamInfo(scope=request.scope, stream=request.kvtName), segments, NO_TOKEN
        )

    async def list_key_value_tables_in_scope(
        self, request: pb.KVTablesInScopeRequest
    ) -> pb.KVTablesInScopeResponse:
        """List the tables of a scope, page by page."""
        scope = request.scope.scope
        names, token = convert.page_of_names(
            await self._tables.list_kv_tables(scope), request.continuationToken.token
        )
        listed = [pb.KeyValueTableInfo(scope=scope, kvtName=name) for name in names]
        return pb.KVTablesInScopeResponse(
            status="SUCCESS", kvtables=listed, continuationToken=token
        )

    async def delete_key_value_table(self, request: pb.KeyValueTableInfo) -> pb.DeleteKVTableStatus:
        """Delete a table."""
        await self._tables.delete_kv_table(request.scope, request.kvtName)
        return pb.DeleteKVTableStatus(status="SUCCESS")
