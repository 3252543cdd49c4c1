"""The checkpoint is whole or missing, and nothing is known only from it (D5, P2)."""

import os
import random
from uuid import UUID

import msgspec
import pytest
from structlog.testing import capture_logs

from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.checkpoint.file import (
    Checkpoint,
    CheckpointDamagedError,
    CheckpointFile,
    encode_checkpoint,
)
from agent.sources.paths import path_from_text, path_to_text, printable_path
from logdrive.errors import StorageError
from logdrive.host import faults
from tests.agent.world import LOG, World, contents, lines
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


def entry(number: int = 5) -> CheckpointEntry:
    return CheckpointEntry(
        origin=UUID(int=number),
        stem=UUID(int=0),
        path="/a",
        name="/a.1",
        mount="/",
        device=1,
        inode=2,
        span=3,
        crc=4,
        number=number << 16,
    )


def test_a_checkpoint_that_was_written_is_read() -> None:
    disk = MemoryDisk(["/state"])
    file = CheckpointFile(disk, "/state")
    assert file.load_checkpoint("a") is None
    written = Checkpoint(agent="a", entries=[entry(), entry(6)])
    file.write_snapshot(encode_checkpoint("a", 0, written.entries))
    assert file.load_checkpoint("a") == written


@pytest.mark.parametrize("entries", [0, 1, 3])
def test_entries_encoded_one_by_one_make_the_same_file(entries: int) -> None:
    checkpoint = Checkpoint(agent="a", written=7, entries=[entry(n) for n in range(entries)])
    encoded = encode_checkpoint("a", 7, iter(checkpoint.entries))
    assert encoded == msgspec.json.encode(checkpoint)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "can't be read"),
        (b'{"version":1,"agent":"a","entries":[{"origin":', "can't be read"),
        (b"\xff\xfe", "can't be read"),
        (b'{"version":2,"agent":"a"}', "version 2"),
        (b'{"version":1,"agent":"b"}', "belongs to the agent 'b'"),
    ],
)
def test_an_unusable_checkpoint_is_moved_aside(content: bytes, reason: str) -> None:
    disk = MemoryDisk(["/state"])
    file = CheckpointFile(disk, "/state")
    disk.write(file.path, content)
    with pytest.raises(CheckpointDamagedError, match=reason):
        file.load_checkpoint("a", touch=False)
    assert disk.content(file.path) == content
    with pytest.raises(CheckpointDamagedError) as caught:
        file.load_checkpoint("a")
    assert disk.content(caught.value.aside) == content
    assert file.load_checkpoint("a") is None


def test_every_crash_leaves_the_old_or_the_new_checkpoint() -> None:
    for seed in range(30):
        disk = MemoryDisk(["/state"])
        file = CheckpointFile(disk, "/state")
        old, new = (Checkpoint(agent="a", entries=[entry(number)] * 50) for number in (1, 2))
        file.write_snapshot(encode_checkpoint("a", 0, old.entries))
        crashed: list[MemoryDisk] = []
        faults.on_reach = lambda name, disk=disk, crashed=crashed, seed=seed: crashed.append(
            disk.crash(random.Random(seed))
        )
        try:
            file.write_snapshot(encode_checkpoint("a", 0, new.entries))
        finally:
            faults.on_reach = None
        found = [CheckpointFile(after, "/state").load_checkpoint("a") for after in crashed]
        assert len(found) == 3
        assert found[0] == old
        assert found[1] in (old, new)
        assert found[2] == new


def test_names_that_are_not_utf8_survive() -> None:
    for name in (b"/var/log/\xff\xfe.log", "/var/log/ä.log".encode(), b"/plain"):
        path = os.fsdecode(name)
        assert (
            path_from_text(msgspec.json.decode(msgspec.json.encode(path_to_text(path)), type=str))
            == path
        )
        printable_path(path).encode()


@pytest.mark.parametrize("damage", ["cut", "garbage", "removed"])
def test_a_damaged_checkpoint_costs_nothing__G3_D3(damage: str) -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        for number in range(5):
            world.write(lines(0, 100 + number), f"/logs/{number}.log")
        world.start()
        await world.settle()
        await world.stop()
        path = "/state/checkpoint.json"
        if damage == "cut":
            world.disk.cut(path, 40)
        elif damage == "garbage":
            world.disk.flip_bit(path, 0, 1)
        else:
            world.forget()
        sent = {source: stored.events for source, stored in reader.stored.items()}
        world.start()
        await world.settle()
        for number in range(5):
            assert contents(world.stored(f"/logs/{number}.log")) == [lines(0, 100 + number)]
        assert sum(sent.values()) == sum(stored.events for stored in reader.stored.values())
        await world.stop()

    run(main())


def test_a_full_disk_for_the_checkpoint_stops_nothing() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        for _ in range(100):
            world.disk.fail_write(28)
        file = world.disk._files[LOG]
        file.seen += lines(10, 10)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        world.disk._write_failures.clear()
        await world.clock.sleep(3)
        checkpoint = CheckpointFile(world.disk, "/state").load_checkpoint("a")
        assert checkpoint is not None
        assert checkpoint.entries[0].number >> 16 == 240
        await world.stop()

    run(main())


def test_ended_sources_leave_the_checkpoint_after_some_days__G6() -> None:
    async def main() -> None:
        world = World(end_after_seconds=5)
        world.settings["agent"]["keep_ended_days"] = 0.01
        await world.ships(lines(0, 10))
        world.disk.remove(LOG)
        await world.clock.sleep(20)
        agent = world.agent
        assert agent is not None
        assert len(agent.registry.ended) == 1
        await world.clock.sleep(900)
        world.write(lines(0, 10), "/logs/other.log")
        await world.clock.sleep(10)
        assert not agent.registry.ended
        assert len(agent.registry.incarnations) == 1
        await world.stop()

    run(main())


def test_a_full_disk_stops_no_line_and_is_logged_once() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        world.disk.capacity = 1
        for start in range(10, 60, 10):
            world.disk.capacity = None
            world.write(lines(start, 10))
            world.disk.capacity = 1
            await world.clock.sleep(10)
        assert contents(world.stored()) == [lines(0, 60)]
        world.disk.capacity = None
        await world.clock.sleep(10)
        await world.stop()

    with capture_logs() as log_lines:
        run(main())
    events = [each["event"] for each in log_lines if each["event"].startswith("checkpoint")]
    assert events == ["checkpoint not written: it is tried again", "checkpoint written again"]


def test_a_damaged_checkpoint_that_cannot_be_moved_aside_is_reported() -> None:
    class ReadOnly(MemoryDisk):
        def replace(self, source: str, target: str) -> None:
            raise OSError(30, "Read-only file system")

    disk = ReadOnly(["/state"])
    disk.write("/state/checkpoint.json", b"{")
    with pytest.raises(StorageError, match="Read-only"):
        CheckpointFile(disk, "/state").load_checkpoint("a")


def test_equal_values_of_entries_are_one_object_when_read() -> None:
    disk = MemoryDisk(["/state"])
    file = CheckpointFile(disk, "/state")
    written = [
        msgspec.structs.replace(
            entry(number), path="/a", name="/a", mount="/srv", device=1 << 40, store=UUID(int=7)
        )
        for number in (5, 6)
    ]
    file.write_snapshot(encode_checkpoint("a", 0, written))
    found = file.load_checkpoint("a")
    assert found is not None
    assert found.entries == written
    first, second = found.entries
    assert first.name is first.path
    for name in ("mount", "device", "store"):
        assert getattr(first, name) is getattr(second, name)
