"""Group commit: one write and one sync for all that came meanwhile, in the order in which it came."""

import asyncio
from random import Random

from logdrive import faults
from logdrive.limits import StoreLimits
from tests.logdrive.store.harness import SEGMENT, WRITER, content, running, submit
from tests.support.memory_disk import MemoryDisk
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
            futures = [submit(store, bytes(size), number) for number, size in enumerate((400, 400, 400, 3000, 100, 900), 1)]
            await asyncio.gather(*futures)
            assert passed.count("store.commit.after_sync") == 4  # 400 + 400, 400, 3000, 100 + 900

    try:
        run(main())
    finally:
        faults.on_reach = None


def test_d2_power_cut_while_two_sessions_wait_for_one_sync() -> None:
    """History 1 of the delivery rules: a run is in the group commit, its source registers anew, then the power goes."""

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, delay=1.0, clean=False) as store:
            await store.create(SEGMENT)
            await submit(store, b"first", 1)
            acknowledged, answer = submit(store, b"second", 2), asyncio.create_task(store.number(SEGMENT, WRITER))
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
