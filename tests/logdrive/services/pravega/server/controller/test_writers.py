"""Writers' times over gRPC, with the results that Pravega's controller gives.

Specification, section 6.
"""

import asyncio

import grpc
import grpc.aio
import pytest

from logdrive.wire.pravega.controller import controller_pb2 as pb
from tests.logdrive.services.pravega.server.controller.caller import Caller, calling
from tests.logdrive.services.pravega.server.controller.test_service import INFO, made

NONE = pb.StreamInfo(scope="logs", stream="none")


def noting(
    writer: str, time: int, cut: dict[int, int], info: pb.StreamInfo = INFO
) -> pb.TimestampFromWriter:
    return pb.TimestampFromWriter(
        writer=writer, timestamp=time, position=pb.StreamCut(streamInfo=info, cut=cut)
    )


async def code(call: Caller, method: str, request: pb.TimestampFromWriter) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(method, request)
    return refused.value.code()


def test_times_are_noted_and_writers_removed_with_the_results_that_clients_know() -> None:
    async def main() -> None:
        async with calling() as call:
            await made(call)
            results = pb.TimestampResponse
            for request, expected in (
                (noting("w", 100, {0: 0, 1: 0}), results.SUCCESS),
                (noting("w", 100, {0: 0}), results.SUCCESS),
                (noting("w", 99, {0: 0}), results.INVALID_TIME),
                (noting("w", 101, {7: 0}), results.INVALID_POSITION),
                (noting("empty", 101, {}), results.SUCCESS),
            ):
                assert (await call("noteTimestampFromWriter", request)).result == expected
            assert (
                await code(call, "noteTimestampFromWriter", noting("w", 101, {}, NONE))
                == grpc.StatusCode.NOT_FOUND
            )
            assert (
                await code(call, "noteTimestampFromWriter", noting("", 101, {}))
                == grpc.StatusCode.INVALID_ARGUMENT
            )
            removals = pb.RemoveWriterResponse
            for writer, info, removal in (
                ("w", INFO, removals.SUCCESS),
                ("w", INFO, removals.SUCCESS),
                ("nobody", INFO, removals.UNKNOWN_WRITER),
                ("w", NONE, removals.UNKNOWN_WRITER),
            ):
                assert (
                    await call("removeWriter", pb.RemoveWriterRequest(writer=writer, stream=info))
                ).result == removal

    asyncio.run(main())


def test_a_commit_notes_its_writers_time_if_it_has_one() -> None:
    async def main() -> None:
        async with calling() as call:
            await made(call)
            for writer, time in (("w", 7), ("silent", -(1 << 63)), ("", 8)):
                begun = await call(
                    "createTransaction", pb.CreateTxnRequest(streamInfo=INFO, lease=10_000)
                )
                request = pb.TxnRequest(
                    streamInfo=INFO, txnId=begun.txnId, writerId=writer, timestamp=time
                )
                for _ in range(2):
                    assert (await call("commitTransaction", request)).status == pb.TxnStatus.SUCCESS
            removals = [
                (
                    await call("removeWriter", pb.RemoveWriterRequest(writer=writer, stream=INFO))
                ).result
                for writer in ("w", "silent", "")
            ]
            assert removals == [pb.RemoveWriterResponse.SUCCESS] + 2 * [
                pb.RemoveWriterResponse.UNKNOWN_WRITER
            ]

    asyncio.run(main())
