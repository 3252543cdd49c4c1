"""Offsets of consumers: durable before they are acknowledged, or written behind a poll."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator

import pytest

from logdrive.errors import TransientError
from logdrive.services.iggy.server.state.offsets import (
    OFFSETS_SEGMENT,
    ConsumerOffsets,
    consumer_key,
    group_key,
)
from logdrive.store.engine import Store
from tests.logdrive.store.harness import running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run

HERE, THERE = "logs/app/0.#epoch.0", "logs/app/1.#epoch.0"
ONE, NAMED, GROUP = consumer_key(1), consumer_key("1"), group_key(1)


@contextlib.asynccontextmanager
async def offsets_on(
    disk: MemoryDisk, *, slack: int = 1 << 20, segments: tuple[str, ...] = (HERE, THERE)
) -> AsyncIterator[tuple[Store, ConsumerOffsets]]:
    """Yield the offsets of a store that ends as in a crash."""
    async with running(disk, delay=0.001, clean=False) as store:
        for segment in segments:
            if store.info(segment) is None:
                await store.create(segment)
        offsets = ConsumerOffsets(store, clock=VirtualClock(), slack=slack)
        await offsets.start()
        task = asyncio.create_task(offsets.run(), name="offsets")
        try:
            yield store, offsets
        finally:
            task.cancel()
            await asyncio.wait([task])


def test_a_stored_offset_is_there_after_a_kill_each_consumer_and_group_for_itself() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with offsets_on(disk) as (_, offsets):
            await asyncio.gather(
                *(offsets.put(HERE, key, n) for n, key in enumerate((ONE, NAMED, GROUP)))
            )
            await offsets.put(THERE, ONE, 7)
            await offsets.put(THERE, NAMED, 8)
            await offsets.put(THERE, NAMED, None)
            disk = disk.killed()
        async with offsets_on(disk) as (_, offsets):
            assert [offsets.get(HERE, key) for key in (ONE, NAMED, GROUP)] == [0, 1, 2]
            assert offsets.get(THERE, ONE) == 7
            assert offsets.get(THERE, NAMED) is None

    run(main())


def test_what_a_poll_commits_is_in_force_at_once_and_durable_before_long() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with offsets_on(disk) as (store, offsets):
            offsets.note(HERE, ONE, 3)
            assert offsets.get(HERE, ONE) == 3
            before = store.info(OFFSETS_SEGMENT)
            for offset in range(4, 100):
                offsets.note(HERE, ONE, offset)
            await asyncio.sleep(1)
            after = store.info(OFFSETS_SEGMENT)
            assert before is not None
            assert after is not None
            # written together
            assert after.events - before.events == 1
            disk = disk.killed()
        async with offsets_on(disk) as (_, offsets):
            assert offsets.get(HERE, ONE) == 99

    run(main())


def test_the_latest_of_both_kinds_is_in_force() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with offsets_on(disk) as (_, offsets):
            offsets.note(HERE, ONE, 5)
            await offsets.put(HERE, ONE, 2)
            assert offsets.get(HERE, ONE) == 2
            storing = asyncio.create_task(offsets.put(HERE, ONE, 3))
            await asyncio.sleep(0)
            offsets.note(HERE, ONE, 9)
            await storing
            assert offsets.get(HERE, ONE) == 9
            await asyncio.sleep(1)
            disk = disk.killed()
        async with offsets_on(disk) as (_, offsets):
            assert offsets.get(HERE, ONE) == 9

    run(main())


def test_a_full_disk_is_told_and_what_polls_have_committed_is_written_later() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with offsets_on(disk) as (_, offsets):
            await offsets.put(HERE, ONE, 1)
            offsets.note(HERE, NAMED, 4)
            disk.fail_write(errno.ENOSPC)
            with pytest.raises(TransientError):
                await offsets.put(HERE, ONE, 2)
            assert offsets.get(HERE, ONE) == 1
            assert offsets.get(HERE, NAMED) == 4
            await asyncio.sleep(5)
            await offsets.put(HERE, ONE, 3)
            disk = disk.killed()
        async with offsets_on(disk) as (_, offsets):
            assert offsets.get(HERE, ONE) == 3
            assert offsets.get(HERE, NAMED) == 4

    run(main())


def test_offsets_in_segments_that_are_gone_are_forgotten_and_the_journal_stays_short() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with offsets_on(disk, slack=4096) as (store, offsets):
            for offset in range(300):
                await offsets.put(HERE, ONE, offset)
            await offsets.put(THERE, ONE, 1)
            await offsets.put(THERE, GROUP, 1)
            info = store.info(OFFSETS_SEGMENT)
            assert info is not None
            assert info.length - info.start < 2 * 4096
            await offsets.forget([THERE])
            assert offsets.get(THERE, ONE) is None
            await offsets.put(THERE, ONE, 2)
            await store.delete(THERE)
            disk = disk.killed()
        async with offsets_on(disk, segments=(HERE,)) as (_, offsets):
            assert offsets.get(THERE, ONE) is None
            assert offsets.get(HERE, ONE) == 299

    run(main())
