"""Truncate, delete and merge: refusals, answers, what is read, and that it survives a crash."""

import asyncio
from random import Random
from zlib import crc32

import pytest

from logdrive.errors import TransientError
from logdrive.host import faults
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError, SegmentTruncatedError
from tests.logdrive.store.harness import (
    ABSENT,
    FIRST_FILE,
    OTHER,
    PATH,
    SEGMENT,
    WRITER,
    content,
    filled,
    running,
    submit,
)
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

SIDE = f"{SEGMENT}#transaction.{7:032x}"


def test_what_lies_before_the_start_is_gone_and_offsets_stay_what_they_are() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first", b"second", b"third"])
        async with running(disk, clean=False) as store:
            await store.truncate(SEGMENT, 7)
            info = store.info(SEGMENT)
            assert info is not None
            assert (info.start, info.length) == (7, 16)
            assert store.read(SEGMENT, 7, 100) == b"condthird"
            with pytest.raises(SegmentTruncatedError) as refused:
                store.read(SEGMENT, 6, 1)
            assert refused.value.start == 7
            assert await submit(store, b"!", 4) == 17
        async with running(disk, clean=False) as store:
            assert store.read(SEGMENT, 7, 100) == b"condthird!"
            assert await store.number(SEGMENT, WRITER) == 4
            await store.seal(SEGMENT)
            await store.truncate(SEGMENT, 17)  # a sealed one, and all of it
            assert store.read(SEGMENT, 17, 1) == b""
        async with running(disk) as store:
            info = store.info(SEGMENT)
            assert info is not None
            assert (info.start, info.length, info.sealed) == (17, 17, True)

    run(main())


def test_cut_outside_segment_refused_with_its_start_and_one_at_its_start_changes_nothing() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        async with running(disk, delay=1.0) as store:
            await store.truncate(SEGMENT, 2)
            size = disk.stat(FIRST_FILE).size
            await store.truncate(SEGMENT, 2)
            assert disk.stat(FIRST_FILE).size == size
            pending = submit(store, b"more", 2)
            for offset in (1, 10):
                with pytest.raises(SegmentTruncatedError) as refused:
                    store.truncate(SEGMENT, offset)
                assert refused.value.start == 2
            cut, again = store.truncate(SEGMENT, 9), store.truncate(SEGMENT, 9)
            assert not again.done()
            await asyncio.gather(pending, cut, again)
            assert store.read(SEGMENT, 9, 9) == b""
            with pytest.raises(NoSuchSegmentError):
                store.truncate("none", 0)

    run(main())


def test_a_deleted_segment_is_gone_with_its_numbers_and_its_name_is_free_again() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        async with running(disk, delay=1.0, clean=False) as store:
            deleted = store.delete(SEGMENT)
            with pytest.raises(NoSuchSegmentError):
                submit(store, b"x", 2)
            assert content(store) == b"first", "it is there as long as its end is not durable"
            anew = store.create(SEGMENT)
            assert store.submitted_number(SEGMENT, WRITER) == ABSENT
            appended = submit(store, b"anew", 1)
            assert await store.number(SEGMENT, WRITER) == 1
            await deleted
            assert (await anew, await appended) == (True, 4)
            with pytest.raises(NoSuchSegmentError):
                await store.delete("none")
        async with running(disk) as store:
            assert content(store) == b"anew"
            await store.delete(SEGMENT)
            assert store.segments() == []
            with pytest.raises(NoSuchSegmentError):
                await store.number(SEGMENT, WRITER)

    run(main())


def test_who_waits_at_the_tail_of_a_segment_hears_of_its_end() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        async with running(disk) as store:
            await store.create("other")
            tails = [
                asyncio.create_task(store.wait_for_data(name, length, 60))
                for name, length in ((SEGMENT, 5), ("other", 0))
            ]
            await asyncio.sleep(0.1)
            await store.merge("other", SEGMENT)
            with pytest.raises(NoSuchSegmentError):
                await tails[0]
            assert await tails[1]

    run(main())


