"""What can't be read again comes to the store once, by way of the spool, whenever it crashes."""

import asyncio
import errno
import random
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent.inputs.spool.spool_input import SpoolInput
from agent.inputs.spool.stream import SpooledStream
from agent.sources.checkpoint.file import CheckpointFile
from logdrive.errors import StorageError, TransientError
from logdrive.model.units import MIB
from tests.agent.world import World, lines
from tests.support.memory.inputs import MemoryBytes, MemoryDatagrams, MemoryInputs
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


def test_what_earlier_processes_left_takes_of_the_room_of_the_spool() -> None:
    async def story() -> None:
        world = SpoolWorld(stdin={"spool_bytes": 8 * MIB})
        count = 3 * MIB // 12
        pieces = [lines(number * count, count) for number in range(4)]
        for piece in pieces:
            world.local.new_stdin().write(piece)
            world.begin()
            await asyncio.sleep(2)
            if piece is not pieces[-1]:
                await world.kill()
        assert world.local.stdin.waiting > 2 * MIB, "it was read, beyond spool_bytes"
        await world.reader()
        await asyncio.sleep(10)
        await world.settle()
        came = [each.content for each in world.sent("stdin")]
        assert {pieces[0], pieces[1], pieces[3]} <= set(came)
        assert not world.local.stdin.waiting
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


def test_a_spool_leaves_the_room_on_a_disk_that_freeing_takes() -> None:
    async def story() -> None:
        world = SpoolWorld()
        world.disk.capacity = 36 * MIB
        world.local.free = lambda: 36 * MIB - world.disk.used()
        world.begin()
        text = b"".join(b"%07d" % n + b"x" * 992 + b"\n" for n in range(40_000))
        world.pipe.write(text)
        await asyncio.sleep(10)
        assert world.pipe.waiting > 1 * MIB
        assert 36 * MIB - world.disk.used() > 3 * MIB, "no room to free what is acknowledged"
        await world.reader()
        await asyncio.sleep(10)
        await world.settle()
        (stored,) = world.sent()
        assert stored.content == text
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


@pytest.mark.parametrize("forget", [False, True])
@pytest.mark.parametrize("damaged", [(0,), (4,), (4, 5), (2, 6), (9,), range(10)])
def test_what_the_disk_damaged_is_a_gap_and_all_else_comes__P4(
    damaged: Sequence[int], *, forget: bool
) -> None:
    async def story() -> None:
        world, port = syslog_world()
        world.begin()
        messages = [b"<13>%d " % number + b"x" * 1000 for number in range(10)]
        for message in messages:
            port.send(message, "10.0.0.1:1")
            await asyncio.sleep(0.5)
        await world.stop()
        for number in damaged:
            _damage(world, messages[number])
        if forget:
            world.forget()
        world.begin()
        await world.reader()
        await asyncio.sleep(5)
        port.send(b"<13>after", "10.0.0.1:1")
        await asyncio.sleep(5)
        await world.settle()
        (stored,) = world.sent(UDP)
        whole = [message for number, message in enumerate(messages) if number not in damaged]
        assert stored.content == b"".join(message + b"\n" for message in [*whole, b"<13>after"])
        assert {reason for _, _, reason, _ in stored.gaps} == {"damaged"}
        size = len(messages[0]) + 1
        assert sum(end - start for start, end, _, _ in stored.gaps) == len(damaged) * size
        await world.stop()

    run(story())


def test_a_spool_that_can_not_be_opened_is_to_be_moved_away_and_is_a_gap_then__P4() -> None:
    async def story() -> None:
        world, port = syslog_world()
        world.begin()
        messages = [b"<13>%d " % number + b"x" * 1000 for number in range(3)]
        for message in messages:
            port.send(message, "10.0.0.1:1")
            await asyncio.sleep(2)
        await world.kill()
        _damage(world, messages[0])
        world.begin()
        await asyncio.sleep(1)
        assert world._task is not None
        with pytest.raises(StorageError, match=r"damaged.*: .* move /state/spool away"):
            await world._task

        for name in world.disk.names("/state/spool"):
            world.disk.remove(f"/state/spool/{name}")
        await world.reader()
        world.begin()
        await asyncio.sleep(1)
        port.send(b"<13>after", "10.0.0.1:1")
        await asyncio.sleep(5)
        await world.settle()
        lost, after = sorted(world.sent(UDP), key=lambda stored: len(stored.content))
        assert [gap[2] for gap in lost.gaps] == ["removed"]
        assert lost.gaps[0][:2] == (0, 3 * (len(messages[0]) + 1))
        assert after.content == b"<13>after\n"
        await world.stop()

    run(story())


