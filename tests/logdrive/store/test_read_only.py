"""A file system that becomes read-only: reads work, nothing unsaved is acknowledged."""

import asyncio
from pathlib import Path

import pytest

from logdrive.errors import StorageError, TransientError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import Disk, SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.store.verify.verify import verify
from tests.logdrive.store.harness import (
    FIRST_FILE,
    PATH,
    SEGMENT,
    WRITER,
    content,
    filled,
    opened,
    running,
    submit,
)
from tests.support.disks.ext4 import ext4
from tests.support.disks.remounted import RemountedDisk
from tests.support.disks.tmpfs import tmpfs
from tests.support.virtual_time import run

LIMITS = StoreLimits(log_file=1000)


async def refused(store: Store, size: int, number: int) -> None:
    with pytest.raises(TransientError, match="Read-only file system"):
        await submit(store, bytes(size), number)


@pytest.mark.parametrize("size", [10, 900], ids=["in the file that is open", "in a new file"])
def test_writes_are_refused_reads_served_and_all_goes_on_once_it_is_writable(size: int) -> None:
    async def main() -> None:
        disk = RemountedDisk()
        async with running(disk, LIMITS) as store:
            await store.create(SEGMENT)
            await submit(store, bytes(300), 1)
            for _ in range(3):
                disk.read_only = True
                for _ in range(3):
                    await refused(store, size, 100)
                with pytest.raises(TransientError):
                    await store.truncate(SEGMENT, 200)
                assert content(store)[:300] == bytes(300)
                number = await store.number(SEGMENT, WRITER)
                disk.read_only = False
                await submit(store, bytes(size), number + 1)
        async with running(disk.killed(), LIMITS) as store:
            assert content(store) == bytes(300 + 3 * size)
            assert await store.number(SEGMENT, WRITER) == 4

    run(main())


def test_files_are_freed_and_indexes_written_once_it_is_writable() -> None:
    async def main() -> None:
        disk = RemountedDisk()
        async with running(disk, LIMITS) as store:
            await store.create(SEGMENT)
            for number in range(1, 10):
                await submit(store, bytes(800), number)
            freeing = store.truncate(SEGMENT, 7000)
            await freeing
            disk.read_only = True
            await asyncio.sleep(60)
            assert content_from(store, 7000) == bytes(200)
            disk.read_only = False
            for number in range(10, 14):
                await submit(store, bytes(800), number)
            await asyncio.sleep(60)
            assert FIRST_FILE not in disk.paths()
        async with running(disk, LIMITS) as store:
            assert content_from(store, 7000) == bytes(3400)
        assert verify(disk, PATH).intact

    run(main())


def content_from(store: Store, offset: int) -> bytes:
    info = store.info(SEGMENT)
    assert info is not None
    return store.read(SEGMENT, offset, info.length)


def test_a_store_closes_without_its_disk_and_a_start_is_refused_in_one_line() -> None:
    async def main() -> None:
        disk = RemountedDisk()
        await filled(disk, [b"kept"])
        async with running(disk):
            disk.read_only = True
        with pytest.raises(StorageError, match=f"{PATH}.*Read-only file system"):
            await opened(disk)
        assert verify(disk, PATH).intact
        disk.read_only = False
        async with running(disk) as store:
            assert content(store) == b"kept"

    run(main())


# Real ones --------------------------------------------------------------------------------------


async def at(path: Path) -> tuple[Store, "asyncio.Task[None]", ThreadExecutor]:
    executor, disk = ThreadExecutor("store"), SystemDisk()
    store = await Store.open(str(path), disk=disk, executor=executor, clock=SystemClock())
    return store, asyncio.create_task(store.run(asyncio.Event())), executor


async def ended(store: Store, running: "asyncio.Task[None]", executor: ThreadExecutor) -> None:
    await store.close()
    await running
    executor.close()


def snapshot(disk: Disk, path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in disk.names(str(path))}


def test_a_mount_that_is_read_only_can_be_verified_and_refuses_a_start(tmp_path: Path) -> None:
    async def main(path: Path) -> bytes:
        store, task, executor = await at(path)
        if store.info(SEGMENT) is None:
            await store.create(SEGMENT)
            await submit(store, b"kept", 1)
        found = content(store)
        await ended(store, task, executor)
        return found

    with tmpfs(tmp_path / "disk", 4) as disk:
        path = disk.path / "store"
        asyncio.run(main(path))
        disk.remount("ro")
        before = snapshot(SystemDisk(), path)
        assert verify(SystemDisk(), str(path)).intact
        with pytest.raises(StorageError, match=f"{path} can't be used: Read-only file system"):
            asyncio.run(main(path))
        assert snapshot(SystemDisk(), path) == before
        disk.remount("rw")
        assert asyncio.run(main(path)) == b"kept"


def test_a_file_system_that_fails_under_a_running_store_costs_nothing_acknowledged(
    tmp_path: Path,
) -> None:
    async def broken(path: Path) -> None:
        store, task, executor = await at(path)
        await store.create(SEGMENT)
        await submit(store, b"kept", 1)
        disk.abort()
        await refused(store, 10, 2)
        assert content(store) == b"kept"
        assert await store.number(SEGMENT, WRITER) == 1
        await ended(store, task, executor)

    async def mended(path: Path) -> bytes:
        store, task, executor = await at(path)
        await submit(store, b" and on", 2)
        found = content(store)
        await ended(store, task, executor)
        return found

    with ext4(tmp_path) as disk:
        asyncio.run(broken(disk.path / "store"))
        disk.unmount()
        disk.mount()
        assert asyncio.run(mended(disk.path / "store")) == b"kept and on"
        assert verify(SystemDisk(), str(disk.path / "store")).intact
