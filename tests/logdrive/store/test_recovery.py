"""Starts after crashes and damage: a torn tail is cut and reported, damage is refused.

Nothing acknowledged is lost.
"""

import asyncio
import errno
import struct
import zlib
from random import Random

import pytest

from logdrive.errors import StorageError
from logdrive.store.engine import Store
from logdrive.store.errors import StoreDamagedError
from logdrive.store.limits import StoreLimits
from logdrive.store.log.format import ENTRY_HEAD, FILE_HEAD, VERSION
from tests.logdrive.store.harness import (
    ABSENT,
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
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run

INDEX, OLDER = f"{PATH}/index", f"{PATH}/index.old"
SMALL = StoreLimits(log_file=1000)
TO_THE_BYTE = StoreLimits(direct=False)
CREATED = FILE_HEAD + ENTRY_HEAD + len(SEGMENT)  # where the first append of `filled` stands


def place(batches: list[bytes], number: int) -> int:
    """Return the position of entry *number*, from 0, of `filled` in the first file."""
    return CREATED + sum(ENTRY_HEAD + len(batch) for batch in batches[:number])


def test_a_tail_torn_at_any_byte_is_cut_and_told() -> None:
    async def main() -> None:
        batches = [b"first", b"second"]
        whole = MemoryDisk()
        await filled(whole, batches)
        last, end = place(batches, 1), place(batches, 2)
        assert whole.stat(FIRST_FILE).size == end
        for size in range(last, end + 1):
            disk = whole.killed()
            disk.cut(FIRST_FILE, size)
            async with running(disk) as store:
                kept = 2 if size == end else 1
                assert content(store) == b"".join(batches[:kept])
                assert await store.number(SEGMENT, WRITER) == kept
                report = store.recovery
                torn = 0 < size - last < end - last
                assert (report.cut_bytes, report.cut_file, report.cut_offset) == (
                    (size - last, FIRST_FILE, last) if torn else (0, "", 0)
                )
                assert ("torn bytes cut" in str(report)) == torn
                await submit(store, b"again", 3)
            async with running(disk) as store:
                assert content(store) == b"".join(batches[:kept]) + b"again"

    run(main())


def test_a_bit_flipped_anywhere_before_the_last_group_is_refused_naming_file_and_offset() -> None:
    async def main() -> None:
        batches = [b"first", b"second", b"third"]
        whole = MemoryDisk()
        await filled(whole, batches)
        starts = [FILE_HEAD, *(place(batches, number) for number in range(3))]
        before = whole.content(FIRST_FILE)
        for offset in range(place(batches, 2)):
            disk = whole.killed()
            disk.flip_bit(FIRST_FILE, offset, offset % 8)
            damaged = disk.content(FIRST_FILE)
            with pytest.raises(StoreDamagedError, match=FIRST_FILE) as refused:
                await opened(disk)
            assert refused.value.offset == max([0, *(start for start in starts if start <= offset)])
            assert disk.content(FIRST_FILE) == damaged != before

    run(main())


def test_bit_flipped_in_last_group_is_cut_after_a_crash_but_refused_after_a_clean_stop() -> None:
    async def main() -> None:
        batches = [b"first", b"second"]
        for clean in (False, True):
            whole = MemoryDisk()
            await filled(whole, batches, clean=clean)
            for offset in range(place(batches, 1), place(batches, 2)):
                disk = whole.killed()
                disk.flip_bit(FIRST_FILE, offset)
                if clean and offset < place(batches, 1) + ENTRY_HEAD:
                    with pytest.raises(StoreDamagedError):
                        await opened(disk)
                    continue
                async with running(disk) as store:
                    # a start reads no data that the index covers; whoever reads it is told
                    if clean:
                        with pytest.raises(StoreDamagedError):
                            content(store)
                    else:
                        assert content(store) == b"first"

    run(main())


def test_the_end_of_a_group_without_its_beginning_is_a_torn_tail() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, TO_THE_BYTE, clean=False) as store:
            await store.create(SEGMENT)
            await submit(store, b"kept", 1)
            await store.number(SEGMENT, WRITER)
            start = disk.stat(FIRST_FILE).size
            group = [submit(store, bytes([65 + number]) * 50, number) for number in range(2, 6)]
            await group[-1]
        for entry in range(4):
            torn = disk.killed()
            for offset in range(20):
                torn.flip_bit(FIRST_FILE, start + entry * (ENTRY_HEAD + 50) + offset, 1)
            async with running(torn) as store:
                assert await store.number(SEGMENT, WRITER) == 1 + entry
                assert store.recovery.cut_offset == start + entry * (ENTRY_HEAD + 50)

    run(main())


