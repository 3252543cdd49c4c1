"""Unneeded log files are removed, sparse ones after a copy, and no start misses them."""

import asyncio
import errno
from dataclasses import replace
from random import Random

import pytest
from structlog.testing import capture_logs

from logdrive.errors import TransientError
from logdrive.host import faults
from logdrive.store.engine import Store
from logdrive.store.errors import StoreDamagedError
from logdrive.store.limits import StoreLimits
from logdrive.store.reclaim import _Victim
from logdrive.store.verify.verify import verify
from tests.logdrive.store.harness import (
    FIRST_FILE,
    OTHER,
    PATH,
    SEGMENT,
    WRITER,
    opened,
    running,
    submit,
)
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

LIMITS = StoreLimits(log_file=4000, copy=500)
KEPT = "kept"
INDEXES = (f"{PATH}/index", f"{PATH}/index.old")


def logs(disk: MemoryDisk) -> list[str]:
    return [path for path in disk.paths() if "/log-" in path]


async def passing(store: Store, count: int, first: int = 1) -> None:
    """Append to SEGMENT, each batch in a group of its own, and truncate each at once."""
    for number in range(first, first + count):
        await store.truncate(SEGMENT, await submit(store, bytes(900), number))


async def created(store: Store) -> None:
    await store.create(KEPT)
    await store.create(SEGMENT)


def test_files_whose_bytes_are_all_cut_off_are_removed_as_the_log_grows() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS, clean=False) as store:
            await created(store)
            await passing(store, 200)
            assert len(logs(disk)) <= 4
            assert sum(disk.stat(path).size for path in disk.paths()) < 5 * LIMITS.log_file
        async with running(disk, LIMITS) as store:
            assert store.recovery.index == "used"
            info = store.info(SEGMENT)
            assert info is not None
            assert (info.start, info.length, await store.number(SEGMENT, WRITER)) == (
                180_000,
                180_000,
                200,
            )

    run(main())


def test_files_are_freed_without_more_writes_once_the_index_can_be_written_again() -> None:
    """The index could not be written for a while, so no older one covers the files."""

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS) as store:
            await created(store)
            for number in range(1, 40):
                if number > 20 and INDEXES[0] in disk.paths():
                    disk.remove(INDEXES[0])  # no index but the next is readable
                await submit(store, bytes(900), number)
            before = logs(disk)
            await store.truncate(SEGMENT, 39 * 900)
            await asyncio.sleep(1)
            assert logs(disk) == before[-1:]

    run(main())


def test_deleting_a_segment_frees_its_files_without_waiting_for_the_next_one() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS) as store:
            await created(store)
            for number in range(1, 40):
                await submit(store, bytes(900), number)
            before = logs(disk)
            await store.delete(SEGMENT)
            await asyncio.sleep(1)
            assert before[-1:] == logs(disk)

    run(main())


def test_a_small_segment_that_lives_long_is_copied_forward_and_holds_no_file() -> None:
    async def main() -> None:
        disk, expected = MemoryDisk(), b""
        async with running(disk, LIMITS, clean=False) as store:
            await created(store)
            for number in range(1, 50):
                data = b"%d," % number * 10
                expected += data
                await submit(store, data, number, segment=KEPT, writer=OTHER)
                await passing(store, 6, number * 6 - 5)
            assert store.read(KEPT, 0, 10_000) == expected
            assert FIRST_FILE not in logs(disk)
            assert (
                sum(disk.stat(path).size for path in logs(disk))
                < 4 * len(expected) + 5 * LIMITS.log_file
            )
        async with running(disk, LIMITS) as store:
            assert store.read(KEPT, 0, 10_000) == expected
            assert store.read(KEPT, 17, 100) == expected[17:117]
            assert await store.number(KEPT, OTHER) == 49

    run(main())


def test_one_search_finds_all_several_segments_have_in_file_at_offsets_of_their_own() -> None:
    """Long segments come first: the offset of the search in one must not be used for the next."""

    async def main() -> None:
        disk, parts = MemoryDisk(), {"long": 5, "middle": 2, "short": 1}
        async with running(disk, replace(LIMITS, copy=3)) as store:
            await store.create(SEGMENT)
            for name in parts:
                await store.create(name)
            for name, count in parts.items():
                for number in range(1, count + 1):
                    await submit(store, b"%02d" % number, number, segment=name, writer=OTHER)
            in_it = [base for base in store._index.files.bases if store._index.files.live[base]]
            assert in_it == [0]
            searched, choose = list[int](), store._reclaimer._choose_victim

            def chosen() -> _Victim | None:
                victim = choose()
                searched.extend([victim.base] if victim is not None else [])
                return victim

            store._reclaimer._choose_victim = chosen  # type: ignore[method-assign]
            await passing(store, 60)
            assert searched.count(0) == 1
            assert FIRST_FILE not in logs(disk)
            for name, count in parts.items():
                assert store.read(name, 0, 1000) == b"".join(
                    b"%02d" % number for number in range(1, count + 1)
                )

    run(main())


