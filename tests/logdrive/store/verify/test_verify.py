"""`store verify` finds each damage and its place, nothing in a sound store; it changes nothing."""

import errno
import tracemalloc
from random import Random

import pytest
from msgspec.structs import replace

from logdrive.errors import StorageError
from logdrive.host.disk import FileStat
from logdrive.model.numbers import ABSENT
from logdrive.store.limits import StoreLimits
from logdrive.store.log.format import ENTRY_HEAD, FILE_HEAD
from logdrive.store.verify.verify import Verification, verify
from tests.logdrive.store.harness import (
    FIRST_FILE,
    OTHER,
    PATH,
    SEGMENT,
    WRITER,
    filled,
    running,
    submit,
)
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.virtual_time import run

LIMITS = StoreLimits(log_file=4000, copy=500)
INDEX, OLDER = f"{PATH}/index", f"{PATH}/index.old"
KEPT = "kept"


async def busy(disk: MemoryDisk, *, clean: bool, rounds: int = 30) -> None:
    """Leave a store in which something of everything was done, and log files were reclaimed."""
    async with running(disk, LIMITS, clean=clean) as store:
        await store.create(KEPT)
        await store.create(SEGMENT)
        for number in range(1, rounds):
            side = f"{KEPT}#transaction.{number:032x}"
            await store.create(side)
            await submit(store, b"side%d" % number, number, segment=side, writer=OTHER)
            await store.merge(KEPT, side)
            await submit(store, b"kept%d" % number, number, segment=KEPT, writer=OTHER)
            length = await submit(store, bytes(700), number)
            if number % 3 == 0:
                await store.truncate(SEGMENT, length - 300)
                await store.update(SEGMENT, OTHER, None, number)
        await store.create("gone")
        await store.delete("gone")
        await store.seal(SEGMENT)


def snapshot(disk: MemoryDisk) -> dict[str, bytes]:
    return {path: disk.content(path) for path in disk.paths()}


def places(found: Verification) -> list[tuple[str, int]]:
    return [(damage.file, damage.offset) for damage in found.damages]


@pytest.mark.parametrize("clean", [True, False])
def test_a_whole_store_is_intact_and_stays_as_it_is(clean: bool) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await busy(disk, clean=clean)
        before = snapshot(disk)
        assert FIRST_FILE not in before
        told: list[tuple[int, int]] = []
        found = verify(disk, PATH, lambda done, whole: told.append((done, whole)))
        assert (found.damages, found.torn_bytes, found.held, found.segments) == ([], 0, False, 2)
        assert (
            found.bytes
            == sum(len(data) for path, data in before.items() if "/log-" in path)
            == told[-1][0]
            == told[-1][1]
        )
        assert snapshot(disk) == before

    run(main())


def test_a_batch_takes_little_memory_while_a_store_is_looked_at() -> None:
    """A segment may have millions.

    The log itself, 93 bytes a batch here, is read in pieces of 4 MiB, and so is in memory, too.
    """
    batches = 5000

    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            await store.create(SEGMENT)
            await [submit(store, b"batch", number) for number in range(1, batches + 1)][-1]
        tracemalloc.start()
        try:
            assert verify(disk, PATH).intact
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < batches * 270

    run(main())


def test_a_store_in_use_can_be_looked_at() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await busy(disk, clean=False)
        async with running(disk, LIMITS) as store:
            await submit(store, b"more", 1, segment=KEPT)
            found = verify(disk, PATH)
            assert (found.damages, found.held) == ([], True)
            disk.write(
                [path for path in disk.paths() if "/log-" in path][-1],
                b"LDE1 and part of what is being written",
            )
            found = verify(disk, PATH)
            assert (found.damages, found.torn_bytes) == ([], 0)

    run(main())


class Earlier(MemoryDisk):
    """*disk* as it was when *path* had *size* bytes."""

    def __init__(self, disk: MemoryDisk, path: str, size: int) -> None:
        self.__dict__ = dict(disk.__dict__)
        self._seen = path, size

    def stat(self, path: str) -> FileStat:
        found = super().stat(path)
        return replace(found, size=self._seen[1]) if path == self._seen[0] else found


def test_a_look_that_begins_while_an_entry_is_being_written_finds_nothing() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, StoreLimits(direct=False)) as store:
            await store.create(SEGMENT)
            for number in range(1, 6):
                await submit(store, bytes(300), number)
            for size in range(FILE_HEAD + 1, disk.stat(FIRST_FILE).size, 13):
                found = verify(Earlier(disk, FIRST_FILE, size), PATH)
                assert (found.damages, found.held) == ([], True)

    run(main())


class Between(MemoryDisk):
    """*disk* with the indexes of *before* and the file *freed*, as in the middle of a change."""

    def __init__(self, disk: MemoryDisk, before: MemoryDisk, freed: str) -> None:
        self.__dict__ = dict(disk.__dict__)
        self._now, self._before, self._freed = disk, before, freed

    def names(self, directory: str) -> list[str]:
        return sorted({*self._now.names(directory), *self._before.names(directory)})

    def stat(self, path: str) -> FileStat:
        return self._at(path).stat(path)

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        if path == self._freed:
            raise FileNotFoundError(errno.ENOENT, "freed", path)
        return self._at(path).open(path)

    def _at(self, path: str) -> MemoryDisk:
        return (
            self._before
            if path in self._before.paths() and ("/log-" not in path or path == self._freed)
            else self._now
        )


