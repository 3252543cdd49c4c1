"""Open partitions: shared, closed when idle, forgotten when deleted; estimates for lists."""

import asyncio

import pytest

from logdrive.services.iggy.server.log.partition_logs import PartitionLogs
from logdrive.services.numbering.checkpoint import PREFIX
from logdrive.services.numbering.opened import IDLE_SECONDS
from logdrive.services.numbering.segments import NumberedSegments
from logdrive.wire.iggy.errors import IggyError, Reason
from tests.logdrive.services.iggy.server.log.harness import append_raw, messages, sent
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run


def test_a_partition_is_opened_once_and_closed_when_it_is_idle() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            clock = VirtualClock()
            numbering = NumberedSegments(store, clock=clock)
            logs = PartitionLogs(numbering, clock=clock)
            first, second = await asyncio.gather(logs.open(SEGMENT), logs.open(SEGMENT))
            assert first is second
            closing = asyncio.create_task(logs.run())
            await asyncio.sleep(2 * IDLE_SECONDS)
            closing.cancel()
            assert logs.get(SEGMENT) is None
            with pytest.raises(IggyError):
                await first.append(sent(b"a"))
            with pytest.raises(IggyError):
                await messages(first)
            assert (await (await logs.open(SEGMENT)).append(sent(b"a"))).first_offset == 0
            await logs.close()
            await numbering.close()

    run(main())


def test_what_is_no_partition_is_told_from_one_that_is_missing() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            await append_raw(store, b"any bytes at all")
            logs = PartitionLogs(
                NumberedSegments(store, clock=VirtualClock()), clock=VirtualClock()
            )
            for segment, reason in (
                (SEGMENT, Reason.FEATURE_UNAVAILABLE),
                ("a/b/0", Reason.PARTITION_NOT_FOUND),
            ):
                with pytest.raises(IggyError) as error:
                    await logs.open(segment)
                assert error.value.reason is reason
                assert logs.get(segment) is None

    run(main())


def test_a_deleted_partition_is_forgotten_with_its_index() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            numbering = NumberedSegments(store, clock=VirtualClock())
            logs = PartitionLogs(numbering, clock=VirtualClock())
            log = await logs.open(SEGMENT)
            await log.append(sent(b"a", b"b"))
            await log.purge()
            assert store.segments(PREFIX)
            await logs.forget(SEGMENT)
            await store.delete(SEGMENT)
            assert not store.segments(PREFIX)
            await store.create(SEGMENT)
            log = await logs.open(SEGMENT)
            assert (await log.append(sent(b"c"))).first_offset == 0
            await logs.close()
            await numbering.close()

    run(main())


def test_an_estimate_is_near_what_an_open_partition_says() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            logs = PartitionLogs(
                NumberedSegments(store, clock=VirtualClock()), clock=VirtualClock()
            )
            assert logs.estimate(SEGMENT) is None
            await store.create(SEGMENT)
            log = await logs.open(SEGMENT)
            assert logs.estimate(SEGMENT) == await log.figures()
            await log.append(sent(*[b"x"] * 10))
            assert logs.estimate(SEGMENT) == await log.figures()
            await store.truncate(SEGMENT, 4 * 9)
            assert logs.estimate(SEGMENT) == await log.figures()
            await logs.close()

    run(main())
