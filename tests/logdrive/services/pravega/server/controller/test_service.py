"""The controller over gRPC: the answers of every method, and the statuses of refusals.

Specification, section 6.
"""

import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

from logdrive.errors import ConfigError
from logdrive.host.transport import ServerTls
from logdrive.wire.pravega.controller import controller_pb2 as pb
from tests.logdrive.services.pravega.server.controller.caller import Caller, calling

INFO = pb.StreamInfo(scope="logs", stream="app")
CONFIG = pb.StreamConfig(
    streamInfo=INFO,
    scalingPolicy=pb.ScalingPolicy(
        scaleType="BY_RATE_IN_EVENTS_PER_SEC", targetRate=100, scaleFactor=2, minNumSegments=2
    ),
    retentionPolicy=pb.RetentionPolicy(
        retentionType="SIZE", retentionParam=1 << 40, retentionMax=(1 << 63) - 1
    ),
    tags=pb.Tags(tag=["a", "b"]),
    timestampAggregationTimeout=7,
    rolloverSizeBytes=1 << 33,
)


def at(segment: int, stream: str = "app") -> pb.SegmentId:
    return pb.SegmentId(streamInfo=pb.StreamInfo(scope="logs", stream=stream), segmentId=segment)


async def made(call: Caller) -> None:
    assert (
        await call("createScope", pb.ScopeInfo(scope="logs"))
    ).status == pb.CreateScopeStatus.SUCCESS
    assert (await call("createStream", CONFIG)).status == pb.CreateStreamStatus.SUCCESS


def test_a_stream_is_created_described_and_listed() -> None:
    async def main() -> None:
        async with calling() as call:
            await made(call)
            assert await call("getStreamConfiguration", INFO) == CONFIG
            found = await call("getCurrentSegments", INFO)
            assert [(r.segmentId.segmentId, r.minKey, r.maxKey) for r in found.segmentRanges] == [
                (0, 0.0, 0.5),
                (1, 0.5, 1.0),
            ]
            assert found.delegationToken == ""
            assert await call("getURI", at(0)) == pb.NodeUri(endpoint="127.0.0.1", port=6000)
            heads = await call("getSegments", pb.GetSegmentsRequest(streamInfo=INFO))
            assert {s.segmentId.segmentId: s.offset for s in heads.segments} == {0: 0, 1: 0}
            assert (await call("isSegmentValid", at(1))).response
            assert not (await call("isSegmentValid", at(2))).response
            assert (await call("checkStreamExists", INFO)).exists
            assert not (
                await call("checkStreamExists", pb.StreamInfo(scope="logs", stream="no"))
            ).exists
            assert (await call("checkScopeExists", pb.ScopeInfo(scope="logs"))).exists
            assert not (await call("checkScopeExists", pb.ScopeInfo(scope="no"))).exists
            assert (await call("getDelegationToken", INFO)).delegationToken == ""
            streams = await call(
                "listStreamsInScope", pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope="logs"))
            )
            assert [s.stream for s in streams.streams] == ["app"]
            after = pb.StreamsInScopeRequest(
                scope=pb.ScopeInfo(scope="logs"), continuationToken=streams.continuationToken
            )
            assert list((await call("listStreamsInScope", after)).streams) == []
            for tag, expected in (("b", ["app"]), ("c", [])):
                request = pb.StreamsInScopeWithTagRequest(scope=pb.ScopeInfo(scope="logs"), tag=tag)
                assert [
                    s.stream for s in (await call("listStreamsInScopeForTag", request)).streams
                ] == expected
            assert list((await call("listScopes", pb.ScopesRequest())).scopes) == ["logs"]

    asyncio.run(main())


