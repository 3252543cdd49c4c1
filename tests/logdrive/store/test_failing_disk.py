"""The store waits until a full disk has room; a failed sync is final."""

import asyncio
import errno
from random import Random
from typing import Any

import pytest

from logdrive.errors import StorageError, TransientError
from logdrive.model.numbers import ABSENT
from logdrive.store.errors import StoreDamagedError
from logdrive.store.limits import StoreLimits
from tests.logdrive.store.harness import (
    FIRST_FILE,
    OTHER,
    PATH,
    SEGMENT,
    WRITER,
    content,
    filled,
    opened,
    running,
    submit,
)
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


def test_a_full_disk_fails_what_is_pending_and_the_store_goes_on() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, delay=1.0) as store:
            await store.create(SEGMENT)
            await submit(store, b"kept", 1)
            disk.capacity = disk.stat(FIRST_FILE).size + 120
            writing = submit(store, bytes(200), 2)
            await asyncio.sleep(0.5)
            behind = submit(store, b"behind", 3)
            elsewhere = store.create("other")
            for future in (writing, behind, elsewhere):
                with pytest.raises(TransientError, match=r"can't write.*No space left"):
                    await future
            assert (
                store.submitted_number(SEGMENT, WRITER) == await store.number(SEGMENT, WRITER) == 1
            )
            assert content(store) == b"kept"
            assert store.segments() == [SEGMENT]
            # what fits goes in, from the number that stands
            assert await submit(store, b" small", 5) == 10
            disk.capacity = None
            assert await submit(store, bytes(200), 6) == 210
            assert await store.create("other")
        async with running(disk) as store:
            assert content(store) == b"kept small" + bytes(200)
            assert store.recovery.cut_bytes == 0

    run(main())


def test_bytes_of_a_failed_write_are_pending_no_more() -> None:
    """Otherwise each failure would use up room for good, until the store refuses everything."""

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, StoreLimits(pending=10_000), delay=1.0) as store:
            await store.create(SEGMENT)
            for _ in range(3):
                disk.fail_write(errno.ENOSPC, after=0)
                writing = submit(store, bytes(4_000), 1)
                await asyncio.sleep(0.5)
                queued = submit(store, bytes(4_000), 2)
                for future in (writing, queued):
                    with pytest.raises(TransientError, match="No space left"):
                        await future
            assert await submit(store, bytes(4_000), 1) == 4_000
            both = submit(store, bytes(4_000), 2), submit(store, bytes(4_000), 3)
            assert [await one for one in both] == [8_000, 12_000]

    run(main())


@pytest.mark.parametrize("after", [0, 1, 87, 88, 89, 100])
def test_a_write_that_fails_after_any_byte_leaves_nothing_behind(after: int) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            await store.create(SEGMENT)
            disk.fail_write(errno.EIO, after=after)
            with pytest.raises(TransientError, match="Input/output error"):
                await submit(store, bytes(50), 1)
            await submit(store, b"good", 2)
        async with running(disk) as store:
            assert content(store) == b"good"

    run(main())


def test_a_roll_on_a_full_disk_fails_until_there_is_room() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, StoreLimits(log_file=600)) as store:
            await store.create(SEGMENT)
            await submit(store, bytes(250), 1)
            used = sum(disk.stat(f"{PATH}/{name}").size for name in disk.names(PATH))
            for capacity in (used, used + 30):
                disk.capacity = capacity
                # the small one would fit in the old file, but no log may go on beside a new file's
                # name
                for size in (200, 1):
                    with pytest.raises(TransientError, match="can't create"):
                        await submit(store, bytes(size), 2)
                assert disk.names(PATH) == ["lock", FIRST_FILE.rpartition("/")[2]]
            disk.capacity = None
            await submit(store, bytes(200), 2)
            assert store.info(SEGMENT).length == 450  # type: ignore[union-attr]
        async with running(disk) as store:
            assert store.info(SEGMENT).length == 450  # type: ignore[union-attr]

    run(main())


def test_an_index_that_does_not_fit_on_the_disk_costs_only_a_longer_start() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            await store.create(SEGMENT)
            await submit(store, b"kept", 1)
            disk.capacity = disk.stat(FIRST_FILE).size + 10
        assert "index.new" not in disk.names(PATH)
        async with running(disk) as store:
            assert (store.recovery.index, content(store)) == ("missing", b"kept")

    run(main())


