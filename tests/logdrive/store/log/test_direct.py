"""A log past the page cache ends with zeros while it grows; a crash may leave them there."""

import asyncio
import contextlib
import resource
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from logdrive.errors import TransientError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.numbers import ABSENT
from logdrive.model.units import KIB, MIB
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.store.verify.verify import verify
from tests.logdrive.store.harness import PATH, SEGMENT, WRITER, content, running, submit
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
def test_the_zeros_that_fill_the_last_block_up_are_cut_without_a_word(size: int) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, clean=False) as store:
            await store.create(SEGMENT)
            await submit(store, bytes(size), 1)
        killed = disk.killed()
        assert not verify(killed, PATH).torn_bytes
        async with running(killed) as store:
            assert content(store) == bytes(size)
            assert store.recovery.cut_file == ""
            await submit(store, b"on", 2)
            assert content(store) == bytes(size) + b"on"

    run(main())


@contextlib.asynccontextmanager
async def real(path: Path, limits: StoreLimits = StoreLimits()) -> AsyncIterator[Store]:
    """Run a store on the machine's disk, with a sync thread."""
    executor = ThreadExecutor("sync")
    store = await Store.open(
        str(path), disk=SystemDisk(), executor=executor, clock=SystemClock(), limits=limits
    )
    task = asyncio.create_task(store.run(asyncio.Event()))
    try:
        yield store
    finally:
        await store.close()
        await task
        executor.close()


@contextlib.contextmanager
def at_most(what: int, value: int) -> Iterator[None]:
    """Limit this process to *value* of the resource *what*."""
    usual = resource.getrlimit(what)
    resource.setrlimit(what, (value, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, usual)


@pytest.mark.parametrize("before", [1, 2000, 4096 - 64 - 2 * 88 - len(SEGMENT)])
def test_what_a_disk_took_of_a_group_before_it_was_full_does_not_come_back_after_a_kill(
    tmp_path: Path, before: int
) -> None:
    """The group's first block exists already and takes whole entries, which were refused."""

    async def main() -> None:
        async with real(tmp_path / "store") as store:
            await store.create(SEGMENT)
            await submit(store, bytes(before), 1)
            (log,) = (tmp_path / "store").glob("log-*")
            with at_most(resource.RLIMIT_FSIZE, 4 * KIB if before < 3000 else 8 * KIB):
                refused = [submit(store, b"refused", 2), submit(store, bytes(100 * KIB), 3)]
                for future in refused:
                    with pytest.raises(TransientError, match="can't write"):
                        await future
            shutil.copytree(log.parent, tmp_path / "killed")
        async with real(tmp_path / "killed") as store:
            assert content(store) == bytes(before)

    asyncio.run(main())


@contextlib.contextmanager
def memory_for(more: int) -> Iterator[None]:
    """Limit this process to the memory it has, and *more* bytes."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        pytest.skip("only Linux tells how much memory a process has")
    with at_most(resource.RLIMIT_AS, pages * resource.getpagesize() + more):
        yield


def test_an_append_that_finds_no_memory_for_a_group_is_refused_as_if_it_had_not_come(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with real(tmp_path / "store", StoreLimits(group=64 * MIB)) as store:
            await store.create(SEGMENT)
            with (
                memory_for(32 * MIB),
                pytest.raises(TransientError, match="bytes for a group: Cannot allocate memory"),
            ):
                submit(store, b"none", 1)
            assert (
                store.submitted_number(SEGMENT, WRITER)
                == await store.number(SEGMENT, WRITER)
                == ABSENT
            )
            await submit(store, b"on", 2)
        async with real(tmp_path / "store") as store:
            assert content(store) == b"on"

    asyncio.run(main())


def test_what_waits_and_finds_no_memory_is_refused_once_what_is_under_way_is_told_of(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        data = bytes(64 * MIB)
        async with real(tmp_path / "store", StoreLimits(group=MIB, entry=64 * MIB)) as store:
            await store.create(SEGMENT)
            with memory_for(32 * MIB):
                futures = [
                    submit(store, some, number)
                    for number, some in enumerate((b"a", data, b"none"), 1)
                ]
                await asyncio.wait(futures)
            assert await futures[0] == 1
            for future in futures[1:]:
                with pytest.raises(
                    TransientError, match="bytes for a group: Cannot allocate memory"
                ):
                    await future
            assert (
                store.submitted_number(SEGMENT, WRITER) == await store.number(SEGMENT, WRITER) == 1
            )
            await submit(store, b"on", 2)
        async with real(tmp_path / "store") as store:
            assert content(store) == b"aon"

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("direct", [True, False])
def test_what_many_append_while_the_disk_writes_is_read_back_as_it_was(
    tmp_path: Path, seed: int, direct: bool
) -> None:
    random = Random(seed)
    limits = StoreLimits(
        group=random.choice((20 * KIB, 300 * KIB)),
        log_file=random.choice((300 * KIB, 2 * MIB)),
        direct=direct,
    )
    expected: dict[str, bytes] = {}

    async def write(store: Store, segment: str) -> None:
        await store.create(segment)
        written = []
        for number in range(1, 40):
            size = random.choice((0, 1, 88, 4095, 4096, random.randint(0, 60_000)))
            written.append(random.randbytes(size))
            future = submit(store, written[-1], number, segment=segment)
            if random.random() < 0.7:
                end = await future
                assert store.read(segment, end - size, size) == written[-1]
        await future
        expected[segment] = b"".join(written)

    async def main() -> None:
        async with real(tmp_path / "store", limits) as store:
            await asyncio.gather(*(write(store, f"segment {number}") for number in range(6)))
        found = verify(SystemDisk(), str(tmp_path / "store"))
        assert (found.damages, found.torn_bytes) == ([], 0)
        async with real(tmp_path / "store", limits) as store:
            assert {segment: content(store, segment) for segment in store.segments()} == expected

    asyncio.run(main())
