"""Reads of any range, across entries, other segments' entries and files, with few files open."""

import asyncio
from random import Random

import pytest

from logdrive.store.engine import Store
from logdrive.store.errors import SegmentTruncatedError, StoreDamagedError
from logdrive.store.limits import StoreLimits
from tests.logdrive.store.harness import FIRST_FILE, SEGMENT, WRITER, running, submit
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


@pytest.mark.parametrize(
    "limits",
    [
        StoreLimits(),
        StoreLimits(log_file=500, open_files=1, read_ahead=150),
        StoreLimits(read_ahead=1),
    ],
)
def test_any_range_over_entries_and_files_is_read_back(limits: StoreLimits) -> None:
    async def main() -> None:
        random, expected = Random(11), {SEGMENT: b"", "other": b""}
        async with running(MemoryDisk(), limits) as store:
            for name in expected:
                await store.create(name)
            for number in range(1, 80):
                name = random.choice(list(expected))
                data = random.randbytes(random.choice((0, 1, 30, 200, 900)))
                future = submit(store, data, number, segment=name)
                expected[name] += data
                if random.random() < 0.3:
                    await future
            await future
            for _ in range(300):
                name = random.choice(list(expected))
                offset, limit = (
                    random.randrange(len(expected[name]) + 5),
                    random.choice((0, 1, 8, 100, 1000, 1 << 30)),
                )
                assert store.read(name, offset, limit) == expected[name][offset : offset + limit]
            with pytest.raises(ValueError, match="negative"):
                store.read(SEGMENT, -1, 5)

    run(main())


def test_an_entry_read_in_small_pieces_is_read_and_checked_once() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            await store.create(SEGMENT)
            data = Random(1).randbytes(100_000)
            await submit(store, data, 1)
            assert b"".join(store.read(SEGMENT, at, 1000) for at in range(0, 100_000, 1000)) == data
            assert len(store._reader._kept) == 1

    run(main())


def test_the_rest_of_an_entry_is_what_was_checked_whatever_the_disk_does_meanwhile() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        # so that the last byte is data
        async with running(disk, StoreLimits(direct=False)) as store:
            await store.create(SEGMENT)
            data = Random(1).randbytes(10_000)
            await submit(store, data, 1)
            assert store.read(SEGMENT, 0, 10) == data[:10]
            disk.flip_bit(FIRST_FILE, disk.stat(FIRST_FILE).size - 1)
            assert store.read(SEGMENT, 10, 10_000) == data[10:]
            for number in range(2, 6):
                await submit(store, bytes(5 << 20), number)
                store.read(SEGMENT, store.info(SEGMENT).length - 1, 1)  # type: ignore[union-attr]
            assert (
                sum(map(len, store._reader._kept.values())) <= store._reader._kept_bytes <= 16 << 20
            )
            with pytest.raises(StoreDamagedError):
                store.read(SEGMENT, 10, 10_000)

    run(main())


def kept(store: Store) -> list[bytes]:
    return [bytes(data) for data in store._reader._kept.values()]


def test_only_segments_followed_are_kept_in_memory_and_not_what_store_reads_for_itself() -> None:
    """The log bypasses the page cache, so readers of a tail need it; others should not pay."""

    async def main() -> None:
        async with running(MemoryDisk()) as store:
            for name in (SEGMENT, "other"):
                await store.create(name)
                await submit(store, b"first of " + name.encode(), 1, segment=name)
            assert store.read("other", 0, 1 << 20) == b"first of other"
            waiting = asyncio.create_task(store.wait_for_data("other", 14, 60.0))
            store.follow_tail(SEGMENT, 0)
            store.follow_tail("gone since", 0)
            for number in (2, 3):
                await submit(store, b"%d" % number, number)
                await submit(store, b"%d of other" % number, number, segment="other")
            assert await waiting
            assert kept(store) == [b"2", b"3"]

    run(main())


def test_who_reads_far_behind_tail_keeps_nothing_there_that_would_be_gone_when_he_comes() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            for number in (1, 2):
                await submit(store, bytes(8 << 20), number)
            store.follow_tail(SEGMENT, 0)
            await submit(store, b"x", 3)
            assert kept(store) == []
            store.follow_tail(SEGMENT, 2)
            await submit(store, b"y", 4)
            assert kept(store) == [b"y"]

    run(main())


def test_what_was_kept_for_a_follower_goes_some_time_after_him() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            for name in (SEGMENT, "other"):
                await store.create(name)
            store.follow_tail(SEGMENT, 0)
            await asyncio.gather(*(submit(store, b"a", number) for number in range(1, 1002)))
            assert len(kept(store)) == 1000
            await asyncio.gather(
                *(submit(store, b"b", number, segment="other") for number in range(1, 1001))
            )
            assert kept(store) == []

    run(main())


def test_each_part_comes_with_the_time_of_its_append() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), StoreLimits(log_file=500, read_ahead=150)) as store:
            await store.create(SEGMENT)
            expected: list[tuple[int, bytes]] = []
            for number, size in enumerate((5, 200, 0, 90, 700), 1):
                data = bytes([number]) * size
                await store.append(
                    SEGMENT,
                    data,
                    writer=WRITER,
                    expected=None,
                    number=number,
                    events=1,
                    time_ms=1000 * number,
                )
                expected += [(1000 * number, data)] if size else []
            for _ in range(2):  # from the disk; then also what the partial reads kept
                parts = store.read_appends(SEGMENT, 0, 1 << 20)
                assert [(time_ms, bytes(part)) for time_ms, part in parts] == expected
                assert store.read_appends(SEGMENT, 100, 10) == [(2000, expected[1][1][:10])]
                assert store.read_appends(SEGMENT, 204, 2) == [
                    (2000, expected[1][1][-1:]),
                    (4000, expected[2][1][:1]),
                ]
            await store.truncate(SEGMENT, 100)
            with pytest.raises(SegmentTruncatedError):
                store.read_appends(SEGMENT, 99, 1)

    run(main())


def test_a_followed_append_is_kept_with_its_time() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            store.follow_tail(SEGMENT, 0)
            await store.append(
                SEGMENT, b"abc", writer=WRITER, expected=None, number=1, events=1, time_ms=77
            )
            assert len(store._reader._kept) == 1
            assert store.read_appends(SEGMENT, 0, 10) == [(77, b"abc")]

    run(main())