def test_a_failed_sync_is_final() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"kept"])
        store = await opened(disk)
        task = asyncio.create_task(store.run(asyncio.Event()))
        disk.fail_sync()
        waiting = asyncio.create_task(store.wait_for_data(SEGMENT, 100, 60.0))
        asking = asyncio.create_task(store.number(SEGMENT, WRITER))
        futures = [submit(store, b"lost", 2), submit(store, b"lost", 3)]
        await asyncio.sleep(0)
        with pytest.raises(
            StorageError, match=rf"{FIRST_FILE} could not be synced: Input/output error"
        ):
            await task
        broken_ones: list[asyncio.Future[Any]] = [*futures, waiting, asking]
        for broken in broken_ones:
            with pytest.raises(StorageError):
                await broken
        for ask in (
            lambda: submit(store, b"x", 4),
            lambda: store.create("other"),
            lambda: store.read(SEGMENT, 0, 1),
        ):
            with pytest.raises(StorageError):
                ask()
        with pytest.raises(StorageError):
            await store.number(SEGMENT, WRITER)
        await store.close()
        assert "index" not in disk.names(PATH)
        return await _nothing_unsynced_is_believed(disk)

    async def _nothing_unsynced_is_believed(disk: MemoryDisk) -> None:
        """The next process would find in the page cache what the disk never got, and sync it to no
        effect.
        """
        for found in (disk.killed(), disk.crash(Random(1))):
            async with running(found, clean=False) as store:
                assert await store.number(SEGMENT, WRITER) == 1
            async with running(found.crash(Random(2))) as store:
                assert content(store) == b"kept"

    run(main())


@pytest.mark.parametrize("syncs_before", [0, 1])
def test_a_sync_that_fails_in_a_roll_is_final(syncs_before: int) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [bytes(400)])
        store = await opened(disk, StoreLimits(log_file=500))
        task = asyncio.create_task(store.run(asyncio.Event()))
        for _ in range(syncs_before):
            disk.fail_sync(0)
        disk.fail_sync()
        future = submit(store, bytes(400), 2)
        with pytest.raises(StorageError, match="could not be synced"):
            await task
        with pytest.raises(StorageError):
            await future
        async with running(disk.killed()) as store:
            assert await store.number(SEGMENT, WRITER) == 1

    run(main())


def test_damage_met_by_a_reader_is_named_and_the_rest_stays_readable() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        # so that the last byte is data
        async with running(disk, StoreLimits(direct=False)) as store:
            await store.create(SEGMENT)
            for number in range(1, 4):
                await submit(store, b"%d" % number * 10, number)
            end = disk.stat(FIRST_FILE).size
            disk.flip_bit(FIRST_FILE, end - 100)  # in the second
            assert store.read(SEGMENT, 0, 10) == b"1" * 10
            assert store.read(SEGMENT, 20, 10) == b"3" * 10
            for offset, limit in ((0, 30), (10, 1), (19, 5)):
                with pytest.raises(StoreDamagedError, match=FIRST_FILE):
                    store.read(SEGMENT, offset, limit)
            await submit(store, b"on", 4, writer=OTHER)
            assert store.submitted_number(SEGMENT, OTHER) == 4
            disk.remove(FIRST_FILE)
            assert store.read(SEGMENT, 30, 10) == b"on"

    run(main())


def test_nothing_is_known_of_a_writer_whose_first_run_failed() -> None:
    """Two first runs are in flight; the first fails, and the second is not stored (P2, D3)."""

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, StoreLimits(group=1), delay=1.0) as store:
            await store.create(SEGMENT)
            disk.fail_write(errno.ENOSPC)
            runs = [submit(store, b"first", 10), submit(store, b"second", 20)]
            for future in runs:
                with pytest.raises(TransientError):
                    await future
            assert await store.number(SEGMENT, WRITER) == ABSENT
            assert content(store) == b""

    run(main())


def test_a_write_taken_back_does_not_come_back_before_the_next_file() -> None:
    """The cut must be durable before a file begins there, or a crash leaves overlapping files."""

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, StoreLimits(log_file=400), clean=False) as store:
            await store.create(SEGMENT)
            disk.fail_write(errno.ENOSPC, after=64)
            with pytest.raises(TransientError):
                await submit(store, bytes(50), 1)
            await submit(store, bytes(200), 2)
            assert len(disk.names(PATH)) > 2
        for seed in range(20):
            async with running(disk.crash(Random(seed))) as store:
                assert await store.number(SEGMENT, WRITER) == 2

    run(main())


def test_whichever_sync_fails_nothing_acknowledged_is_lost_and_nothing_else_believed() -> None:
    """The sync of the log, a new file, a directory or an index fails while files are reclaimed."""
    limits = StoreLimits(log_file=1500, copy=300)
    told = 0

    async def life(disk: MemoryDisk) -> None:
        nonlocal told
        async with running(disk, limits) as store:
            for name in ("kept", SEGMENT):
                await store.create(name)
            for number in range(1, 14):
                await submit(store, b"kept", number, segment="kept", writer=OTHER)
                told = number
                await store.truncate(SEGMENT, await submit(store, bytes(700), number))

    async def found(disk: MemoryDisk) -> int:
        async with running(disk, limits) as store:
            number = max(0, await store.number("kept", OTHER)) if "kept" in store.segments() else 0
            assert not number or content(store, "kept") == b"kept" * number
            await store.create("after")
        return number

    async def main() -> None:
        nonlocal told
        good = final = 0
        while True:
            disk, told = MemoryDisk(), 0
            for _ in range(good):
                disk.fail_sync(0)
            disk.fail_sync()
            try:
                await life(disk)
            except StorageError:
                final += 1
            if disk._sync_failures:
                break
            for after in (disk.killed(), disk.crash(Random(good))):
                assert told <= await found(after) <= told + 1, good
            good += 1
        assert final > 40
        assert good > final, "an index that can't be synced ends nothing"

    run(main())
