"""The controller's methods for key-value tables (specification, section 6)."""

from logdrive.services.pravega.server.controller import convert as answers
from logdrive.services.pravega.server.controller.service import TOKEN
from logdrive.services.pravega.server.streams.kv_tables import KeyValueTables
from logdrive.store.streams.state import KeyValueTable, Segment
from logdrive.wire.pravega.controller import controller_pb2 as pb


class KeyValueTableMethods:
    """Answers for the key-value tables of one store."""

    def __init__(self, maps: KeyValueTables) -> None:
        self._maps = maps

    async def create_key_value_table(
        self, request: pb.KeyValueTableConfig
    ) -> pb.CreateKeyValueTableStatus:
        """Make a table."""
        asked = KeyValueTable(
            request.partitionCount,
            request.primaryKeyLength,
            request.secondaryKeyLength,
            request.rolloverSizeBytes,
        )
        await self._maps.create_kv_table(request.scope, request.kvtName, asked)
        return pb.CreateKeyValueTableStatus(status="SUCCESS")

    async def get_key_value_table_configuration(
        self, request: pb.KeyValueTableInfo
    ) -> pb.KeyValueTableConfigResponse:
        """Tell how a table was asked for."""
        found = await self._maps.get_kv_table(request.scope, request.kvtName)
        config = pb.KeyValueTableConfig(
            scope=request.scope,
            kvtName=request.kvtName,
            partitionCount=found.partitions,
            primaryKeyLength=found.primary,
            secondaryKeyLength=found.secondary,
            rolloverSizeBytes=found.rollover_bytes,
        )
        return pb.KeyValueTableConfigResponse(status="SUCCESS", config=config)

    async def get_current_segments_key_value_table(
        self, request: pb.KeyValueTableInfo
    ) -> pb.SegmentRanges:
        """Tell which segments have which share of a table's keys."""
        found = await self._maps.get_kv_table(request.scope, request.kvtName)
        shares = [n / found.partitions for n in range(found.partitions)] + [1.0]
        segments = [
            Segment(found.first + n, shares[n], shares[n + 1]) for n in range(found.partitions)
        ]
        return answers.segment_ranges_message(
            pb.StreamInfo(scope=request.scope, stream=request.kvtName), segments, TOKEN
        )

    async def list_key_value_tables_in_scope(
        self, request: pb.KVTablesInScopeRequest
    ) -> pb.KVTablesInScopeResponse:
        """List the tables of a scope, page by page."""
        scope = request.scope.scope
        names, token = answers.page_of_names(
            await self._maps.list_kv_tables(scope), request.continuationToken.token
        )
        listed = [pb.KeyValueTableInfo(scope=scope, kvtName=name) for name in names]
        return pb.KVTablesInScopeResponse(
            status="SUCCESS", kvtables=listed, continuationToken=token
        )

    async def delete_key_value_table(self, request: pb.KeyValueTableInfo) -> pb.DeleteKVTableStatus:
        """Remove a table."""
        await self._maps.delete_kv_table(request.scope, request.kvtName)
        return pb.DeleteKVTableStatus(status="SUCCESS")