def test_the_handle_of_a_freed_file_is_given_back_and_no_other() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS) as store:
            await created(store)
            await submit(store, b"kept", 1, segment=KEPT, writer=OTHER)
            for number in range(1, 13):
                await submit(store, bytes(900), number)
            store.read(SEGMENT, 0, 20_000)
            first, others = store._reader._open[0], [base for base in store._reader._open if base]
            assert others
            await store.truncate(SEGMENT, 3 * 900)
            await passing(store, 12, 13)
            assert FIRST_FILE not in logs(disk)
            with pytest.raises(OSError, match="closed"):
                first.pread(1, 0)
            assert 0 not in store._reader._open
            assert store.read(KEPT, 0, 10) == b"kept"

    run(main())


def test_what_a_merge_moved_is_copied_forward_too() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS) as store:
            await created(store)
            await store.create("side")
            await submit(store, b"kept", 1, segment=KEPT, writer=OTHER)
            await submit(store, b" and merged", 1, segment="side", writer=OTHER)
            await store.merge(KEPT, "side")
            await passing(store, 50)
            assert FIRST_FILE not in logs(disk)
            assert store.read(KEPT, 0, 100) == b"kept and merged"

    run(main())


@pytest.mark.parametrize("harm", ["remove", "flip"])
def test_once_files_were_freed_either_index_is_enough_and_without_both_a_start_is_refused(
    harm: str,
) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS, clean=False) as store:
            await created(store)
            await submit(store, b"kept", 1, segment=KEPT, writer=OTHER)
            await passing(store, 100)
        for path in INDEXES:
            one = disk.killed()
            spoil(one, path, harm)
            async with running(one, LIMITS) as store:
                assert store.read(KEPT, 0, 100) == b"kept"
                assert await store.number(SEGMENT, WRITER) == 100
                await passing(store, 50, 101)
            async with running(one, LIMITS) as store:
                assert (store.recovery.index, store.read(KEPT, 0, 100)) == ("used", b"kept")
        for path in INDEXES:
            spoil(disk, path, harm)
        with pytest.raises(
            StoreDamagedError, match=r"was freed, and the index is .*restore index and index.old"
        ):
            await opened(disk, LIMITS)

    run(main())


def test_an_index_that_was_damaged_meanwhile_never_takes_the_place_of_a_good_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whenever the next index is written, a kill leaves one that a start can use."""
    left: list[MemoryDisk] = []

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS, clean=False) as store:
            await created(store)
            await submit(store, b"kept", 1, segment=KEPT, writer=OTHER)
            await passing(store, 100)
            disk.flip_bit(INDEXES[0], 30)
            with monkeypatch.context() as patched:
                patched.setattr(
                    faults,
                    "reach",
                    lambda point: left.append(disk.killed()) if "index" in point else None,
                )
                await passing(store, 20, 101)
        for one in left:
            async with running(one, LIMITS) as store:
                assert store.read(KEPT, 0, 100) == b"kept"

    run(main())
    assert len(left) >= 3


def spoil(disk: MemoryDisk, path: str, harm: str) -> None:
    if harm == "remove":
        disk.remove(path)
    else:
        disk.flip_bit(path, 30)


class _Unlisted(MemoryDisk):
    """A disk that can't list directories for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = 0
        self.failed = 0

    def names(self, directory: str) -> list[str]:
        if self.fails:
            self.fails -= 1
            self.failed += 1
            raise OSError(errno.EIO, "Input/output error")
        return super().names(directory)


def test_directory_cannot_be_listed_does_not_end_store_which_says_so_and_frees_later() -> None:
    async def main() -> None:
        disk = _Unlisted()
        async with running(disk, LIMITS, clean=False) as store:
            await created(store)
            await submit(store, b"kept", 1, segment=KEPT, writer=OTHER)
            await passing(store, 40)
        async with running(disk, LIMITS) as store:
            assert store.recovery.index == "used"
            disk.fails = 1
            with capture_logs() as logged:
                await passing(store, 40, 41)
            assert disk.failed == 1
            told = [entry for entry in logged if entry["event"].startswith("older index not read")]
            assert [(entry["store"], entry["reason"]) for entry in told] == [
                (PATH, "Input/output error")
            ]
            assert len(logs(disk)) <= 4

    run(main())