def test_a_file_that_is_freed_in_the_midst_of_which_the_index_ended_is_no_damage() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS) as store:
            await store.create(SEGMENT)
            for number in range(1, 20):
                await submit(store, bytes(300), number)
            before = disk.killed()
            freed = max(path for path in disk.paths() if "/log-" in path)
            for number in range(20, 40):
                end = await submit(store, bytes(300), number)
            await store.truncate(SEGMENT, end)
            found = verify(Between(disk, before, freed), PATH)
            assert found.damages == []

    run(main())


class Swept(MemoryDisk):
    """*disk*, on which a file is removed, once, after it was listed."""

    def __init__(self, disk: MemoryDisk, gone: str) -> None:
        self.__dict__ = dict(disk.__dict__)
        self._gone = [gone]

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        if path in self._gone:
            self._gone.remove(path)
            raise FileNotFoundError(errno.ENOENT, "swept", path)
        return super().open(path)


def test_files_of_the_index_that_are_swept_while_they_are_looked_at_are_no_damage() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await busy(disk, clean=True)
        swept = [path for path in disk.paths() if path.endswith((".a", ".b"))]
        assert swept
        for path in (*swept, INDEX, OLDER):
            assert verify(Swept(disk, path), PATH).damages == []

    run(main())


def test_every_flipped_bit_of_log_and_indexes_is_found_in_its_place() -> None:
    async def main() -> None:
        whole = MemoryDisk()
        await busy(whole, clean=True)
        random = Random(5)
        for path, data in snapshot(whole).items():
            for offset in random.sample(range(len(data)), min(60, len(data))):
                disk = whole.killed()
                disk.flip_bit(path, offset, random.randrange(8))
                found = verify(disk, PATH)
                assert found.damages, (path, offset)
                damage = found.damages[0]
                assert damage.file == path
                assert 0 <= offset - damage.offset < 1000 or damage.offset == 0, (
                    path,
                    offset,
                    damage,
                )

    run(main())


def test_all_damages_are_told_not_just_the_first() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        await filled(disk, [b"first", b"second", b"third", b"fourth"], clean=True)
        at = FILE_HEAD + ENTRY_HEAD + len(SEGMENT)
        second = at + ENTRY_HEAD + 5
        fourth = second + 2 * ENTRY_HEAD + 11
        for offset in (second + ENTRY_HEAD, fourth + 20):
            disk.flip_bit(FIRST_FILE, offset)
        found = verify(disk, PATH)
        assert places(found) == [(FIRST_FILE, second), (FIRST_FILE, fourth)]
        assert "bytes 5 to 11 of logs/app" in found.damages[0].reason
        assert found.entries == 3

    run(main())


def test_a_torn_tail_is_no_damage_but_told_unless_the_index_covers_it() -> None:
    async def main() -> None:
        for clean in (False, True):
            disk = MemoryDisk()
            await filled(disk, [b"first", b"second"], clean=clean)
            disk.cut(FIRST_FILE, disk.stat(FIRST_FILE).size - 3)
            found = verify(disk, PATH)
            assert found.intact == (not clean)
            assert found.torn_bytes == (0 if clean else ENTRY_HEAD + 3)

    run(main())


def test_missing_cut_lengthened_and_foreign_files_are_damages() -> None:
    async def main() -> None:
        whole, other = MemoryDisk(), MemoryDisk()
        await busy(whole, clean=True)
        logs = [path for path in whole.paths() if "/log-" in path]
        for path in logs[:-1]:
            gone, cut, long = whole.killed(), whole.killed(), whole.killed()
            gone.remove(path)
            cut.cut(path, cut.stat(path).size - ENTRY_HEAD - 700)
            long.write(path, bytes(100))
            for disk in (gone, cut, long):
                assert not verify(disk, PATH).intact
        await filled(other, [b"x"])
        data = bytearray(other.content(FIRST_FILE))
        data[16:32] = bytes(16)
        other.remove(FIRST_FILE)
        other.write(FIRST_FILE, bytes(data))
        assert places(verify(other, PATH))[0] == (FIRST_FILE, 0)

    run(main())


def test_an_index_that_says_something_else_than_the_log_is_found_out() -> None:
    """Its checksum is right: only a replay of the log shows it."""

    async def main() -> None:
        for freed in (False, True):
            disk = MemoryDisk()
            await busy(disk, clean=False, rounds=30 if freed else 4)
            async with running(disk, LIMITS) as store:
                store._index.by_name[KEPT].numbers[WRITER.bytes] = 5
                await store.create("anything")
            found = verify(disk, PATH)
            assert places(found) == [(INDEX, 0)]
            assert f"segment {KEPT} is not what the log says" in found.damages[0].reason
            assert store.attribute(KEPT, WRITER) != ABSENT

    run(main())


def test_without_its_indexes_store_which_nothing_freed_intact_and_one_which_files_not() -> None:
    async def main() -> None:
        for freed in (False, True):
            disk = MemoryDisk()
            await busy(disk, clean=True, rounds=30 if freed else 4)
            for path in (INDEX, OLDER):
                if path in disk.paths():
                    disk.remove(path)
            found = verify(disk, PATH)
            assert found.intact == (not freed)
            assert found.entries > 0

    run(main())


def test_what_is_no_store_is_said_to_be_none() -> None:
    disk = MemoryDisk([PATH])
    with pytest.raises(StorageError, match="no store"):
        verify(disk, PATH)
    with pytest.raises(StorageError, match="can't be read"):
        verify(disk, "/elsewhere")
