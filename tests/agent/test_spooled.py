"""What can't be read again comes to the store once, by way of the spool, whenever it crashes."""

import asyncio
import random
from typing import Any

import pytest

from agent.inputs.spool.stream import SpooledStream
from logdrive.model.units import MIB
from tests.agent.world import World, lines
from tests.support.memory_inputs import MemoryBytes, MemoryDatagrams, MemoryInputs
from tests.support.reader_model import Stored
from tests.support.virtual_time import run

PIPE = "/run/app.pipe"


class SpoolWorld(World):
    """A host whose programs write into a pipe, or into the agent's standard input."""

    def __init__(self, seed: int = 1, **tables: Any) -> None:
        super().__init__(seed)
        del self.settings["input"]
        self.settings |= tables or {"pipe": [{"path": PIPE}]}
        self.local = MemoryInputs(self.network.host("agent", identity="dns:agent"))
        self.pipe = self.local.pipes[PIPE] = MemoryBytes()

    def begin(self) -> None:
        self.start(local=self.local)

    async def spooled(self) -> None:
        """Wait until all that was written into the pipe was read, and is durable."""
        while self.pipe.waiting:  # noqa: ASYNC110 - an event would be set by the test itself
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)

    def sent(self, path: str = f"pipe:{PIPE}") -> list[Stored]:
        return self.stored(path)


def test_lines_of_a_pipe_come_once_and_their_bytes_are_freed() -> None:
    async def story() -> None:
        world = SpoolWorld()
        await world.reader()
        world.begin()
        for number in range(0, 3000, 500):
            world.pipe.write(lines(number, 500))
            await world.spooled()
        await world.settle()
        (stored,) = world.sent()
        assert stored.content == lines(0, 3000)
        await asyncio.sleep(5)
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        assert isinstance(source.generation, SpooledStream)
        assert source.generation.segment.first > 0, "nothing was freed"
        await world.stop()

    run(story())


def test_what_is_in_the_spool_survives_a_crash_before_it_is_acknowledged() -> None:
    async def story() -> None:
        world = SpoolWorld()
        world.begin()
        world.pipe.write(lines(0, 1000))
        await world.spooled()
        for _ in range(3):
            await world.kill()
            world.begin()
            await asyncio.sleep(1)
        await world.reader()
        await world.settle()
        world.pipe.write(lines(1000, 10))
        await world.spooled()
        await world.settle()
        (stored,) = world.sent()
        assert stored.content == lines(0, 1010)
        await world.stop()

    run(story())