def test_a_missing_file_in_which_something_lives_is_refused_by_name() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS) as store:
            await created(store)
            for number in range(1, 20):
                await submit(store, bytes(900), number)
            await store.truncate(SEGMENT, 9 * 900)
            await asyncio.sleep(1)
        there = logs(disk)
        assert FIRST_FILE not in there
        for path in there[:-1]:
            one = disk.killed()
            one.remove(path)
            with pytest.raises(StoreDamagedError, match=r"missing|was freed") as refused:
                await opened(one, LIMITS)
            assert refused.value.path in there

    run(main())


def test_a_damaged_survivor_is_told_and_keeps_its_file_and_nothing_else() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        # so that the last byte is data
        async with running(disk, replace(LIMITS, direct=False)) as store:
            await created(store)
            await submit(store, b"kept", 1, segment=KEPT, writer=OTHER)
            disk.flip_bit(FIRST_FILE, disk.stat(FIRST_FILE).size - 1)
            await passing(store, 100)
            assert FIRST_FILE in logs(disk)
            assert len(logs(disk)) <= 5
            with pytest.raises(StoreDamagedError):
                store.read(KEPT, 0, 4)

    run(main())


def test_copies_that_the_disk_does_not_take_cost_nothing_but_time() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        random = Random(1)
        async with running(disk, LIMITS) as store:
            await created(store)
            await submit(store, b"kept", 1, segment=KEPT, writer=OTHER)
            number = 0
            for _ in range(300):
                number += 1
                if random.random() < 0.3:
                    disk.fail_write(after=random.randrange(100))
                try:
                    await passing(store, 1, number)
                except Exception:
                    number = await store.number(SEGMENT, WRITER)
            disk.mend()
            await passing(store, 250, number + 1)
            assert store.read(KEPT, 0, 4) == b"kept"
            assert len(logs(disk)) <= 6

    run(main())


@pytest.mark.parametrize(
    "point", [point for point in faults.POINTS if point.startswith(("store.free.", "store.index."))]
)
def test_power_cut_at_any_step_of_freeing_loses_nothing(point: str) -> None:
    async def main() -> None:
        left: list[MemoryDisk] = []
        disk, random = MemoryDisk(), Random(3)

        def reach(name: str) -> None:
            if name == point:
                left.append(disk.crash(random) if random.random() < 0.7 else disk.killed())

        faults.on_reach = reach
        try:
            async with running(disk, LIMITS) as store:
                await created(store)
                for number in range(1, 20):
                    await submit(store, b"kept", number, segment=KEPT, writer=OTHER)
                    await passing(store, 8, number * 8 - 7)
        finally:
            faults.on_reach = None
        assert left
        for after in left[:: len(left) // 15 + 1]:
            assert verify(after, PATH).intact
            async with running(after, LIMITS) as store:
                number = await store.number(KEPT, OTHER)
                assert store.read(KEPT, 0, 1000) == b"kept" * number
                await passing(store, 20, await store.number(SEGMENT, WRITER) + 1)
            async with running(after, LIMITS) as store:
                assert store.read(KEPT, 0, 1000) == b"kept" * number

    run(main())


@pytest.mark.parametrize("restarted", [False, True])
def test_cutting_off_makes_room_on_a_full_disk(restarted: bool) -> None:
    async def main() -> None:
        disk = MemoryDisk(capacity=40_000)

        async def fill(store: Store) -> None:
            while True:
                try:
                    await submit(store, bytes(900), max(0, await store.number(SEGMENT, WRITER)) + 1)
                except TransientError:
                    return

        async with running(disk, LIMITS, clean=False) as store:
            await created(store)
            await fill(store)
            before = logs(disk)
            if not restarted:
                await make_room(store, before)
        if restarted:
            disk.capacity = disk.used() + 200  # no room for another index
            async with running(disk, LIMITS) as store:
                await make_room(store, before)

    async def make_room(store: Store, before: list[str]) -> None:
        info = store.info(SEGMENT)
        assert info is not None
        await store.truncate(SEGMENT, info.length)
        await asyncio.sleep(1)
        for number in range(1000, 1010):
            await submit(store, bytes(900), number)
        assert store.read(SEGMENT, info.length, 9000) == bytes(9000)

    run(main())