def test_entries_of_a_history_that_was_cut_never_come_back() -> None:
    """A second crash undoes the cut of a start.

    The old tail follows the new entry, aligned, but does not link to it.
    """

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, TO_THE_BYTE, clean=False) as store:
            await store.create(SEGMENT)
            await submit(store, b"kept", 1)
            start = disk.stat(FIRST_FILE).size
            submit(store, b"aaaa", 2)
            await submit(store, b"bbbb", 3)
        old = disk.content(FIRST_FILE)
        torn = disk.killed()
        torn.cut(FIRST_FILE, start)
        async with running(torn, TO_THE_BYTE, clean=False) as store:
            await submit(store, b"cccc", 7)
        torn.write(FIRST_FILE, old[start + ENTRY_HEAD + 4 :], durable=True)
        async with running(torn) as store:
            assert content(store) == b"keptcccc"
            assert await store.number(SEGMENT, WRITER) == 7
            assert store.recovery.cut_bytes == ENTRY_HEAD + 4

    run(main())


def test_a_log_file_that_is_missing_or_cut_is_refused() -> None:
    async def main() -> None:
        whole = MemoryDisk()
        await filled(whole, [bytes(300)] * 9, SMALL)
        logs = [f"{PATH}/{name}" for name in whole.names(PATH) if name.startswith("log-")]
        assert len(logs) >= 3
        for path in logs[:-1]:
            gone = whole.killed()
            gone.remove(path)
            with pytest.raises(StoreDamagedError, match="missing"):
                await opened(gone, SMALL)
            short = whole.killed()
            short.cut(path, short.stat(path).size - 1)
            with pytest.raises(StoreDamagedError, match="cut"):
                await opened(short, SMALL)
        flipped = whole.killed()
        flipped.remove(INDEX)
        flipped.remove(OLDER)
        flipped.flip_bit(logs[0], flipped.stat(logs[0]).size - 1)
        with pytest.raises(StoreDamagedError, match="goes on in another file"):
            await opened(flipped, SMALL)

    run(main())


def test_a_roll_cut_short_at_any_byte_of_the_new_head_is_taken_back() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [bytes(200)] * 2)
        end = disk.stat(FIRST_FILE).size
        new = f"{PATH}/log-{end:016x}"
        copy = disk.killed()
        async with running(copy, StoreLimits(log_file=end)) as store:
            await submit(store, b"x", 3)
            rolled = copy.content(new)
        for size in range(FILE_HEAD + 1):
            torn = disk.killed()
            torn.write(new, rolled[:size], durable=True)
            async with running(torn) as store:
                assert store.info(SEGMENT).length == 400  # type: ignore[union-attr]
                assert store.recovery.cut_bytes == (size if size < FILE_HEAD else 0)
                await submit(store, b"again", 3)
            async with running(torn) as store:
                assert content(store).endswith(b"again")
        torn.flip_bit(FIRST_FILE, end - 1)
        torn.remove(INDEX)
        with pytest.raises(StoreDamagedError):
            await opened(torn)

    run(main())


def test_damage_before_a_file_begun_in_vain_is_still_damage() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first", b"second"])
        end = disk.stat(FIRST_FILE).size
        disk.write(f"{PATH}/log-{end:016x}", b"LOG", durable=True)
        disk.flip_bit(FIRST_FILE, end - 1)
        with pytest.raises(StoreDamagedError, match="covers"):
            await opened(disk)

    run(main())


def test_a_head_damaged_in_a_file_with_entries_is_refused_even_where_it_is_only_file() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        disk.flip_bit(FIRST_FILE, 3)
        with pytest.raises(StoreDamagedError, match="head is not whole"):
            await opened(disk)

    run(main())


def test_a_creation_cut_short_begins_anew() -> None:
    async def main() -> None:
        for size in (0, 1, FILE_HEAD - 1):
            disk = MemoryDisk([PATH])
            disk.write(FIRST_FILE, bytes(size), durable=True)
            async with running(disk) as store:
                assert store.recovery.index == "new"
                assert await store.create(SEGMENT)

    run(main())


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("harm", ["gone", "flipped", "cut", "empty", "older"])
def test_the_index_is_only_a_cache_as_long_as_nothing_was_freed(harm: str, both: bool) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [bytes(300)] * 4, SMALL, clean=True)
        older = disk.content(INDEX)  # the files that it tells of are removed later
        async with running(disk, SMALL) as store:
            for number in range(5, 9):
                await submit(store, b"%d" % number * 300, number)
            expected = (content(store), store.info(SEGMENT))
        if harm in ("gone", "older", "empty"):
            disk.remove(INDEX)
        if harm == "older":
            disk.write(INDEX, older)
        elif harm == "empty":
            disk.write(INDEX, b"")
        elif harm == "flipped":
            disk.flip_bit(INDEX, 40)
        elif harm == "cut":
            disk.cut(INDEX, disk.stat(INDEX).size - 1)
        if both:
            disk.remove(OLDER)
        async with running(disk, SMALL) as store:
            assert (content(store), store.info(SEGMENT)) == expected
            report = store.recovery
            assert report.index.replace(",", " ").split()[0] == {"gone": "missing"}.get(
                harm, "damaged"
            )
            assert ("index.old used" in report.index) == (not both)
            assert report.entries == (9 if both else 1)
            assert report.cut_bytes == 0

    run(main())