def _damage(world: SpoolWorld, text: bytes) -> None:
    """Change a byte of *text*, wherever the spool has it."""
    for name in world.disk.names("/state/spool"):
        path = f"/state/spool/{name}"
        content = world.disk.content(path)
        if text in content:
            world.disk.remove(path)
            world.disk.write(path, content.replace(text, b"?" + text[1:]), durable=True)


def test_datagrams_that_the_kernel_dropped_are_told_and_a_gap__P4() -> None:
    async def story() -> None:
        world, port = syslog_world()
        await world.reader()
        port.drops = (1 << 32) - 5  # the kernel's counter wraps
        with capture_logs() as said:
            world.begin()
            port.send(b"<13>first", "10.0.0.1:1")
            await asyncio.sleep(5)
            port.drops = 3
            port.send(b"<13>second", "10.0.0.1:1")
            await asyncio.sleep(5)
            port.send(b"<13>third", "10.0.0.1:1")
            await world.settle()
            await world.stop()
        (warning,) = [entry for entry in said if entry["log_level"] == "warning"]
        assert (warning["lost_messages"], warning["input"]) == (8, UDP)
        (stored,) = world.sent(UDP)
        assert stored.content == b"<13>first\n<13>second\n<13>third\n"
        assert [(end - start, reason) for start, end, reason, _ in stored.gaps] == [
            (16, "overflow")
        ]

    run(story())


def test_of_lost_datagrams_the_last_number_that_is_told_is_the_whole_one() -> None:
    async def story(stops: int) -> int:
        world, port = syslog_world(spool_bytes=8 * MIB)
        with capture_logs() as said:
            world.begin()
            for _ in range(300):  # 18 MB in 30 s
                port.send(b"x" * 60_000, "10.0.0.1:1")
                await asyncio.sleep(0.1)
            await asyncio.sleep(stops)
            await world.stop()
        told = [entry for entry in said if entry["event"].startswith("messages lost")]
        assert len(told) == 2, "one at the beginning, and one of all"
        assert told[0]["lost_messages"] < told[1]["lost_messages"]
        return int(told[1]["lost_messages"])

    total = 300 - 8 * MIB // 60_064
    assert abs(run(story(90)) - total) <= 2
    assert abs(run(story(1)) - total) <= 2


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
        with pytest.raises(TransientError, match="reset"):  # one too many is turned away
            await third.read()
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


def test_what_waits_in_the_spool_is_counted_as_unread() -> None:
    async def story() -> None:
        world = SpoolWorld()
        world.begin()
        with capture_logs() as said:
            world.pipe.write(lines(0, 100))
            await world.spooled()
            assert world.agent is not None
            assert world.agent.status().unread_bytes == len(lines(0, 100))
            await asyncio.sleep(61)
        minutes = [entry for entry in said if entry["event"] == "in the last minute"]
        assert [entry["unread_bytes"] for entry in minutes] == [len(lines(0, 100))]
        await world.reader()
        await world.settle()
        assert world.agent.status().unread_bytes == 0
        await world.stop()

    run(story())


def test_a_segment_is_deleted_only_once_the_checkpoint_says_that_it_has_ended__S5(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(file: CheckpointFile, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "no room")

    async def story() -> None:
        world = SpoolWorld(stdin={}, pipe=[{"path": PIPE}])
        await world.reader()
        world.begin()
        world.local.stdin.write(lines(0, 10))
        await world.settle()
        await asyncio.sleep(5)  # a checkpoint says that it is open
        with monkeypatch.context() as patched, capture_logs() as said:
            patched.setattr(CheckpointFile, "write_snapshot", refuse)
            world.local.stdin.end_writing()
            await world.settle()
            await asyncio.sleep(5)
            (stored,) = world.sent("stdin")
            assert stored.ended is not None
            await world.kill()
        assert any(entry["event"].startswith("checkpoint not written") for entry in said)

        world.local.new_stdin()
        with capture_logs() as said:
            world.begin()
            await world.settle()
            await asyncio.sleep(5)
        assert not [entry for entry in said if entry["log_level"] == "warning"]
        assert [each.content for each in world.sent("stdin")] == [lines(0, 10)]
        assert _spooled_names(world) == []
        await world.stop()

    run(story())


def _spooled_names(world: SpoolWorld) -> list[str]:
    """Return the paths of the sources that are in the spool of a running agent."""
    assert world.agent is not None
    (service,) = world.agent._parts.input_services._services
    assert isinstance(service, SpoolInput)
    return [stream.segment.name for stream in service._spool.streams([])]