def test_a_merge_puts_all_of_one_segment_at_the_end_of_another_and_ends_it() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        async with running(disk, delay=1.0, clean=False) as store:
            created = store.create(SIDE)
            parts = [
                submit(store, data, number, segment=SIDE, writer=OTHER)
                for number, data in enumerate((b"one", b"two"), 1)
            ]
            before = submit(store, b"|", 2)
            merged = store.merge(SEGMENT, SIDE)
            behind = submit(store, b"|end", 3)
            with pytest.raises(NoSuchSegmentError, match="transaction"):
                store.append(SIDE, b"x", writer=OTHER, expected=2, number=3, events=1)
            assert (await created, [await part for part in parts]) == (True, [3, 6])
            assert (await before, await merged, await behind) == (6, 12, 16)
            assert content(store) == b"first|onetwo|end"
            assert store.segments() == [SEGMENT]
            assert store.attribute(SEGMENT, OTHER) == ABSENT
        async with running(disk) as store:
            assert content(store) == b"first|onetwo|end"
            await store.create(SIDE)
            await submit(store, b"sealed", 1, segment=SIDE)
            await store.seal(SIDE)
            assert await store.merge(SEGMENT, SIDE) == 22
        async with running(disk) as store:
            assert content(store) == b"first|onetwo|endsealed"

    run(main())


def test_a_merge_is_refused_where_pravega_refuses_it() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        async with running(disk) as store:
            await store.create(SIDE)
            await submit(store, b"side", 1, segment=SIDE)
            with pytest.raises(NoSuchSegmentError, match="none"):
                store.merge(SEGMENT, "none")
            with pytest.raises(NoSuchSegmentError, match="none"):
                store.merge("none", SIDE)
            with pytest.raises(ValueError, match="itself"):
                store.merge(SIDE, SIDE)
            await store.truncate(SIDE, 1)
            with pytest.raises(SegmentTruncatedError):
                store.merge(SEGMENT, SIDE)
            await store.seal(SIDE)
            with pytest.raises(SegmentSealedError):
                store.merge(SIDE, SEGMENT)

    run(main())


def test_a_change_that_the_disk_did_not_take_is_as_if_it_had_never_been_asked_for() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        async with running(disk, delay=1.0) as store:
            await store.create("other")
            await submit(store, b"other", 1, segment="other")
            disk.fail_write()
            failed = [store.truncate(SEGMENT, 3), store.delete("other")]
            for future in failed:
                with pytest.raises(TransientError):
                    await future
            assert content(store) == b"first"
            assert await submit(store, b"!", 2, segment="other") == 6
            disk.fail_write()
            with pytest.raises(TransientError):
                await store.merge(SEGMENT, "other")
            assert await store.merge(SEGMENT, "other") == 11
            assert content(store) == b"firstother!"

    run(main())


def test_a_store_of_the_first_format_opens_and_goes_on_in_a_new_file() -> None:
    """An older program must not mistake an unknown entry for a torn tail, and cut it off."""

    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        _as_version_1(disk)
        async with running(disk, clean=False) as store:
            assert content(store) == b"first"
            assert [path for path in disk.paths() if "/log-" in path] == [FIRST_FILE]
            size = disk.stat(FIRST_FILE).size
            await store.truncate(SEGMENT, 2)
            assert [path for path in disk.paths() if "/log-" in path] == [
                FIRST_FILE,
                f"{PATH}/log-{size:016x}",
            ]
        async with running(disk) as store:
            assert store.read(SEGMENT, 2, 9) == b"rst"

    run(main())


def _as_version_1(disk: MemoryDisk) -> None:
    """Give the first file the head of the first format."""
    data = bytearray(disk.content(FIRST_FILE))
    data[8] = 1
    data[12:16] = bytes(4)
    data[12:16] = crc32(bytes(data[:64])).to_bytes(4, "little")
    disk.remove(FIRST_FILE)
    disk.write(FIRST_FILE, bytes(data), durable=True)


def test_a_merge_and_the_values_that_come_with_it_are_there_together_or_not_at_all() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        corpses: list[MemoryDisk] = []
        async with running(disk, clean=False) as store:
            await store.create(SIDE)
            await submit(store, b"side", 1, segment=SIDE)
            faults.on_reach = lambda point: corpses.extend(
                disk.crash(Random(seed)) for seed in range(8)
            )
            try:
                merged = store.merge(SEGMENT, SIDE, {WRITER: 7, OTHER: 9})
                assert store.submitted_number(SEGMENT, OTHER) == 9
                assert await submit(store, b"!", 8) == 10
                assert await merged == 9
            finally:
                faults.on_reach = None
            assert store.attribute(SEGMENT, OTHER) == 9
        outcomes = set()
        for corpse in [*corpses, disk]:
            async with running(corpse) as store:
                values = store.attribute(SEGMENT, WRITER), store.attribute(SEGMENT, OTHER)
                outcomes.add((content(store), values))
        assert outcomes == {
            (b"first", (1, ABSENT)),
            (b"firstside", (7, 9)),
            (b"firstside!", (8, 9)),
        }

    run(main())