@pytest.mark.parametrize("forget", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_crashes_at_any_point_lose_only_what_was_being_read__D3(seed: int, *, forget: bool) -> None:
    async def story() -> None:
        world, chance = SpoolWorld(seed), random.Random(seed)
        world.executor.delay = chance.choice([0.0, 0.001, 0.02])
        await world.reader()
        number, unsure = 0, bytearray()
        for _ in range(6):
            world.begin()
            for _ in range(chance.randrange(1, 12)):
                world.pipe.write(lines(number, count := chance.randrange(1, 400)))
                number += count
                await asyncio.sleep(chance.choice([0.0, 0.001, 0.05, 0.7]))
            if chance.random() < 0.3:
                await world.stop()
                assert not world.pipe.waiting
            else:
                await world.kill()
                unsure += world.pipe.last
            if forget and "checkpoint.json" in world.disk.names("/state"):
                world.forget()
        world.begin()
        await world.spooled()
        await world.settle()
        (stored,) = world.sent()
        came, written = stored.content.splitlines(), lines(0, number).splitlines()
        assert len(set(came)) == len(came), "a line came twice"
        missing = set(written) - set(came)
        assert all(line in unsure for line in missing), "a line that was durable is lost"
        await world.stop()

    run(story())


def test_the_end_of_standard_input_ends_the_agent_once_all_is_acknowledged() -> None:
    async def story() -> None:
        world = SpoolWorld(stdin={})
        world.begin()
        world.local.stdin.write(lines(0, 100) + b"no newline")
        world.local.stdin.end_writing()
        await asyncio.sleep(100)
        assert world._task is not None
        assert not world._task.done(), "it ended before a receiver had the lines"
        await world.reader()
        await asyncio.wait_for(world._task, 100)
        (stored,) = world.sent("stdin")
        assert stored.content == lines(0, 100) + b"no newline"
        assert stored.ended is not None

        # the next process's standard input is another source
        world.local.new_stdin().write(b"second\n")
        world.local.stdin.end_writing()
        world.begin()
        assert world._task is not None
        await asyncio.wait_for(world._task, 100)
        assert [each.content for each in world.sent("stdin")] == [stored.content, b"second\n"]

    run(story())


def test_standard_input_of_a_killed_agent_is_sent_by_the_next_one() -> None:
    async def story() -> None:
        world = SpoolWorld(stdin={})
        world.begin()
        world.local.stdin.write(lines(0, 100) + b"part of a li")
        await asyncio.sleep(1)
        await world.kill()
        world.local.new_stdin().write(b"second\n")
        world.begin()
        await world.reader()
        await world.settle()
        first, second = world.sent("stdin")
        assert (first.content, first.ended is not None) == (lines(0, 100) + b"part of a li", True)
        assert (second.content, second.ended is not None) == (b"second\n", False)
        await world.stop()

    run(story())


def test_an_input_that_no_table_names_any_more_is_sent_and_ended() -> None:
    async def story() -> None:
        world = SpoolWorld()
        world.begin()
        world.pipe.write(lines(0, 100))
        await world.spooled()
        await world.stop()
        world.settings |= {"pipe": [], "input": [{"paths": ["/logs/*"]}]}
        world.begin()
        await world.reader()
        await world.settle()
        (stored,) = world.sent()
        assert (stored.content, stored.ended is not None) == (lines(0, 100), True)
        await world.stop()
        # and once it is named again, it is another source
        world.settings |= {"pipe": [{"path": PIPE}]}
        world.begin()
        world.pipe.write(b"again\n")
        await world.spooled()
        await world.settle()
        assert [each.content for each in world.sent()] == [lines(0, 100), b"again\n"]
        await world.stop()

    run(story())


def test_a_full_spool_makes_a_pipe_wait() -> None:
    async def story() -> None:
        world = SpoolWorld(pipe=[{"path": PIPE, "spool_bytes": 8 * MIB}])
        world.begin()
        world.pipe.write(lines(0, 1_000_000))  # 12 MB
        await asyncio.sleep(30)
        assert 8 * MIB - MIB < len(world.pipe.taken) < 10 * MIB
        await world.reader()
        await world.spooled()
        await world.settle()
        (stored,) = world.sent()
        assert stored.content == lines(0, 1_000_000)
        await world.stop()

    run(story())


def test_a_last_line_without_newline_is_sent_after_quiet_seconds__P3() -> None:
    async def story() -> None:
        world = SpoolWorld(pipe=[{"path": PIPE, "quiet_seconds": 5}])
        await world.reader()
        world.begin()
        world.pipe.write(b"one\ntwo")
        await asyncio.sleep(3)
        assert [each.content for each in world.sent()] == [b"one\n"]
        await asyncio.sleep(5)
        assert [each.content for each in world.sent()] == [b"one\ntwo"]
        await world.stop()

    run(story())


def syslog_world(seed: int = 1, **table: Any) -> tuple[SpoolWorld, MemoryDatagrams]:
    world = SpoolWorld(seed, syslog=[{"listen": "127.0.0.1", "protocol": "udp", **table}])
    port = world.local.datagrams["127.0.0.1:514"] = MemoryDatagrams()
    return world, port


UDP = "syslog:udp:127.0.0.1:514"


def test_each_datagram_is_an_event_whatever_bytes_it_has() -> None:
    async def story() -> None:
        world, port = syslog_world(message_bytes=480)
        await world.reader()
        world.begin()
        port.send(b"<13>one", "10.0.0.1:1")
        port.send(b"<13>two\n", "10.0.0.1:1")
        port.send(b"<13>th\nree\0", "10.0.0.2:2")
        port.send(b"", "10.0.0.2:2")
        port.send(b"\xff" * 481, "10.0.0.2:2")
        await asyncio.sleep(1)
        await world.settle()
        (stored,) = world.sent(UDP)
        assert stored.content == b"<13>one\n<13>two\n<13>th\nree\0\n" + b"\xff" * 480 + b"\n"
        assert stored.events == 4
        await world.stop()

    run(story())


def test_datagrams_without_room_are_one_gap_and_what_comes_later_is_kept__P4() -> None:
    async def story() -> None:
        world, port = syslog_world(spool_bytes=8 * MIB)
        world.begin()
        size, sent = 60_000, 0
        for _ in range(300):  # 18 MB
            port.send(b"%08d" % sent + b"x" * (size - 9), "10.0.0.1:1")
            sent += 1
            await asyncio.sleep(0.01)
        await world.reader()
        await asyncio.sleep(60)
        port.send(b"<13>after", "10.0.0.1:1")
        await asyncio.sleep(5)
        await world.settle()
        (stored,) = world.sent(UDP)
        ((start, end, reason, exact),) = stored.gaps
        kept = stored.content.count(b"x\n")
        assert (reason, exact) == ("overflow", True)
        assert end - start == (sent - kept) * size, "the gap is as long as what was lost"
        assert 7 * MIB < start < 9 * MIB
        assert stored.content.endswith(b"x\n<13>after\n")
        assert [n for n in range(sent) if b"%08dx" % n in stored.content] == list(range(kept))
        await world.stop()

    run(story())


def test_a_gap_at_the_end_of_what_came_is_told_too__P4() -> None:
    async def story() -> None:
        world, port = syslog_world(spool_bytes=8 * MIB)
        world.begin()
        for _ in range(200):
            port.send(b"x" * 60_000, "10.0.0.1:1")
            await asyncio.sleep(0.01)
        await world.stop()
        world.begin()  # what was lost is known after a restart, too
        await world.reader()
        await asyncio.sleep(30)
        await world.settle()
        (stored,) = world.sent(UDP)
        ((_, end, reason, _),) = stored.gaps
        assert (reason, end) == ("overflow", 200 * 60_001)
        await world.stop()

    run(story())


@pytest.mark.parametrize("seed", range(8))
def test_datagrams_survive_crashes_once_they_are_durable(seed: int) -> None:
    async def story() -> None:
        world, port = syslog_world(seed)
        chance = random.Random(seed)
        await world.reader()
        number, durable = 0, set[bytes]()
        for _ in range(5):
            world.begin()
            waiting = set[bytes]()
            for _ in range(chance.randrange(1, 30)):
                sent = [b"<13>%06d" % n for n in range(number, number + chance.randrange(1, 50))]
                number += len(sent)
                for message in sent:
                    port.send(message, f"10.0.0.{chance.randrange(3)}:1")
                waiting |= set(sent)
                await asyncio.sleep(pause := chance.choice([0.001, 0.3]))
                if pause == 0.3:
                    durable |= waiting
            await world.kill()
        world.begin()
        await world.settle()
        (stored,) = world.sent(UDP)
        came = stored.content.splitlines()
        assert came == sorted(set(came)), "once, and in order"
        assert durable
        assert durable <= set(came)
        await world.stop()

    run(story())


def test_syslog_over_connections_waits_for_the_disk_and_keeps_what_came() -> None:
    async def story() -> None:
        world = SpoolWorld(syslog=[{"listen": "0.0.0.0:601", "protocol": "tcp", "connections": 2}])
        await world.reader()
        world.begin()
        await asyncio.sleep(1)
        client = world.network.host("client")
        first = await client.connect("agent", 601, None)
        second = await client.connect("agent", 601, None)
        await asyncio.sleep(0.1)
        third = await client.connect("agent", 601, None)
        assert await third.read() == b"", "one too many is turned away"
        await first.write([b"<13>one\n8 <13>tw\no<1"])
        await second.write([b"<14>x\n<14>half"])
        await asyncio.sleep(1)
        await first.write([b"3>three\n"])
        await asyncio.sleep(1)
        await second.close()
        await asyncio.sleep(1)
        await world.settle()
        (stored,) = world.sent("syslog:tcp:0.0.0.0:601")
        came = stored.content.replace(b"tw\no", b"two").split(b"\n")[:-1]
        assert sorted(came[:3]) == [b"<13>one", b"<13>two", b"<14>x"]
        assert came[3:] == [b"<13>three", b"<14>half"]
        assert stored.events == 5
        await first.write([b"<13>last"])
        await asyncio.sleep(0.1)
        await world.stop()
        assert stored.content.endswith(b"<13>last\n")

    run(story())


def test_a_stop_keeps_what_a_full_spool_made_wait() -> None:
    async def story() -> None:
        world = SpoolWorld(pipe=[{"path": PIPE, "spool_bytes": 8 * MIB}])
        world.settings["agent"]["drain_seconds"] = 1
        world.begin()
        world.pipe.write(lines(0, 1_000_000))
        await asyncio.sleep(30)
        await world.stop()
        taken = len(world.pipe.taken)
        await world.reader()
        world.begin()
        await world.spooled()
        await world.settle()
        (stored,) = world.sent()
        assert stored.content == lines(0, 1_000_000)
        assert taken > 8 * MIB
        await world.stop()

    run(story())


def test_freed_bytes_are_known_as_acknowledged_whatever_the_checkpoint_says__S5() -> None:
    async def story() -> None:
        world = SpoolWorld()
        await world.reader()
        world.begin()
        world.pipe.write(lines(0, 10))
        await world.spooled()
        await world.settle()
        await asyncio.sleep(3)
        late = world.disk.content("/state/checkpoint.json")
        for number in range(10, 3010, 500):
            world.pipe.write(lines(number, 500))
            await world.spooled()
        await world.settle()
        await asyncio.sleep(3)
        await world.kill()
        await world.crash_reader()

        # to a service that keeps no numbers, the agent's own are all there is
        for checkpoint in (late, None):
            world.disk.remove("/state/checkpoint.json")
            if checkpoint is not None:
                world.disk.write("/state/checkpoint.json", checkpoint)
            world.begin()
            await asyncio.sleep(1)
            assert world.agent is not None
            (source,) = world.agent.registry.sources
            assert (source.position, source.due_gap) == (3010 * 12, None)
            await world.stop()

    run(story())
