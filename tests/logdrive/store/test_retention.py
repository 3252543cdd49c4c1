"""Retention cuts off the oldest whole batches (S6), and nothing that a named reader needs."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from logdrive.model.batch import BatchHeader
from logdrive.model.framing import frame_event, frame_events
from logdrive.model.numbers import ABSENT
from logdrive.model.records import block_record
from logdrive.store.boundaries import boundary_after
from logdrive.store.engine import Store
from logdrive.store.errors import SegmentSealedError
from logdrive.store.limits import StoreLimits
from logdrive.store.log.format import ENTRY_HEAD
from logdrive.store.readers import reader_key
from logdrive.store.retention import (
    EVERY_SECONDS,
    Policy,
    Retention,
    first_matching,
    retained_stream,
)
from logdrive.store.running import Failure
from logdrive.store.running import open_store as store_running
from tests.logdrive.store.harness import FIRST_FILE, OTHER, PATH, SEGMENT, WRITER, running, submit
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run

SECOND = "logs/app/1.#epoch.0"
FOREIGN = "logs/foreign/0.#epoch.0"
ALL = ("*/*",)
LIMITS = StoreLimits(log_file=10_000)


def batch(records: Sequence[bytes]) -> bytes:
    """Return one batch as a receiver appends it."""
    data = frame_events(records)
    header = BatchHeader(
        kind="data",
        source="00" * 16,
        previous=0,
        position=1,
        records=len(records),
        events=1,
        size=len(data),
        received=1,
        store="00" * 16,
    )
    return frame_event(header.encode()) + data


def some_batch(number: int, size: int = 300) -> bytes:
    return batch(
        [
            block_record(number, number + 1, 1, "x" * size),
            block_record(number + 1, number + 2, 1, "y" * (number % 50)),
        ]
    )


async def applied(store: Store, *policies: Policy) -> None:
    await Retention(store, first_matching(policies), VirtualClock()).apply_policies()


def span(store: Store, segment: str = SEGMENT) -> tuple[int, int]:
    info = store.info(segment)
    assert info is not None
    return info.start, info.length


async def batches(store: Store, segment: str, count: int, pause: float = 0.0) -> list[int]:
    """Append *count* batches, and return 0 and where each ends."""
    await store.create(segment)
    ends = [0]
    for number in range(1, count + 1):
        await asyncio.sleep(pause)
        ends.append(await submit(store, some_batch(number), number, segment=segment))
    return ends


def test_a_size_keeps_the_newest_batches_of_all_segments_together__S6() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            old = await batches(store, SEGMENT, 10, 1.0)
            new = await batches(store, SECOND, 10, 1.0)
            kept = new[-1] + 1000
            await applied(store, Policy("logs/app", max_bytes=kept))
            (start, end), second = span(store), span(store, SECOND)
            assert start in old
            assert kept - 1000 < end - start + second[1] <= kept, "as much as fits"
            assert second == (0, new[-1]), "what came later is not touched"
            await applied(store, Policy("logs/app", max_bytes=500))
            assert span(store) == (end, end)
            assert span(store, SECOND)[0] in new
            assert await store.number(SEGMENT, WRITER) == 10, "numbers stay (S4)"

    run(main())


@pytest.mark.parametrize("newest", range(1, 13))
def test_oldest_batch_goes_first_whichever_segment_has_it_and_whichever_was_made_first(
    newest: int,
) -> None:
    """Both get batches in turns, two at a time; the first has the newer two of each four."""

    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            await store.create(SECOND)
            order, ends = [SECOND, SECOND, SEGMENT, SEGMENT] * 3, dict[str, list[int]]()
            for number, segment in enumerate(order, 1):
                await asyncio.sleep(1.0)
                end = await submit(store, some_batch(number), number, segment=segment)
                ends.setdefault(segment, [0]).append(end)
            kept, starts = 0, {segment: list(reversed(places)) for segment, places in ends.items()}
            for segment in reversed(order[-newest:]):
                end = starts[segment].pop(0)
                kept += end - starts[segment][0]
            await applied(store, Policy("logs/app", max_bytes=kept))
            for segment in (SEGMENT, SECOND):
                assert span(store, segment) == (starts[segment][0], ends[segment][-1])

    run(main())


def test_an_age_cuts_what_was_stored_before__S6() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            ends = await batches(store, SEGMENT, 10, 60.0)
            await applied(store, Policy("*/*", max_age_ms=150_000))
            assert span(store) == (ends[7], ends[10])
            await asyncio.sleep(3600)
            await applied(store, Policy("*/*", max_age_ms=150_000))
            assert span(store) == (ends[10], ends[10])

    run(main())


def test_the_age_of_what_was_copied_forward_is_that_of_its_append() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, StoreLimits(log_file=4000, copy=500)) as store:
            ends = await batches(store, SEGMENT, 1)
            await store.create(FOREIGN)
            await asyncio.sleep(3600)
            for number in range(1, 60):
                length = await submit(store, bytes(900), number, segment=FOREIGN, writer=OTHER)
                await store.truncate(FOREIGN, length)
            assert FIRST_FILE not in disk.paths()
            await applied(store, Policy("*/*", max_age_ms=1_800_000))
            assert span(store) == (ends[1], ends[1])

    run(main())


def test_nothing_is_cut_that_a_named_reader_has_not_read() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            ends = await batches(store, SEGMENT, 10)
            await batches(store, SECOND, 2)
            policy = Policy("logs/app", max_bytes=1, readers=("pipeline", "copy"))
            await applied(store, policy)
            assert span(store)[0] == 0, "a reader never heard of needs everything"
            await store.update(SEGMENT, reader_key("pipeline"), ABSENT, ends[6])
            await applied(store, policy)
            assert span(store)[0] == 0
            await store.update(SEGMENT, reader_key("copy"), ABSENT, ends[3] + 5)
            await applied(store, policy)
            assert span(store)[0] == ends[3]
            assert span(store, SECOND)[0] == 0
            await store.seal(SEGMENT)
            assert await store.update(SEGMENT, reader_key("copy"), ends[3] + 5, ends[10]), (
                "on a sealed segment, too"
            )
            with pytest.raises(SegmentSealedError):
                store.update(SEGMENT, OTHER, None, 1)
            await applied(store, policy)
            assert span(store)[0] == ends[6]

    run(main())


def test_a_position_on_a_sealed_segment_outlives_a_crash() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, clean=False) as store:
            await batches(store, SEGMENT, 1)
            await store.seal(SEGMENT)
            await store.update(SEGMENT, reader_key("pipeline"), ABSENT, 100)
        async with running(disk) as store:
            assert store.attribute(SEGMENT, reader_key("pipeline")) == 100

    run(main())


def test_records_without_headers_are_cut_record_by_record_and_bytes_append_by_append() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            records = [b"{}", b"x" * 5000, b'{"logdrive":{"v":1,', b""]
            await store.create(SEGMENT)
            await store.create(SECOND)
            await submit(store, frame_events(records), 1)
            await submit(store, b"\x01 bytes of no records", 1, segment=SECOND)
            at, ends = 0, []
            while at < span(store)[1]:
                at = boundary_after(store, SEGMENT, at)
                ends.append(at)
            assert ends == [10, 5018, 5045, 5053]
            assert boundary_after(store, SECOND, 0) == span(store, SECOND)[1]

    run(main())


def test_a_header_that_claims_more_than_there_is_counts_as_a_record() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            lying = batch([b"x" * 5000])[:-100]
            await submit(store, lying, 1)
            assert boundary_after(store, SEGMENT, 0) == 8 + int.from_bytes(lying[4:8])

    run(main())


def test_a_damaged_batch_goes_with_the_others() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            ends = await batches(store, SEGMENT, 3)
            place = (
                disk.stat(FIRST_FILE).size - ENTRY_HEAD - (ends[3] - ends[2]) - (ends[2] - ends[1])
            )
            disk.flip_bit(FIRST_FILE, place + 4)
            assert boundary_after(store, SEGMENT, ends[1]) == ends[2]

    run(main())


@pytest.mark.parametrize("policy", [Policy("*/*", max_bytes=800), Policy("*/*", max_age_ms=3000)])
def test_a_damaged_head_of_an_append_holds_back_neither_its_own_stream_nor_others(
    policy: Policy,
) -> None:
    async def main() -> None:
        disk, ends = MemoryDisk(), {}
        async with running(disk) as store:
            for segment in (SEGMENT, FOREIGN):
                await store.create(segment)
                begin = disk.stat(FIRST_FILE).size
                ends[segment] = await batches(store, segment, 5, 1.0)
                if segment == SEGMENT:
                    disk.flip_bit(FIRST_FILE, begin + 50)
            await asyncio.sleep(1)
            await applied(store, policy)
            for segment in (SEGMENT, FOREIGN):
                assert span(store, segment)[0] in ends[segment][1:]

    run(main())


def test_a_stream_whose_index_is_damaged_does_not_hold_back_the_others() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS) as store:
            await batches(store, SEGMENT, 40)
        for path in [path for path in disk.paths() if "/extents-" in path]:
            disk.flip_bit(path, 60)
        async with running(disk, LIMITS) as store:
            ends = await batches(store, FOREIGN, 3)
            await applied(store, Policy("*/*", max_bytes=500))
            assert span(store)[0] == 0
            assert span(store, FOREIGN)[0] in ends[1:]

    run(main())


def test_other_streams_tables_and_transactions_are_left_alone() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            others = (
                FOREIGN,
                f"{SEGMENT}#transaction.{1:032x}",
                "logs/group_kvtable/0.#epoch.0",
                "_system/x/0.#epoch.0",
            )
            for segment in (SEGMENT, *others):
                await batches(store, segment, 2)
            await applied(
                store,
                Policy("logs/app", max_bytes=1),
                Policy("logs/foreign", max_bytes=1 << 40),
                Policy("*", max_bytes=1),
            )
            assert [span(store, segment)[0] for segment in others] == [0] * 4
            assert span(store)[0] > 0
            assert [retained_stream(segment) for segment in (SEGMENT, *others)] == [
                "logs/app",
                "logs/foreign",
                None,
                None,
                None,
            ]

    run(main())


@pytest.mark.parametrize("seed", range(10))
def test_running_store_with_retention_always_begins_with_batch_and_its_log_stays_small__S6(
    seed: int,
) -> None:
    async def main() -> None:
        random, disk, failure = Random(seed), MemoryDisk(), Failure()
        limits = StoreLimits(log_file=20_000, copy=4000)
        settings = {
            "disk": disk,
            "executor": InlineExecutor(0.001),
            "clock": VirtualClock(),
            "limits": limits,
        }
        numbers = 0
        for _ in range(3):
            policy = Policy("*/*", max_bytes=30_000)
            async with store_running(PATH, failure, **settings, retention=[policy]) as store:  # type: ignore[arg-type]
                for segment in (SEGMENT, SECOND):
                    await store.create(segment)
                for _ in range(200):
                    numbers += 1
                    await submit(
                        store,
                        some_batch(numbers, random.randrange(2000)),
                        numbers,
                        segment=random.choice((SEGMENT, SECOND)),
                    )
                    await asyncio.sleep(random.random())
                await asyncio.sleep(2 * EVERY_SECONDS)
                kept = 0
                for segment in (SEGMENT, SECOND):
                    start, end = span(store, segment)
                    assert start > 0
                    assert (
                        start == end or store.read(segment, start + 8, 18) == b'{"logdrive":{"v":1'
                    )
                    kept += end - start
                assert kept <= 30_000
                assert (
                    sum(disk.stat(path).size for path in disk.paths())
                    < 4 * 40_000 + 3 * limits.log_file
                )

    run(main())


def test_a_new_segment_is_not_taken_for_the_one_that_had_its_name() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            policy = Policy("*/*", max_age_ms=150_000)
            retention = Retention(store, first_matching([policy]), VirtualClock())
            await batches(store, SEGMENT, 2)
            await retention.apply_policies()
            await asyncio.sleep(3600)
            await store.delete(SEGMENT)
            ends = await batches(store, SEGMENT, 2)
            await retention.apply_policies()
            assert span(store) == (0, ends[2])

    run(main())