def test_refusals_have_the_statuses_that_clients_know() -> None:
    async def main() -> None:
        async with calling() as call:
            await made(call)
            absent = pb.StreamInfo(scope="logs", stream="no")
            nowhere = pb.StreamConfig(streamInfo=pb.StreamInfo(scope="no", stream="app"))
            assert (
                await call("createScope", pb.ScopeInfo(scope="logs"))
            ).status == pb.CreateScopeStatus.SCOPE_EXISTS
            assert (
                await call("createScope", pb.ScopeInfo(scope="a/b"))
            ).status == pb.CreateScopeStatus.INVALID_SCOPE_NAME
            assert (
                await call("createStream", CONFIG)
            ).status == pb.CreateStreamStatus.STREAM_EXISTS
            assert (
                await call("createStream", nowhere)
            ).status == pb.CreateStreamStatus.SCOPE_NOT_FOUND
            invalid = pb.StreamConfig(streamInfo=pb.StreamInfo(scope="logs", stream="a/b"))
            assert (
                await call("createStream", invalid)
            ).status == pb.CreateStreamStatus.INVALID_STREAM_NAME
            policy = pb.ScalingPolicy(scaleType=9)  # type: ignore[arg-type]
            unknown = pb.StreamConfig(streamInfo=absent, scalingPolicy=policy)
            assert (await call("createStream", unknown)).status == pb.CreateStreamStatus.FAILURE
            assert (
                await call("deleteScope", pb.ScopeInfo(scope="logs"))
            ).status == pb.DeleteScopeStatus.SCOPE_NOT_EMPTY
            assert (
                await call("deleteScope", pb.ScopeInfo(scope="no"))
            ).status == pb.DeleteScopeStatus.SCOPE_NOT_FOUND
            assert (
                await call("sealStream", absent)
            ).status == pb.UpdateStreamStatus.STREAM_NOT_FOUND
            assert (
                await call("updateStream", nowhere)
            ).status == pb.UpdateStreamStatus.SCOPE_NOT_FOUND
            assert (
                await call("truncateStream", pb.StreamCut(streamInfo=INFO, cut={0: 1}))
            ).status == pb.UpdateStreamStatus.FAILURE
            assert (
                await call("deleteStream", INFO)
            ).status == pb.DeleteStreamStatus.STREAM_NOT_SEALED
            assert (
                await call("deleteStream", absent)
            ).status == pb.DeleteStreamStatus.STREAM_NOT_FOUND
            scope = pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope="no"))
            assert (
                await call("listStreamsInScope", scope)
            ).status == pb.StreamsInScopeResponse.SCOPE_NOT_FOUND
            for method, request in (
                ("getCurrentSegments", absent),
                ("getSegmentsImmediatelyFollowing", at(9)),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(method, request)
                assert refused.value.code() == grpc.StatusCode.NOT_FOUND

    asyncio.run(main())


def test_a_stream_is_scaled_truncated_sealed_and_deleted() -> None:
    async def main() -> None:
        async with calling() as call:
            await made(call)
            ranges = [
                pb.ScaleRequest.KeyRangeEntry(start=0.5, end=0.75),
                pb.ScaleRequest.KeyRangeEntry(start=0.75, end=1.0),
            ]
            scaled = await call(
                "scale", pb.ScaleRequest(streamInfo=INFO, sealedSegments=[1], newKeyRanges=ranges)
            )
            new = [1 << 32 | 2, 1 << 32 | 3]
            assert (scaled.status, scaled.epoch) == (pb.ScaleResponse.STARTED, 0)
            assert [r.segmentId.segmentId for r in scaled.segments] == new
            for epoch, status in ((0, "SUCCESS"), (1, "SUCCESS"), (2, "INVALID_INPUT")):
                checked = await call(
                    "checkScale", pb.ScaleStatusRequest(streamInfo=INFO, epoch=epoch)
                )
                assert checked == pb.ScaleStatusResponse(status=status)
            again = await call(
                "scale", pb.ScaleRequest(streamInfo=INFO, sealedSegments=[1], newKeyRanges=ranges)
            )
            assert again.status == pb.ScaleResponse.PRECONDITION_FAILED
            for method in ("getSegmentsImmediatelyFollowing", "getSegmentsImmediatlyFollowing"):
                after = await call(method, at(1))
                assert [(e.segment.segmentId.segmentId, list(e.value)) for e in after.segments] == [
                    (new[0], [1]),
                    (new[1], [1]),
                ]
            old = await call(
                "getEpochSegments", pb.GetEpochSegmentsRequest(streamInfo=INFO, epoch=0)
            )
            assert [r.segmentId.segmentId for r in old.segmentRanges] == [0, 1]
            cut = pb.StreamCut(streamInfo=INFO, cut={0: 0, new[0]: 0, new[1]: 0})
            assert (await call("isStreamCutValid", cut)).response
            assert not (
                await call("isStreamCutValid", pb.StreamCut(streamInfo=INFO, cut={0: 0}))
            ).response
            assert (await call("truncateStream", cut)).status == pb.UpdateStreamStatus.SUCCESS
            heads = await call("getSegments", pb.GetSegmentsRequest(streamInfo=INFO))
            assert {s.segmentId.segmentId: s.offset for s in heads.segments} == dict(cut.cut)
            assert (await call("sealStream", INFO)).status == pb.UpdateStreamStatus.SUCCESS
            assert (await call("sealStream", INFO)).status == pb.UpdateStreamStatus.SUCCESS
            assert (
                await call("updateStream", CONFIG)
            ).status == pb.UpdateStreamStatus.STREAM_SEALED
            assert not (await call("getCurrentSegments", INFO)).segmentRanges
            assert not (await call("getSegmentsImmediatelyFollowing", at(0))).segments
            assert (await call("deleteStream", INFO)).status == pb.DeleteStreamStatus.SUCCESS
            assert (
                await call("deleteScope", pb.ScopeInfo(scope="logs"))
            ).status == pb.DeleteScopeStatus.SUCCESS

    asyncio.run(main())


def test_transactions_are_opened_pinged_committed_and_aborted() -> None:
    async def main() -> None:
        async with calling() as call:
            await made(call)
            opened = [
                await call("createTransaction", pb.CreateTxnRequest(streamInfo=INFO, lease=30_000))
                for _ in range(2)
            ]
            first, second = (pb.TxnRequest(streamInfo=INFO, txnId=found.txnId) for found in opened)
            assert [r.segmentId.segmentId for r in opened[0].activeSegments] == [0, 1]
            assert len(call.store.segments("logs/app/0.#epoch.0#transaction.")) == 2
            ping = pb.PingTxnRequest(streamInfo=INFO, txnId=first.txnId, lease=30_000)
            assert (await call("pingTransaction", ping)).status == pb.PingTxnStatus.OK
            large = pb.PingTxnRequest(streamInfo=INFO, txnId=first.txnId, lease=1 << 50)
            assert (await call("pingTransaction", large)).status == pb.PingTxnStatus.LEASE_TOO_LARGE
            assert (await call("checkTransactionState", first)).state == pb.TxnState.OPEN
            assert (await call("commitTransaction", first)).status == pb.TxnStatus.SUCCESS
            assert (await call("abortTransaction", second)).status == pb.TxnStatus.SUCCESS
            assert (await call("abortTransaction", first)).status == pb.TxnStatus.FAILURE
            assert (await call("checkTransactionState", first)).state == pb.TxnState.COMMITTED
            assert (await call("checkTransactionState", second)).state == pb.TxnState.ABORTED
            assert (await call("pingTransaction", ping)).status == pb.PingTxnStatus.COMMITTED
            unknown = pb.TxnRequest(streamInfo=INFO, txnId=pb.TxnId(highBits=-1, lowBits=-2))
            assert (
                await call("commitTransaction", unknown)
            ).status == pb.TxnStatus.TRANSACTION_NOT_FOUND
            assert (await call("checkTransactionState", unknown)).state == pb.TxnState.UNKNOWN
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call("createTransaction", pb.CreateTxnRequest(streamInfo=INFO, lease=0))
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(main())


def test_a_store_whose_writes_fail_is_unavailable_so_that_clients_retry() -> None:
    async def main() -> None:
        async with calling() as call:
            await call.store.close()
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call("createScope", pb.ScopeInfo(scope="logs"))
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE

    asyncio.run(main())


def test_over_tls_only_clients_with_a_certificate_are_answered(certificates: Path) -> None:
    files = {
        name: str(certificates / name)
        for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")
    }
    tls = ServerTls(files["server.pem"], files["server.key"], files["ca.pem"])
    ca, key, cert = (
        Path(files[name]).read_bytes() for name in ("ca.pem", "client.key", "client.pem")
    )

    async def main() -> None:
        async with calling(
            tls=tls, credentials=grpc.ssl_channel_credentials(ca, key, cert)
        ) as call:
            await made(call)
        async with calling(tls=tls, credentials=grpc.ssl_channel_credentials(ca)) as call:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call("createScope", pb.ScopeInfo(scope="logs"))
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE

    asyncio.run(main())


def test_missing_certificates_are_named() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="key = /nowhere/key"):
            async with calling(tls=ServerTls("/nowhere/cert", "/nowhere/key")):
                pass

    asyncio.run(main())
