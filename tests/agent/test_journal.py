"""The journal of systemd comes once, over crashes, lost connections and a journalctl that dies."""

import asyncio
import random
from typing import Any

import pytest

from tests.agent.world import World
from tests.support.memory.inputs import MemoryInputs, MemoryJournal
from tests.support.reader_model import Stored
from tests.support.virtual_time import run


class JournalWorld(World):
    """A host with a journal."""

    def __init__(self, seed: int = 1, **table: Any) -> None:
        super().__init__(seed)
        del self.settings["input"]
        self.settings["journald"] = table
        self.local = MemoryInputs()

    @property
    def journal(self) -> MemoryJournal:
        return self.local.journal

    def begin(self) -> None:
        self.start(local=self.local)

    def add(self, start: int, count: int, boot: str = "a") -> None:
        for number in range(start, start + count):
            self.journal.add(boot, number, b"entry %d" % number, PRIORITY=b"6")

    def sent(self, boot: str = "a") -> Stored:
        (stored,) = self.stored(f"journald:{boot * 32}")
        return stored


def entries(start: int, count: int) -> bytes:
    return b"".join(b"entry %d\n" % number for number in range(start, start + count))


def test_each_boot_is_a_source_that_ends_once_the_next_one_began() -> None:
    async def story() -> None:
        world = JournalWorld()
        world.add(7, 300)
        await world.reader()
        world.begin()
        await asyncio.sleep(3)
        await world.settle()
        assert world.sent().content == entries(7, 300)
        assert world.sent().gaps == [(0, 7, "not_wanted", True)]
        world.add(307, 50, boot="b")
        await asyncio.sleep(70)
        await world.settle()
        assert world.sent().ended == (307, "shipped")
        assert world.sent("b").content == entries(307, 50)
        assert world.sent("b").ended is None
        await world.stop()
        # a restart goes on after what was acknowledged
        world.add(357, 1, boot="b")
        world.begin()
        await asyncio.sleep(10)
        await world.settle()
        assert world.sent("b").content == entries(307, 51)
        assert f"i={356:x};" in world.journal.starts[-2][-1]
        await world.stop()

    run(story())


def test_entries_that_were_vacuumed_before_they_were_read_are_a_gap__P4() -> None:
    async def story() -> None:
        world = JournalWorld()
        world.add(1, 10)
        await world.reader()
        world.begin()
        await asyncio.sleep(3)
        await world.settle()
        await world.stop()
        world.add(11, 100)
        world.journal.vacuum(before=60)
        world.begin()
        await asyncio.sleep(3)
        await world.settle()
        assert world.sent().content == entries(1, 10) + entries(60, 51)
        assert world.sent().gaps == [(0, 1, "not_wanted", True), (11, 60, "vacuumed", True)]
        await world.stop()

    run(story())


def test_a_boot_of_which_nothing_is_left_ends_with_a_gap_of_what_was_seen__P4() -> None:
    async def story() -> None:
        world = JournalWorld()
        world.add(1, 10)
        await world.reader()
        world.begin()
        await asyncio.sleep(3)
        await world.settle()
        await world.crash_reader()
        world.add(11, 10)
        await asyncio.sleep(5)
        await world.stop()
        world.journal.vacuum(before=100)
        world.add(100, 5, boot="b")
        await world.reader()
        world.begin()
        await asyncio.sleep(70)
        await world.settle()
        assert world.sent().gaps[1:] == [(11, 21, "vacuumed", True)]
        assert world.sent().ended == (21, "shipped")
        assert world.sent("b").content == entries(100, 5)
        await world.stop()

    run(story())


def test_a_journalctl_that_dies_is_started_again_where_it_was() -> None:
    async def story() -> None:
        world = JournalWorld()
        world.add(1, 10)
        await world.reader()
        world.begin()
        for number in range(11, 61, 10):
            await asyncio.sleep(2)
            world.journal.kill_readers()
            world.add(number, 10)
        await asyncio.sleep(100)
        await world.settle()
        assert world.sent().content == entries(1, 60)
        assert len(world.journal.starts) == 12, "each time up to the present first, then following"
        await world.stop()

    run(story())