def test_an_index_that_knows_more_than_the_log_has_is_refused() -> None:
    async def main() -> None:
        batches = [b"first", b"second"]
        disk = MemoryDisk()
        await filled(disk, batches, clean=True)
        for size in range(place(batches, 0), place(batches, 2)):
            short = disk.killed()
            short.cut(FIRST_FILE, size)
            with pytest.raises(StoreDamagedError, match="the index covers"):
                await opened(short)
        disk.remove(FIRST_FILE)
        with pytest.raises(StorageError, match=r"log files.*are gone"):
            await opened(disk)

    run(main())


def test_an_index_of_another_history_is_not_used() -> None:
    """The store was restored from a backup, all but its index, and the log is another one now."""

    async def main() -> None:
        one, two = MemoryDisk(), MemoryDisk()
        await filled(one, [b"first", b"second"], clean=True)
        await filled(two, [b"FIRST", b"SECOND", b"THIRD"])
        two.write(INDEX, one.content(INDEX))
        async with running(two) as store:
            assert store.recovery.index == "does not fit the log"
            assert content(store) == b"FIRSTSECONDTHIRD"

    run(main())


def test_what_a_killed_process_left_in_the_page_cache_is_synced_before_it_is_told() -> None:
    """D2: SIGKILL between write and fdatasync, a start that reports the number, a power cut."""

    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        end = disk.stat(FIRST_FILE).size
        copy = disk.killed()
        async with running(copy, clean=False) as store:
            await submit(store, b"second", 2)
            tail = copy.content(FIRST_FILE)[end:]
        killed = disk.killed()
        killed.write(FIRST_FILE, tail)
        async with running(killed, clean=False) as store:
            assert await store.number(SEGMENT, WRITER) == 2
        for seed in range(20):
            async with running(killed.crash(Random(seed))) as store:
                assert await store.number(SEGMENT, WRITER) == 2

    run(main())


def test_the_directory_of_a_new_store_outlives_a_crash_with_what_was_acknowledged() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        store = await _deep(disk)
        await store.create(SEGMENT)
        await submit(store, b"first", 1)
        await store.close()
        for seed in range(20):
            again = await _deep(disk.crash(Random(seed)))
            assert content(again) == b"first"
            await again.close()

    async def _deep(disk: MemoryDisk) -> Store:
        store = await Store.open(
            "/a/b/c", disk=disk, executor=InlineExecutor(), clock=VirtualClock(), random=Random(1)
        )
        asyncio.get_running_loop().create_task(store.run(asyncio.Event()))
        return store

    run(main())


class _KilledAtSync(MemoryDisk):
    """A disk that is copied before each sync of a directory, as a SIGKILL would leave it."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[MemoryDisk] = []

    def sync_directory(self, path: str) -> None:
        self.copies.append(self.killed())
        super().sync_directory(path)


def test_name_file_begun_by_killed_process_synced_before_anything_in_acknowledged__D2() -> None:
    async def main() -> None:
        disk, limits = _KilledAtSync(), StoreLimits(log_file=3000)
        async with running(disk, limits, clean=False) as store:
            await store.create(SEGMENT)
            for number in range(1, 6):
                await submit(store, bytes(900), number)
        begun = 0
        for copy in disk.copies:
            begun += 1
            async with running(copy, limits, clean=False) as store:
                await store.create(SEGMENT)
                told = max(0, await store.number(SEGMENT, WRITER)) + 1
                await submit(store, b"more", told)
                after = [copy.crash(Random(seed)) for seed in range(8)]
            for crashed in after:
                async with running(crashed, limits) as store:
                    assert await store.number(SEGMENT, WRITER) == told
        assert begun > 3

    run(main())


def test_a_directory_that_can_not_be_used_is_told_in_one_error() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        disk.write(PATH, b"a file")
        with pytest.raises(StorageError, match=PATH):
            await opened(disk)
        full = MemoryDisk(capacity=10)
        with pytest.raises(StorageError, match="No space left"):
            await opened(full)
        full.capacity = None
        async with running(full) as store:
            assert await store.create(SEGMENT)
        sick = MemoryDisk()
        sick.fail_sync(errno.EIO)
        with pytest.raises(StorageError, match="Input/output error"):
            await opened(sick)

    run(main())


def test_a_log_of_a_version_not_known_is_refused_by_number() -> None:
    async def main() -> None:

        disk = MemoryDisk([PATH])
        head = struct.pack("<8sII16sq24x", b"LOGDRIVE", VERSION + 1, 0, bytes(16), 0)
        disk.write(
            FIRST_FILE, head[:12] + struct.pack("<I", zlib.crc32(head)) + head[16:], durable=True
        )
        with pytest.raises(StorageError, match=f"log format {VERSION + 1}"):
            await opened(disk)

    run(main())


def test_absent_numbers_stay_absent_over_a_start() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first"])
        async with running(disk) as store:
            await store.update(SEGMENT, WRITER, 1, ABSENT)
        async with running(disk) as store:
            assert await store.number(SEGMENT, WRITER) == ABSENT

    run(main())
