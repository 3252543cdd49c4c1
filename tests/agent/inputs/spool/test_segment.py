"""A segment of the spool: text and messages by position, gaps, freeing, damage, restarts."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from agent.inputs.spool.message_cutter import SpoolCutter
from agent.inputs.spool.segment import SpoolSegment, make_segment
from agent.inputs.spool.spool import LIMITS
from logdrive.model.numbers import number_of
from logdrive.records.chunk import TextChunk
from logdrive.records.runs import DAMAGED, OVERFLOW, REMOVED
from logdrive.store.engine import Store
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock, run

BIRTH = 17


def with_store(
    story: Callable[[Store], Awaitable[None]], disk: MemoryDisk | None = None
) -> MemoryDisk:
    disk = disk or MemoryDisk(["/spool"])

    async def opened() -> None:
        store = await Store.open(
            "/spool",
            disk=disk,
            executor=InlineExecutor(),
            clock=VirtualClock(),
            limits=LIMITS,
            random=random.Random(1),
        )
        task = asyncio.create_task(store.run(asyncio.Event()))
        await story(store)
        await store.close()
        await task

    run(opened())
    return disk


def name_of(store: Store) -> str:
    (name,) = store.segments()
    return name


def test_text_is_found_by_position_over_blocks_and_restarts() -> None:
    chance = random.Random(1)
    text = bytes(chance.randrange(256) for _ in range(40_000))
    cuts = [0, *sorted(chance.sample(range(len(text)), 60)), len(text)]

    async def write(store: Store) -> None:
        segment = await make_segment(store, "pipe:/p", BIRTH)
        for start, end in pairwise(cuts):
            await segment.append(start, text[start:end], [])
        check(segment)

    async def again(store: Store) -> None:
        check(SpoolSegment(store, name_of(store)))

    def check(segment: SpoolSegment) -> None:
        assert (segment.name, segment.birth_ns, segment.end) == ("pipe:/p", BIRTH, len(text))
        for _ in range(200):
            at, size = chance.randrange(len(text)), chance.randrange(1, 5000)
            assert segment.read_text(at, size) == text[at : at + size]
            assert segment.read_before(at) == text[max(0, at - 256) : at]
        assert segment.read_text(len(text), 10) == b""

    with_store(again, with_store(write))


@pytest.mark.parametrize("reopened", [False, True])
def test_what_was_lost_between_blocks_is_a_gap__P4(*, reopened: bool) -> None:
    async def story(store: Store) -> None:
        segment = await make_segment(store, "syslog:udp:h:1", BIRTH)
        await segment.append(0, b"one\n", [("a", [4])])
        await segment.append(10, b"two\n", [("a", [4])])
        await segment.append(14, b"three\n", [("b", [6])])
        if reopened:
            segment = SpoolSegment(store, name_of(store))
            segment.find_gap(4)
        gap = segment.gap_at(4)
        assert gap is not None
        assert (gap.end, gap.mark.reason) == (10, OVERFLOW)
        assert segment.gap_at(0) is segment.gap_at(10) is None
        assert segment.read_text(0, 100) == b"one\n"
        assert segment.read_text(4, 100) == b""
        assert segment.read_text(10, 100) == b"two\nthree\n"
        assert segment.read_before(10) == b"", "what lies before a gap is not before the position"
        assert segment.read_before(20) == b"two\nthree\n"

    with_store(story)


def test_messages_end_where_their_blocks_say__R1() -> None:
    async def story(store: Store) -> None:
        segment = await make_segment(store, "syslog:udp:h:1", BIRTH)
        await segment.append(0, b"o\nne\ntwo\n", [("a:1", [5]), ("b:2", [-4])])
        await segment.append(9, b"\xff\n", [("", [2])])
        data = segment.read_text(0, 100)
        cutter = SpoolCutter(segment)
        assert cutter.end_of_events(data[:10], 0, whole=True, final=False, position=0) == (9, False)
        first, second, third = cutter.cut_events(TextChunk(0, b"??" + data, 2, 13), 10)
        assert (first.start, first.end, first.message, first.eol) == (0, 5, "o\nne", "\n")
        assert first.fields == {"log": {"source": {"address": "a:1"}}}
        assert (second.message, second.flags) == ("two", ("truncated",))
        assert (third.original, third.fields) == (b"\xff", {})
        (again,) = cutter.cut_events(TextChunk(5, data, 5, 9), 1)
        assert (again.start, again.message) == (5, "two")

    with_store(story)


@pytest.mark.parametrize("reopened", [False, True])
def test_what_is_acknowledged_is_freed_but_for_what_the_check_needs__P1(*, reopened: bool) -> None:
    async def story(store: Store) -> None:
        segment = await make_segment(store, "pipe:/p", BIRTH)
        text = b"".join(b"%099d\n" % n for n in range(100))
        for start in range(0, len(text), 100):
            await segment.append(start, text[start : start + 100], [])
        number = number_of(5000, text[5000 - 256 : 5000])
        segment.free_acknowledged(number)
        segment.free_acknowledged(number_of(100, b"a late one"))
        await asyncio.sleep(1)
        if reopened:
            segment = SpoolSegment(store, name_of(store))
        assert segment.acknowledged == number
        assert segment.first == 4700
        assert segment.read_before(5000) == text[5000 - 256 : 5000]
        assert segment.read_text(5000, 9999) == text[5000:]
        gap = segment.gap_at(300)
        assert gap is not None
        assert (gap.end, gap.mark.reason) == (5000, REMOVED)
        assert segment.gap_at(4800) is None, "it can be sent again"
        assert segment.kept_bytes == 53 * 116

    with_store(story)


def test_a_block_that_the_disk_damaged_is_a_gap_and_what_follows_is_read__P4() -> None:
    async def write(store: Store) -> None:
        segment = await make_segment(store, "pipe:/p", BIRTH)
        for n in range(4):
            await segment.append(n * 1000, b"%d" % n * 1000, [])

    disk = with_store(write)
    (log,) = (name for name in disk.names("/spool") if name.startswith("log-"))
    damage(disk, f"/spool/{log}", b"1" * 1000)

    async def read(store: Store) -> None:
        segment = SpoolSegment(store, name_of(store))
        assert (segment.first, segment.end) == (0, 4000)
        assert segment.read_text(0, 5000) == b"0" * 1000, "what lies before it is read"
        gap = segment.gap_at(1000)
        assert gap is not None
        assert (gap.end, gap.mark.reason) == (2000, DAMAGED)
        assert segment.read_text(1000, 5000) == b""
        assert segment.read_before(2000) == b""
        assert segment.read_before(2100) == b"2" * 100
        assert segment.read_text(2000, 5000) == b"2" * 1000 + b"3" * 1000
        assert segment.has_damage_before(2100)
        assert not segment.has_damage_before(3000)
        assert segment.take_damage() is not None
        assert segment.take_damage() is None

        # a start within it
        segment = SpoolSegment(store, name_of(store))
        segment.find_gap(1500)
        gap = segment.gap_at(1500)
        assert gap is not None
        assert (gap.end, gap.mark.reason) == (2000, DAMAGED)

    with_store(read, disk)


@pytest.mark.parametrize(("number", "position", "end"), [(0, 0, 1000), (3, 3000, 4000)])
def test_a_first_and_a_last_block_that_are_damaged_are_gaps__P4(
    number: int, position: int, end: int
) -> None:
    async def write(store: Store) -> None:
        segment = await make_segment(store, "pipe:/p", BIRTH)
        for n in range(4):
            await segment.append(n * 1000, b"%d" % n * 1000, [])

    disk = with_store(write)
    (log,) = (name for name in disk.names("/spool") if name.startswith("log-"))
    damage(disk, f"/spool/{log}", b"%d" % number * 1000)

    async def read(store: Store) -> None:
        segment = SpoolSegment(store, name_of(store))
        assert (segment.first, segment.end) == (0, 4000)
        segment.read_text(0, 5000)
        gap = segment.gap_at(position)
        assert gap is not None
        assert (gap.end, gap.mark.reason) == (end, DAMAGED)
        assert b"1" * 1000 + b"2" * 1000 in segment.read_text(0, 5000) + segment.read_text(
            1000, 5000
        )

    with_store(read, disk)


def damage(disk: MemoryDisk, path: str, text: bytes) -> None:
    file = disk.open(path)
    data = file.pread(file.stat().size, 0)
    assert text in data
    file.close()
    disk.remove(path)
    changed = disk.open(path, write=True, create=True)
    changed.append([data.replace(text, b"x" + text[1:])])
    changed.datasync()
    changed.close()
