"""Purge, deletion of segments, and expiry: offsets go on, and nothing goes too early."""

import asyncio
from uuid import UUID

import pytest

from logdrive.model.framing import EVENT_HEAD
from logdrive.services.iggy.server.log.expiry import MessageExpiry, TopicLimits
from logdrive.services.iggy.server.log.known_ids import Deduplication
from logdrive.services.iggy.server.log.partition_logs import PartitionLogs
from logdrive.services.numbering.segments import open_numbering
from logdrive.store.engine import Store
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.messages.envelope import StoredMessage
from tests.logdrive.services.iggy.server.log.harness import (
    append_raw,
    messages,
    partition,
    payloads,
    sent,
)
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run

OTHER = "logs/app/1.#epoch.0"
SECOND_US = 1_000_000


def test_after_a_purge_offsets_go_on() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with partition(disk) as (log, store):
            await log.append(sent(b"a", b"b", b"c"))
            await log.purge()
            info = store.info(SEGMENT)
            assert info is not None
            assert info.start == info.length
            assert await messages(log) == []
            figures = await log.figures()
            assert (figures.first_offset, figures.current_offset, figures.messages) == (3, 2, 0)
        async with partition(disk) as (log, _):
            assert (await log.append(sent(b"d"))).first_offset == 3
            assert [(one.offset, one.payload) for one in await messages(log)] == [(3, b"d")]

    run(main())


def test_a_purge_that_fails_has_deleted_nothing() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with partition(disk, Deduplication(), delay=0.01) as (log, _):
            batch = sent(StoredMessage(b"a", id=7))
            await log.append(batch)
            disk.capacity = disk.used()
            purging = asyncio.create_task(log.purge())
            while not purging.done():
                assert payloads(await messages(log)) == [b"a"]
                await asyncio.sleep(0.001)
            with pytest.raises(IggyError):
                await purging
            disk.capacity = None
            assert payloads(await messages(log)) == [b"a"]
            assert (await log.append(batch)).messages == 0
            await log.purge()
            assert await messages(log) == []

    run(main())


@pytest.mark.parametrize(("count", "left"), [(0, 100), (1, 90), (3, 70), (9, 10), (1000, 10)])
def test_segments_are_deleted_from_the_oldest_on_and_one_stays(count: int, left: int) -> None:
    async def main() -> None:
        async with partition() as (log, _):
            for n in range(100):
                await log.append(sent(b"%02d" % n))
            await log.delete_segments(count, 10 * (EVENT_HEAD + 2))
            assert len(await messages(log)) == left
            assert (await messages(log))[-1].payload == b"99"

    run(main())


async def filled(store: Store, logs: PartitionLogs) -> list[tuple[int, str, int]]:
    """Append to two partitions, one second between; return time (ms), segment, size of each."""
    clock, appended = VirtualClock(), []
    for segment in (SEGMENT, OTHER):
        await store.create(segment)
    for n in range(40):
        segment = (SEGMENT, SEGMENT, OTHER)[n % 3]
        log = await logs.open(segment)
        size = 10 + n
        await log.append(sent(*[b"x" * size] * 5))
        appended.append((clock.now_ms(), segment, 5 * (EVENT_HEAD + size)))
        await asyncio.sleep(1)
    return appended


def stored(store: Store) -> int:
    infos = [store.info(segment) for segment in (SEGMENT, OTHER)]
    return sum(info.length - info.start for info in infos if info is not None)


@pytest.mark.parametrize("seconds", [0, 1, 7, 39, 40, 100])
def test_messages_expire_by_age_whole_appends_and_never_early(seconds: int) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with (
            running(MemoryDisk()) as store,
            open_numbering(store, clock=clock) as numbering,
        ):
            logs = PartitionLogs(numbering, clock=clock)
            appended = await filled(store, logs)
            limits = TopicLimits("t", (SEGMENT, OTHER, "gone/t/0"), seconds * SECOND_US, None)
            expiry = MessageExpiry(store, logs, lambda: [limits], clock=clock)
            await expiry.apply()
            since = clock.now_ms() - 1000 * seconds
            kept = [one for one in appended if one[0] >= since]
            assert stored(store) == sum(size for _, _, size in kept)
            # offsets are those of before
            for segment in (SEGMENT, OTHER):
                total = 5 * sum(one[1] == segment for one in appended)
                left = 5 * sum(one[1] == segment for one in kept)
                log = await logs.open(segment)
                assert [one.offset for one in await messages(log)] == list(
                    range(total - left, total)
                )
            before = stored(store)
            await expiry.apply()
            assert stored(store) == before
            await logs.close()

    run(main())


@pytest.mark.parametrize("most", [0, 1, 100, 1000, 3000, 10**9])
def test_the_oldest_messages_of_a_topic_go_where_it_is_too_large(most: int) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with (
            running(MemoryDisk()) as store,
            open_numbering(store, clock=clock) as numbering,
        ):
            logs = PartitionLogs(numbering, clock=clock)
            appended = await filled(store, logs)
            limits = TopicLimits("t", (SEGMENT, OTHER), None, most)
            await MessageExpiry(store, logs, lambda: [limits], clock=clock).apply()
            # not less is left than may be, and no append more than that
            kept = sum(size for _, _, size in appended)
            for _, _, size in appended:
                if kept - size < most:
                    break
                kept -= size
            assert stored(store) == kept
            await logs.close()

    run(main())


def test_a_topic_without_limits_keeps_everything_and_one_that_fails_holds_up_no_other() -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with (
            running(MemoryDisk()) as store,
            open_numbering(store, clock=clock) as numbering,
        ):
            logs = PartitionLogs(numbering, clock=clock)
            await filled(store, logs)
            before = stored(store)
            third = "logs/bytes/0"
            await store.create(third)
            await store.append(
                third,
                b"no events at all",
                writer=UUID(int=3),
                expected=None,
                number=1,
                events=1,
            )
            await asyncio.sleep(100)
            nothing = TopicLimits("t", (SEGMENT, OTHER), None, None)
            broken = TopicLimits("bytes", (third,), SECOND_US, None)
            await MessageExpiry(store, logs, lambda: [broken, nothing], clock=clock).apply()
            assert stored(store) == before
            limited = TopicLimits("t", (SEGMENT, OTHER), SECOND_US, None)
            await MessageExpiry(store, logs, lambda: [broken, limited], clock=clock).apply()
            assert stored(store) == 0
            info = store.info(third)
            assert info is not None
            assert info.start == 0
            await logs.close()

    run(main())


def test_messages_of_other_faces_are_polled_after_others_truncated() -> None:
    async def main() -> None:
        async with partition() as (log, store):
            await append_raw(store, b"\0\0\0\0\0\0\0\1x" * 10, 10)
            await log.append(sent(b"own"))
            await store.truncate(SEGMENT, 4 * 9)
            found = await messages(log)
            assert [one.offset for one in found] == list(range(4, 11))
            assert payloads(found)[-1] == b"own"

    run(main())
