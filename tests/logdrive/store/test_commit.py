"""Group commit: one write and one sync for all pending changes, in the order of submission."""

import asyncio
import errno
from random import Random

import pytest

from logdrive.host import faults
from logdrive.store.limits import StoreLimits
from tests.logdrive.store.harness import SEGMENT, WRITER, content, running, submit
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


def _counting_syncs() -> list[str]:
    passed: list[str] = []
    faults.on_reach = passed.append
    return passed


def test_what_comes_during_a_sync_shares_the_next_one() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            await store.create(SEGMENT)
            passed = _counting_syncs()
            order: list[int] = []
            futures: list[asyncio.Future[int]] = []
            for number in range(1, 101):
                futures.append(future := submit(store, b"%d," % number, number))
                future.add_done_callback(lambda done: order.append(futures.index(done) + 1))
                if number == 1:
                    await asyncio.sleep(0.5)  # the first is on its way alone
            await futures[-1]
            await asyncio.sleep(0)
            assert passed.count("store.commit.after_sync") == 2
            assert order == list(range(1, 101))
            assert content(store) == b"".join(b"%d," % number for number in order)

    try:
        run(main())
    finally:
        faults.on_reach = None


def test_a_group_has_a_size_that_one_sync_should_carry_but_takes_a_larger_entry_alone() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), StoreLimits(group=1000)) as store:
            await store.create(SEGMENT)
            passed = _counting_syncs()
            futures = [
                submit(store, bytes(size), number)
                for number, size in enumerate((400, 400, 400, 3000, 100, 700), 1)
            ]
            await asyncio.gather(*futures)
            # 400 + 400, 400, 3000, 100 + 700, each with 88 of its own
            assert passed.count("store.commit.after_sync") == 4

    try:
        run(main())
    finally:
        faults.on_reach = None


def test_a_group_is_told_of_as_soon_as_it_is_durable_while_the_next_is_being_written() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=1.0) as store:
            await store.create(SEGMENT)
            first = submit(store, b"first", 1)
            await asyncio.sleep(0.5)
            second = submit(store, b"second", 2)
            await asyncio.sleep(1.0)
            assert (first.done(), second.done()) == (True, False)
            assert (store.attribute(SEGMENT, WRITER), content(store)) == (1, b"first")
            await second
            assert (store.attribute(SEGMENT, WRITER), content(store)) == (2, b"firstsecond")

    run(main())


def test_data_is_released_once_its_group_has_it_unless_a_reader_will_want_it() -> None:
    """Writers of large batches would take twice the memory until the disk is done."""

    async def main() -> None:
        async with running(MemoryDisk(), StoreLimits(group=1000), delay=1.0) as store:
            commit = store._commit

            def held() -> list[bytes]:
                pending = (*commit._writing, *commit._open, *commit._queue)
                return [b"".join(write.entry.parts)[:1] for write in pending]

            await store.create(SEGMENT)
            for number in range(1, 5):
                last = submit(store, b"%d" % number * 500, number)
                await asyncio.sleep(0)
            # one is being written, one in the next group, and two wait
            assert held() == [b"", b"", b"3", b"4"]
            await last
            assert content(store) == b"".join(b"%d" % number * 500 for number in range(1, 5))

            store.follow_tail(SEGMENT, 2000)
            last = submit(store, b"5", 5)
            assert held() == [b"5"]
            await last

    run(main())


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("after", [0, 70, 100_000])
@pytest.mark.parametrize("direct", [True, False])
def test_what_was_put_together_behind_a_group_that_failed_leaves_nothing_behind(
    failing: int, after: int, direct: bool
) -> None:
    """Its place in the log, and its link to the entry before, are those of a log never written."""
    limits = StoreLimits(direct=direct)

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, limits, delay=1.0, clean=False) as store:
            await store.create(SEGMENT)
            futures = []
            for number in range(1, 3 + failing):
                futures.append(submit(store, b"%d" % number * 200, number))
                await asyncio.sleep(0.9)
                if number == 1 + failing:
                    disk.fail_write(errno.ENOSPC, after=after)
            await asyncio.wait(futures)
            assert [future.exception() is None for future in futures] == [
                number < failing for number in range(2 + failing)
            ]
            expected = b"1" * 200 * failing
            assert content(store) == expected
            await submit(store, b"on", 9)
        async with running(disk.crash(Random(1)), limits) as store:
            assert content(store) == expected + b"on"
            assert store.recovery.cut_file == ""

    run(main())


def test_d2_power_cut_while_two_sessions_wait_for_one_sync() -> None:
    """A run is in the group commit, its source registers again, then the power goes."""

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, delay=1.0, clean=False) as store:
            await store.create(SEGMENT)
            await submit(store, b"first", 1)
            acknowledged, answer = (
                submit(store, b"second", 2),
                asyncio.create_task(store.number(SEGMENT, WRITER)),
            )
            after: list[MemoryDisk] = []

            def cut_power(point: str) -> None:
                if point == "store.commit.before_sync":
                    after.extend(disk.crash(Random(seed)) for seed in range(30))

            faults.on_reach = cut_power
            await asyncio.sleep(0.9)
            assert not acknowledged.done()
            assert not answer.done()
            assert await answer == 2
            faults.on_reach = None
        kept = set()
        for crashed in after:
            async with running(crashed) as store:
                number = await store.number(SEGMENT, WRITER)
                assert content(store) == {1: b"first", 2: b"firstsecond"}[number]
                kept.add(number)
        assert kept == {1, 2}

    try:
        run(main())
    finally:
        faults.on_reach = None
