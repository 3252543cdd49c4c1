"""Spilled extents and numbers survive merges, truncations and copies, and few stay in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest

from logdrive.model.numbers import ABSENT
from logdrive.store.errors import StoreDamagedError
from logdrive.store.index.index import Index
from logdrive.store.index.pages import PageFiles
from logdrive.store.index.snapshot import Snapshot, decode_snapshot, encode_snapshot
from logdrive.store.index.spill import apply_spill, gather_spill, write_spill
from logdrive.store.limits import StoreLimits
from logdrive.store.log.files import LogFiles
from logdrive.store.log.format import (
    APPEND,
    COPY,
    DELETE,
    ENTRY_HEAD,
    FILE_HEAD,
    MERGE,
    TRUNCATE,
    UPDATE,
    LogEntry,
)
from logdrive.store.log.log import Tip
from logdrive.store.verify.verify import verify
from tests.logdrive.store.harness import PATH, SEGMENT, WRITER, running, submit
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.virtual_time import run

LIMITS = StoreLimits(page=52, pages=3, numbers=2)
STORE = UUID(int=9)
WRITERS = [bytes([n]) * 16 for n in range(6)]


@dataclass
class Plain:
    """A segment as a list: (offset, place, length) of each append."""

    rows: list[tuple[int, int, int]] = field(default_factory=list)
    numbers: dict[bytes, int] = field(default_factory=dict)
    length: int = 0
    start: int = 0


class Both:
    """An index, and beside it what it should say."""

    def __init__(self, random: Random) -> None:
        self.random, self.disk = random, MemoryDisk([PATH])
        self.index = Index(
            LogFiles(PATH, [0]), PageFiles(self.disk, PATH, STORE, LIMITS.page), LIMITS
        )
        self.plain: dict[int, Plain] = {}
        self.position = FILE_HEAD

    def apply(self, entry: LogEntry) -> int:
        """Take in an entry at the end of the log, and return where its data lies."""
        place = self.position + ENTRY_HEAD
        self.index.apply_entry(entry, place)
        self.position = place + entry.length
        return place

    def step(self) -> None:
        actions = (
            [self.create]
            + [self.append] * 8
            + [self.update, self.truncate, self.delete, self.merge]
            + [self.copy] * 3
            + [self.roll] * 2
        )
        self.random.choice(actions)()

    def create(self) -> None:
        number = self.index.next_number
        self.index.create_segment(number, f"s{number}", 0)
        self.plain[number] = Plain()

    def append(self) -> None:
        for number, plain in self.some():
            length, writer = self.random.choice((0, 1, 7, 30)), self.random.choice(WRITERS)
            previous = plain.numbers.get(writer, ABSENT)
            value = max(previous, 0) + 1
            place = self.apply(
                LogEntry(
                    APPEND, number, 0, length=length, writer=writer, previous=previous, number=value
                )
            )
            if length:
                plain.rows.append((plain.length, place, length))
            plain.length += length
            plain.numbers[writer] = value

    def update(self) -> None:
        for number, plain in self.some():
            writer, value = self.random.choice(WRITERS), self.random.choice((ABSENT, -3, 8))
            self.apply(
                LogEntry(
                    UPDATE,
                    number,
                    0,
                    writer=writer,
                    previous=plain.numbers.pop(writer, ABSENT),
                    number=value,
                )
            )
            if value != ABSENT:
                plain.numbers[writer] = value

    def truncate(self) -> None:
        for number, plain in self.some():
            start = self.random.choice(
                (plain.length, self.random.randint(plain.start, plain.length))
            )
            self.apply(LogEntry(TRUNCATE, number, 0, previous=plain.start, number=start))
            plain.start = start
            plain.rows = [row for row in plain.rows if row[0] + row[2] > start]

    def delete(self) -> None:
        if self.random.random() < 0.3:
            for number, _ in self.some():
                self.apply(LogEntry(DELETE, number, 0))
                del self.plain[number]

    def merge(self) -> None:
        for number, plain in self.some():
            for other, source in self.some():
                if other != number and not source.start:
                    self.apply(LogEntry(MERGE, number, 0, previous=plain.length, number=other))
                    plain.rows += [
                        (offset + plain.length, place, length)
                        for offset, place, length in source.rows
                    ]
                    plain.length += source.length
                    del self.plain[other]

    def copy(self) -> None:
        """Copy some extents, here and there."""
        for number, plain in self.some():
            for at in sorted(self.random.sample(range(len(plain.rows)), min(3, len(plain.rows)))):
                offset, _, length = plain.rows[at]
                plain.rows[at] = (
                    offset,
                    self.apply(LogEntry(COPY, number, 0, length=length, previous=offset)),
                    length,
                )
            self.apply(LogEntry(COPY, number, 0, length=5, previous=plain.length))

    def roll(self) -> None:
        """Begin a new log file; then, mostly, put on disk what belongs there, or start anew from
        the index.
        """
        self.index.files.begin_file(self.position)
        self.position += FILE_HEAD
        if self.random.random() < 0.8:
            paging = gather_spill(self.index, self.position)
            write_spill(self.index, paging)
            apply_spill(self.index, paging)
            assert all(
                place >= self.index.files.bases[-1]
                for segment in self.index.by_number.values()
                for place in segment.places
            )
            if self.random.random() < 0.5:
                data = encode_snapshot(Snapshot(STORE, Tip(self.position), self.index))
                self.index = decode_snapshot(data, self.disk, PATH, LIMITS).index

    def some(self) -> Iterator[tuple[int, Plain]]:
        if self.plain:
            number = self.random.choice(sorted(self.plain))
            yield number, self.plain[number]

    def compare(self) -> None:
        live = dict.fromkeys(self.index.files.bases, 0)
        for number, plain in self.plain.items():
            segment = self.index.by_number[number]
            assert (segment.start, segment.length) == (plain.start, plain.length)
            assert list(segment.extents(plain.start)) == plain.rows
            for row in plain.rows:
                assert (
                    segment.extent_at(
                        self.random.randrange(max(row[0], plain.start), row[0] + row[2])
                    )
                    == row
                )
                live[self.index.files.base_of(row[1])] += ENTRY_HEAD + row[2]
            assert {writer: self.index.number(segment, writer) for writer in WRITERS} == {
                w: plain.numbers.get(w, ABSENT) for w in WRITERS
            }
            for base in self.index.files.bases:
                if base < self.index.paged_to:
                    inside = [row for row in plain.rows if self.index.files.base_of(row[1]) == base]
                    assert segment.next_extent_in(base, 0) == (inside[0] if inside else None)
        assert self.index.files.live == live
        assert self.index.by_number.keys() == self.plain.keys()


@pytest.mark.parametrize("seed", range(20))
def test_the_index_says_the_same_with_its_rows_on_disk_as_a_list_does(seed: int) -> None:
    both = Both(Random(seed))
    for step in range(150):
        both.step()
        if step % 3 == 0:
            both.compare()


def test_memory_does_not_grow_with_appends_nor_with_writers() -> None:
    """Memory has the newest file's rows, the last two intervals' numbers, and chunks per file."""

    async def main() -> None:
        limits = StoreLimits(log_file=20_000, pages=4, numbers=50)
        held = []
        async with running(MemoryDisk(), limits) as store:
            await store.create(SEGMENT)
            for number in range(2000):
                writer = UUID(int=number)
                await submit(store, b"x" * 10, 1, writer=writer)
                index = store._index
                segment = index.by_name[SEGMENT]
                if number % 500 == 499:
                    held.append((number + 1, len(index.files.bases), len(segment.chunks)))
                assert len(segment.offsets) < 300
                assert len(segment.numbers) < 300
                assert len(index.stored_numbers._warm) <= 50
                assert len(index.stored_numbers.runs) <= 6
            assert all(chunks == files - 1 for _, files, chunks in held), held
            assert sum(len(s.offsets) + len(s.numbers) for s in index.by_number.values()) < 600
            assert await store.number(SEGMENT, UUID(int=7)) == 1
            assert await store.number(SEGMENT, UUID(int=70_000)) == ABSENT

    run(main())


class _Counting(MemoryDisk):
    """A disk that counts opened files."""

    opened = 0

    def open(self, path: str, **how: bool) -> MemoryFile:
        self.opened += 1
        return super().open(path, **how)


def test_a_start_opens_no_file_for_a_segment_and_none_for_what_is_old() -> None:
    async def main() -> None:
        disk = _Counting()
        limits = StoreLimits(log_file=100_000)
        async with running(disk, limits) as store:
            for number in range(3000):
                store.create(f"logs/{number}")
                await submit(store, b"x" * 100, 1, segment=f"logs/{number}")
            files = len(store._index.files.bases)
        assert files > 5
        disk.opened = 0
        async with running(disk, limits) as store:
            assert disk.opened < 10
            assert len(store.segments()) == 3000
            assert store.read("logs/7", 0, 1000) == b"x" * 100
            assert store._index.by_name["logs/2000"].numbers == {}
            assert await store.number("logs/2000", WRITER) == 1

    run(main())


def paged(disk: MemoryDisk, copies: str) -> list[str]:
    return [path for path in disk.paths() if path.endswith(tuple(f".{copy}" for copy in copies))]


async def old_and_new(disk: MemoryDisk, limits: StoreLimits) -> None:
    async with running(disk, limits) as store:
        await store.create(SEGMENT)
        for number in range(1, 100):
            await submit(store, b"%04d" % number * 10, number)


@pytest.mark.parametrize("harm", ["a is damaged", "a is gone", "b is gone"])
def test_one_bad_copy_costs_nothing_and_is_written_anew(harm: str) -> None:
    async def main() -> None:
        disk, limits = MemoryDisk(), StoreLimits(log_file=4000)
        await old_and_new(disk, limits)
        for path in paged(disk, harm[0]):
            if "gone" in harm:
                disk.remove(path)
            else:
                disk.flip_bit(path, 20)
        assert not verify(disk, PATH).intact
        async with running(disk, limits) as store:
            assert await store.number(SEGMENT, WRITER) == 99
            assert store.read(SEGMENT, 0, 10_000) == b"".join(
                b"%04d" % number * 10 for number in range(1, 100)
            )
            await submit(store, b"more", 100)
        assert len(paged(disk, "b")) > 2
        assert [disk.content(path) for path in paged(disk, "a")] == [
            disk.content(path) for path in paged(disk, "b")
        ]
        assert verify(disk, PATH).intact

    run(main())


def test_where_both_copies_are_damaged_only_what_needs_them_fails() -> None:
    async def main() -> None:
        disk, limits = MemoryDisk(), StoreLimits(log_file=4000)
        await old_and_new(disk, limits)
        for path in paged(disk, "ab"):
            if "extents" in path:
                disk.flip_bit(path, 20)
        async with running(disk, limits) as store:
            assert store.recovery.index == "used"
            assert await store.number(SEGMENT, WRITER) == 99
            await submit(store, b"more", 100)
            with pytest.raises(StoreDamagedError, match="neither is its copy"):
                store.read(SEGMENT, 0, 10)
            info = store.info(SEGMENT)
            assert info is not None
            assert store.read(SEGMENT, info.length - 4, 10) == b"more"

    run(main())


def test_numbers_lost_from_both_copies_block_neither_the_index_nor_reclaiming() -> None:
    async def main() -> None:
        disk, limits = MemoryDisk(), StoreLimits(log_file=10_000, page=200)
        async with running(disk, limits) as store:
            await store.create(SEGMENT)
            for number in range(60):
                await submit(store, b"x", 1, writer=UUID(int=number))
        for path in paged(disk, "ab"):
            if "numbers" in path:
                disk.flip_bit(path, 20)
        async with running(disk, limits) as store:
            for number in range(2000):
                end = await submit(
                    store, b"y" * 50, number + 2, writer=UUID(int=(1 << 100) + number % 300)
                )
                if number % 50 == 0:
                    await store.truncate(SEGMENT, end)
            assert len(store._index.stored_numbers.runs) < 6
        assert len([path for path in disk.paths() if "/log-" in path]) < 5
        assert len([path for path in disk.paths() if "/numbers-" in path]) < 14
        async with running(disk, limits) as store:
            assert store.recovery.index == "used"
            assert store.recovery.entries == 0
            assert await store.number(SEGMENT, UUID(int=(1 << 100) + 299)) == 1801
            with pytest.raises(StoreDamagedError):
                await store.number(SEGMENT, UUID(int=0))

    run(main())


def test_cut_damaged_index_can_not_place_is_refused_before_is_durable_and_store_goes_on() -> None:
    async def main() -> None:
        disk, limits = MemoryDisk(), StoreLimits(log_file=4000)
        await old_and_new(disk, limits)
        for path in paged(disk, "ab"):
            if "extents" in path:
                disk.flip_bit(path, 20)
        for number in (100, 101):  # a start, and another one
            async with running(disk, limits) as store:
                with pytest.raises(StoreDamagedError, match="neither is its copy"):
                    store.truncate(SEGMENT, 70)
                end = await submit(store, b"more", number)
        async with running(disk, limits) as store:
            await store.truncate(SEGMENT, end)  # all of it: nothing need be known of what goes
            info = store.info(SEGMENT)
            assert info is not None
            assert info.start == end

    run(main())
