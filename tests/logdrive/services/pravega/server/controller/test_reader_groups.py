"""Reader groups over gRPC, as Pravega's clients use them (specification, section 6)."""

import asyncio

from logdrive.wire.pravega.controller import controller_pb2 as pb
from tests.logdrive.services.pravega.server.controller.caller import Caller, calling
from tests.logdrive.services.pravega.server.controller.test_service import INFO, made

ID = "00112233-4455-6677-8899-aabbccddeeff"
NAMED = pb.ReaderGroupInfo(scope="logs", readerGroup="readers")


def config(**fields: object) -> pb.ReaderGroupConfiguration:
    found = pb.ReaderGroupConfiguration(
        scope="logs",
        readerGroupName="readers",
        groupRefreshTimeMillis=3000,
        automaticCheckpointIntervalMillis=30_000,
        maxOutstandingCheckpointRequest=3,
        retentionType=1,
        readerGroupId=ID,
        startingStreamCuts=[pb.StreamCut(streamInfo=INFO, cut={0: 0, 1: 0})],
        endingStreamCuts=[pb.StreamCut(streamInfo=INFO)],
        rolloverSizeBytes=9,
    )
    found.MergeFrom(pb.ReaderGroupConfiguration(**fields))  # type: ignore[arg-type]
    return found


async def grouped(call: Caller) -> None:
    await made(call)
    assert (
        await call("createReaderGroup", config())
    ).status == pb.CreateReaderGroupResponse.SUCCESS


def test_a_group_is_created_with_its_state_stream_described_and_deleted() -> None:
    async def main() -> None:
        async with calling() as call:
            await grouped(call)
            assert (await call("getReaderGroupConfig", NAMED)).config == config()
            again = await call("createReaderGroup", config(readerGroupId="another"))
            assert (again.status, again.config) == (pb.CreateReaderGroupResponse.SUCCESS, config())
            state = pb.StreamInfo(scope="logs", stream="_RGreaders")
            assert len((await call("getCurrentSegments", state)).segmentRanges) == 1
            assert (
                await call("deleteScope", pb.ScopeInfo(scope="logs"))
            ).status == pb.DeleteScopeStatus.SCOPE_NOT_EMPTY
            removed = pb.ReaderGroupInfo(scope="logs", readerGroup="readers", readerGroupId=ID)
            assert (
                await call("deleteReaderGroup", removed)
            ).status == pb.DeleteReaderGroupStatus.SUCCESS
            assert (
                await call("getReaderGroupConfig", NAMED)
            ).status == pb.ReaderGroupConfigResponse.RG_NOT_FOUND
            assert not (await call("checkStreamExists", state)).exists
            assert (
                await call("createReaderGroup", config())
            ).status == pb.CreateReaderGroupResponse.SUCCESS

    asyncio.run(main())


def test_a_group_is_changed_only_with_its_present_generation() -> None:
    async def main() -> None:
        async with calling() as call:
            await grouped(call)
            updated = await call("updateReaderGroup", config(maxOutstandingCheckpointRequest=9))
            assert (updated.status, updated.generation) == (pb.UpdateReaderGroupResponse.SUCCESS, 1)
            assert (await call("getReaderGroupConfig", NAMED)).config == config(
                maxOutstandingCheckpointRequest=9, generation=1
            )
            for wrong in (config(), config(generation=1, readerGroupId="another")):
                assert (
                    await call("updateReaderGroup", wrong)
                ).status == pb.UpdateReaderGroupResponse.INVALID_CONFIG
            absent = config(readerGroupName="none")
            assert (
                await call("updateReaderGroup", absent)
            ).status == pb.UpdateReaderGroupResponse.RG_NOT_FOUND
            assert (
                await call("deleteReaderGroup", NAMED)
            ).status == pb.DeleteReaderGroupStatus.FAILURE

    asyncio.run(main())


def test_invalid_groups_are_refused_with_the_statuses_that_clients_know() -> None:
    async def main() -> None:
        async with calling() as call:
            await made(call)
            statuses = pb.CreateReaderGroupResponse
            elsewhere = [pb.StreamCut(streamInfo=pb.StreamInfo(scope="logs", stream="none"))]
            assert (
                await call("createReaderGroup", config(scope="none"))
            ).status == statuses.SCOPE_NOT_FOUND
            assert (
                await call("createReaderGroup", config(readerGroupName="a/b"))
            ).status == statuses.INVALID_RG_NAME
            assert (
                await call("createReaderGroup", config(startingStreamCuts=elsewhere))
            ).status == statuses.FAILURE
            missing = pb.ReaderGroupInfo(scope="logs", readerGroup="none")
            assert (
                await call("getReaderGroupConfig", missing)
            ).status == pb.ReaderGroupConfigResponse.RG_NOT_FOUND
            assert (
                await call("deleteReaderGroup", missing)
            ).status == pb.DeleteReaderGroupStatus.RG_NOT_FOUND

    asyncio.run(main())


def test_subscribers_are_listed_and_report_how_far_they_have_read() -> None:
    async def main() -> None:
        async with calling() as call:
            await grouped(call)
            await call("createReaderGroup", config(readerGroupName="indifferent", retentionType=-1))
            assert list((await call("listSubscribers", INFO)).subscribers) == ["logs/readers"]
            statuses = pb.UpdateSubscriberStatus

            def read(
                cut: dict[int, int], subscriber: str = "logs/readers", generation: int = 0
            ) -> pb.SubscriberStreamCut:
                place = pb.StreamCut(streamInfo=INFO, cut=cut)
                return pb.SubscriberStreamCut(
                    subscriber=subscriber, generation=generation, readerGroupId=ID, streamCut=place
                )

            for request, status in (
                (read({0: 5, 1: 7}), statuses.SUCCESS),
                (read({0: 5}), statuses.STREAM_CUT_NOT_VALID),
                (read({9: 5}), statuses.STREAM_CUT_NOT_VALID),
                (read({0: 5, 1: 7}, generation=1), statuses.GENERATION_MISMATCH),
                (read({0: 5, 1: 7}, "logs/none"), statuses.SUBSCRIBER_NOT_FOUND),
                (read({0: 5, 1: 7}, "none/none"), statuses.STREAM_NOT_FOUND),
            ):
                assert (await call("updateSubscriberStreamCut", request)).status == status

    asyncio.run(main())