def test_a_journalctl_that_dies_at_once_is_started_ever_more_seldom() -> None:
    async def story() -> None:
        world = JournalWorld()
        await world.reader()
        world.begin()
        for _ in range(600):
            await asyncio.sleep(1)
            world.journal.kill_readers()
        assert 10 < len(world.journal.starts) < 40
        await world.stop()

    run(story())


@pytest.mark.parametrize("forget", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_crashes_and_lost_connections_lose_and_double_nothing__D3(
    seed: int, *, forget: bool
) -> None:
    async def story() -> None:
        world, chance = JournalWorld(seed), random.Random(seed)
        await world.reader()
        number, boots = 1, {"a": 1}
        for life in range(6):
            world.begin()
            for _ in range(chance.randrange(1, 10)):
                world.add(number, count := chance.randrange(1, 300), boot="ab"[life > 2])
                boots.setdefault("ab"[life > 2], number)
                number += count
                await asyncio.sleep(chance.choice([0.0, 0.05, 0.7]))
                if chance.random() < 0.2:
                    world.network.cut("agent")
                if chance.random() < 0.1:
                    world.journal.kill_readers()
            await (world.stop() if chance.random() < 0.3 else world.kill())
            if forget and "checkpoint.json" in world.disk.names("/state"):
                world.forget()
        world.begin()
        await asyncio.sleep(70)
        await world.settle(200)
        second = boots.get("b", number)
        assert world.sent().content == entries(1, second - 1)
        assert world.sent("b").content == entries(second, number - second)
        assert [gap[2] for gap in world.sent().gaps] == ["not_wanted"]
        await world.stop()

    run(story())


def test_boots_that_have_ended_are_known_without_a_checkpoint_and_later_entries_are_sent() -> None:
    async def story() -> None:
        world = JournalWorld()
        world.add(1, 10)
        world.add(11, 10, boot="b")
        await world.reader()
        world.begin()
        await asyncio.sleep(70)
        await world.settle()
        assert world.sent().ended == (11, "shipped")
        await world.stop()
        world.forget()
        world.begin()
        await asyncio.sleep(70)
        await world.settle()
        world.add(21, 5, boot="a")
        await asyncio.sleep(5)
        await world.settle()
        first, more = world.stored(f"journald:{'a' * 32}")
        assert (first.content, more.content) == (entries(1, 10), entries(21, 5))
        assert world.sent("b").content == entries(11, 10)
        await world.stop()

    run(story())


def test_with_start_boot_earlier_boots_are_left_out_of_a_first_run() -> None:
    async def story() -> None:
        world = JournalWorld(start="boot")
        await world.reader()
        world.begin()
        await asyncio.sleep(1)
        assert "--boot" in world.journal.starts[0]
        assert "--follow" not in world.journal.starts[0]
        await world.stop()

    run(story())


def test_entries_that_a_store_has_lost_are_read_from_the_journal_again__D5() -> None:
    async def story() -> None:
        world = JournalWorld()
        world.add(1, 100)
        reader = await world.reader()
        world.begin()
        await asyncio.sleep(3)
        await world.settle()
        before = {source: stored.copy() for source, stored in reader.stored.items()}
        world.add(101, 300)
        await asyncio.sleep(3)
        await world.settle()
        assert world.sent().content == entries(1, 400)
        # the store is put back to a backup of itself
        reader.stored = before
        world.network.cut("agent")
        world.add(401, 1)
        await asyncio.sleep(10)
        await world.settle()
        assert world.sent().content == entries(1, 401)
        assert [gap[2] for gap in world.sent().gaps] == ["not_wanted"]
        await world.stop()

    run(story())
