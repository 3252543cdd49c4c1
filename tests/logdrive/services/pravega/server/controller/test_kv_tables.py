"""Key-value tables over gRPC (specification, section 6)."""

import asyncio

from logdrive.wire.pravega.controller import controller_pb2 as pb
from tests.logdrive.services.pravega.server.controller.caller import calling
from tests.logdrive.services.pravega.server.controller.test_service import made

INFO = pb.KeyValueTableInfo(scope="logs", kvtName="places")
CONFIG = pb.KeyValueTableConfig(
    scope="logs",
    kvtName="places",
    partitionCount=2,
    primaryKeyLength=8,
    secondaryKeyLength=4,
    rolloverSizeBytes=9,
)


def test_a_table_is_created_described_listed_and_deleted() -> None:
    async def main() -> None:
        async with calling() as call:
            await made(call)
            assert (
                await call("createKeyValueTable", CONFIG)
            ).status == pb.CreateKeyValueTableStatus.SUCCESS
            assert (await call("getKeyValueTableConfiguration", INFO)).config == CONFIG
            found = await call("getCurrentSegmentsKeyValueTable", INFO)
            assert [(r.segmentId.segmentId, r.minKey, r.maxKey) for r in found.segmentRanges] == [
                (0, 0.0, 0.5),
                (1, 0.5, 1.0),
            ]
            in_scope = pb.KVTablesInScopeRequest(scope=pb.ScopeInfo(scope="logs"))
            assert list((await call("listKeyValueTablesInScope", in_scope)).kvtables) == [INFO]
            segments = call.store.segments("logs/places_kvtable/")
            assert segments == ["logs/places_kvtable/0.#epoch.0", "logs/places_kvtable/1.#epoch.0"]
            assert (
                await call("deleteScope", pb.ScopeInfo(scope="logs"))
            ).status == pb.DeleteScopeStatus.SCOPE_NOT_EMPTY
            assert (
                await call("deleteKeyValueTable", INFO)
            ).status == pb.DeleteKVTableStatus.SUCCESS
            assert call.store.segments("logs/places_kvtable/") == []
            assert (
                await call("createKeyValueTable", CONFIG)
            ).status == pb.CreateKeyValueTableStatus.SUCCESS
            again = await call("getCurrentSegmentsKeyValueTable", INFO)
            # no name ever stands for other bytes
            assert [r.segmentId.segmentId for r in again.segmentRanges] == [2, 3]

    asyncio.run(main())


def test_refusals_have_the_statuses_that_clients_know() -> None:
    async def main() -> None:
        async with calling() as call:
            await made(call)
            statuses = pb.CreateKeyValueTableStatus

            def asked(**fields: object) -> pb.KeyValueTableConfig:
                found = pb.KeyValueTableConfig()
                found.CopyFrom(CONFIG)
                found.MergeFrom(pb.KeyValueTableConfig(**fields))  # type: ignore[arg-type]
                return found

            assert (await call("createKeyValueTable", CONFIG)).status == statuses.SUCCESS
            for request, status in (
                (CONFIG, statuses.TABLE_EXISTS),
                (asked(scope="none"), statuses.SCOPE_NOT_FOUND),
                (asked(kvtName="a/b"), statuses.INVALID_TABLE_NAME),
                (asked(kvtName="other", secondaryKeyLength=10_000), statuses.FAILURE),
            ):
                assert (await call("createKeyValueTable", request)).status == status
            missing = pb.KeyValueTableInfo(scope="logs", kvtName="none")
            assert (
                await call("deleteKeyValueTable", missing)
            ).status == pb.DeleteKVTableStatus.TABLE_NOT_FOUND
            assert (
                await call("getKeyValueTableConfiguration", missing)
            ).status == pb.KeyValueTableConfigResponse.TABLE_NOT_FOUND
            nowhere = pb.KVTablesInScopeRequest(scope=pb.ScopeInfo(scope="none"))
            assert (
                await call("listKeyValueTablesInScope", nowhere)
            ).status == pb.KVTablesInScopeResponse.SCOPE_NOT_FOUND
            assert (
                await call("deleteScopeRecursive", pb.ScopeInfo(scope="logs"))
            ).status == pb.DeleteScopeStatus.SUCCESS
            assert call.store.segments("logs/") == []
            assert list((await call("listScopes", pb.ScopesRequest())).scopes) == []

    asyncio.run(main())
