"""Histories of rotated files that are compressed (G5)."""

import asyncio
import errno

import pytest

from logdrive.host.disk import File
from logdrive.model.units import MIB
from tests.agent.test_reload import reloaded
from tests.agent.world import LOG, World, contents, lines
from tests.simulation.hosts.compressing import SUFFIXES
from tests.support.reader_model import ReaderModel, Stored
from tests.support.virtual_time import run

ROTATED = f"{LOG}.1"
every_suffix = pytest.mark.parametrize("suffix", SUFFIXES)


def _sources(reader: ReaderModel) -> list[Stored]:
    """Return the sources of which anything is stored."""
    return [each for each in reader.stored.values() if each.data or each.gaps]


async def _over(world: World) -> None:
    """Wait until what is gone was looked for, and all is sent."""
    await world.clock.sleep(80)
    await world.settle()


def _rotate(world: World, name: str = ROTATED) -> bytes:
    world.disk.replace(LOG, name)
    return world.disk.content(name)


def _compress(world: World, suffix: str, name: str = ROTATED) -> None:
    world.write(SUFFIXES[suffix](world.disk.content(name)), name + suffix)
    world.disk.remove(name)


@every_suffix
def test_a_compressed_file_is_read_on_from_the_middle__G5(suffix: str) -> None:
    """It was rotated and compressed while the agent was away, with lines that were not sent."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 3000))
        await world.kill()
        world.write(lines(3000, 3000) + b"a last line without newline")
        data = _rotate(world)
        _compress(world, suffix)
        world.write(lines(0, 5, prefix="new"))
        world.start()
        await _over(world)
        old, new = _sources(reader)
        assert (old.content, old.ended, old.gaps) == (data, (len(data), "removed"), [])
        assert new.content == world.disk.content(LOG)
        await world.stop()

    run(main())


@every_suffix
@pytest.mark.parametrize("name", [ROTATED, "/logs/app.log-20261123", "/logs/app-20261123.log"])
def test_nothing_is_sent_again_of_a_file_that_is_compressed__G5_h14(suffix: str, name: str) -> None:
    async def main() -> None:
        world = World(paths=["/logs/app*"])
        reader = await world.ships(lines(0, 300))
        data = _rotate(world, name)
        world.write(lines(0, 5, prefix="new"))
        await world.clock.sleep(20)
        _compress(world, suffix, name)
        await _over(world)
        await world.kill()
        world.disk.replace(f"{name}{suffix}", f"{name}.0{suffix}")
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [data, world.disk.content(LOG)]
        assert not any(each.gaps for each in _sources(reader))
        await world.stop()

    run(main())


@every_suffix
def test_the_copy_of_a_truncated_file_may_be_compressed_at_once__G5(suffix: str) -> None:
    """Also where no input asks for it."""

    async def main() -> None:
        world = World(exclude=[f"/logs/*{suffix}"])
        reader = await world.ships(lines(0, 300))
        world.write(lines(300, 50) + b"half")
        data = world.disk.content(LOG)
        world.write(SUFFIXES[suffix](data), ROTATED + suffix)
        world.truncate()
        world.write(lines(0, 5, prefix="new"))
        await _over(world)
        old, new = _sources(reader)
        assert (old.content, old.ended, old.gaps) == (data, (len(data), "truncated"), [])
        assert new.content == world.disk.content(LOG)
        await world.stop()

    run(main())


@pytest.mark.parametrize("reload", [False, True], ids=["scan", "reload"])
def test_what_is_written_rotated_and_compressed_between_two_looks_is_sent_once__G5(
    reload: bool,
) -> None:
    """Also where the scan that finds the copy follows a reload."""

    async def main() -> None:
        world = World()
        reader = await world.ships(b"")
        await world.clock.sleep(100.1)  # so that a scan comes before the next look
        world.write(data := lines(0, 30))
        _rotate(world)
        _compress(world, ".gz")
        if reload:
            (table,) = world.settings["input"]
            await reloaded(world, input=[table | {"fields": {"input": "other"}}])
        await _over(world)
        assert contents(_sources(reader)) == [data]
        await world.stop()

    run(main())


def test_a_compressed_file_that_is_renamed_while_no_input_names_it_is_not_sent_again__G5() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 5, prefix="new"))
        world.write(SUFFIXES[".gz"](data := lines(0, 300)), f"{ROTATED}.gz")
        await _over(world)
        await world.stop()
        world.start()
        (table,) = world.settings["input"]
        await reloaded(world, input=[table | {"exclude": ["/logs/*.gz"]}])
        await _over(world)
        world.disk.replace(f"{ROTATED}.gz", f"{LOG}.2.gz")
        await reloaded(world, input=[table])
        await _over(world)
        assert contents(_sources(reader)) == [world.disk.content(LOG), data]
        await world.stop()

    run(main())


@every_suffix
def test_a_file_that_is_still_being_compressed_is_waited_for__G5(suffix: str) -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 3000))
        await world.kill()
        world.write(lines(3000, 3000))
        data = _rotate(world)
        packed = SUFFIXES[suffix](data)
        world.disk.remove(ROTATED)
        world.start()
        for begin in range(0, len(packed), 1 + len(packed) // 6):
            world.write(packed[begin : begin + 1 + len(packed) // 6], ROTATED + suffix)
            await world.clock.sleep(5)
        await _over(world)
        (old,) = _sources(reader)
        assert (old.content, old.gaps) == (data, [])
        await world.stop()

    run(main())


@every_suffix
def test_a_store_that_goes_back_gets_the_lines_of_a_compressed_file_again__G5_D5(
    suffix: str,
) -> None:
    """Several steps of unpacking lie between: the file is unpacked again up to there."""

    async def main() -> None:
        world = World()
        data = lines(0, 2 * MIB // 6)  # 4 MiB
        reader = await world.ships(data[: MIB // 2])
        await world.kill()
        world.write(data[MIB // 2 :])
        _rotate(world)
        _compress(world, suffix)
        reader.ack_seconds = 0.5
        world.start()
        await world.clock.sleep(2)
        backup = reader.backup()
        await world.clock.sleep(3)
        await world.crash_reader()
        reader.stored = backup
        await world.reader(model=reader)
        await _over(world)
        (old,) = _sources(reader)
        assert old.content == data
        assert (old.gaps, old.ended) == ([], (len(data), "removed"))
        await world.stop()

    run(main())


@pytest.mark.parametrize("unknown", ["skip", "ship"])
@every_suffix
def test_an_unknown_compressed_file_obeys_the_setting__G5(suffix: str, unknown: str) -> None:
    """A second start without a checkpoint tells nothing again."""

    async def main() -> None:
        world = World(unknown_compressed=unknown)
        reader = await world.reader()
        data = lines(0, 300)
        world.write(SUFFIXES[suffix](data), ROTATED + suffix)
        await world.clock.sleep(100)  # it was there before the agent
        for _ in range(2):
            world.start()
            await _over(world)
            (only,) = _sources(reader)
            reason = "shipped" if unknown == "ship" else "not_wanted"
            assert only.content == (data if unknown == "ship" else b"")
            assert only.ended == (len(data), reason)
            assert only.gaps == ([] if unknown == "ship" else [(0, len(data), reason, True)])
            await world.stop()
            world.forget()

    run(main())


def test_after_a_clock_was_set_back_a_new_compressed_file_is_sent_and_an_old_one_not__G5() -> None:
    async def main() -> None:
        world = World()
        world.disk.now_ns = lambda: world.clock.now_ms() * 1_000_000
        reader = await world.ships(lines(0, 1))
        await world.clock.sleep(10)
        await world.stop()
        world.clock.wall_ms -= 3_600_000
        world.write(SUFFIXES[".gz"](lines(100, 300)), "/logs/old.log.1.gz")
        await world.clock.sleep(10)
        world.start()
        await world.clock.sleep(10)
        world.write(SUFFIXES[".gz"](lines(500, 300)), "/logs/new.log.1.gz")
        await _over(world)
        sent = {each.path: (each.content, each.ended) for each in reader.stored.values()}
        size = len(lines(100, 300))
        assert sent["/logs/old.log.1.gz"] == (b"", (size, "not_wanted"))
        assert sent["/logs/new.log.1.gz"] == (lines(500, 300), (size, "shipped"))
        await world.stop()

    run(main())


def test_what_is_written_and_compressed_while_an_agent_drains_is_no_unknown_file__G5() -> None:
    """Its checkpoint is written when that is over, and says when it looked for files last."""

    async def main() -> None:
        world = World()
        world.disk.now_ns = lambda: world.clock.now_ms() * 1_000_000
        reader = await world.reader()
        await world.crash_reader()
        world.write(lines(0, 1))
        world.start()
        await world.clock.sleep(3)
        stopping = asyncio.create_task(world.stop())
        await world.clock.sleep(3)
        world.write(lines(1, 300))
        data = _rotate(world)
        _compress(world, ".gz")
        await stopping
        await world.reader()
        world.start()
        await _over(world)
        assert contents([each for each in _sources(reader) if each.data]) == [data]
        await world.stop()

    run(main())


@pytest.mark.parametrize("size", [2, 300], ids=lambda size: f"{size} lines")
@pytest.mark.parametrize("starts", [1, 3])
def test_a_compressed_file_that_waits_for_a_receiver_is_sent_after_more_starts__G5(
    starts: int, size: int
) -> None:
    """It came while no agent ran, and each start but the last ends before a receiver is there."""

    async def main() -> None:
        world = World()
        world.disk.now_ns = lambda: world.clock.now_ms() * 1_000_000
        reader = await world.ships(lines(0, 1))
        await world.kill()
        await world.clock.sleep(100)
        world.write(lines(0, size, prefix="new"), ROTATED)
        _compress(world, ".gz")
        await world.crash_reader()
        for _ in range(starts):
            world.start()
            await world.clock.sleep(20)
            await world.kill()
        await world.reader()
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [lines(0, 1), lines(0, size, prefix="new")]
        await world.stop()

    run(main())


@pytest.mark.parametrize("taken", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("size", [2, 300], ids=lambda size: f"{size} lines")
def test_a_compressed_file_of_its_own_comes_once_whenever_the_agent_is_killed__G5(
    size: int, taken: bool
) -> None:
    """Its end is made as soon as it is read, and may be in the checkpoint before its bytes are
    stored, or before the agent knows that they are.
    """

    async def main() -> None:
        for tenths in range(2, 42, 2):
            world = World(unknown_compressed="ship")
            reader = await world.reader()
            reader.ack_seconds = 1.5
            reader.fail = lambda run: not taken
            world.write(SUFFIXES[".gz"](lines(0, size)), ROTATED + ".gz")
            await world.clock.sleep(100)
            world.start()
            await world.clock.sleep(tenths / 10)
            await world.kill()
            reader.ack_seconds, reader.fail = 0.001, lambda run: False
            world.start()
            await _over(world)
            (only,) = _sources(reader)
            assert (only.content, only.gaps) == (lines(0, size), []), tenths
            assert only.ended == (len(lines(0, size)), "shipped")
            await world.stop()

    run(main())


def test_a_compressed_file_of_its_own_that_changes_before_it_is_stored_is_a_gap__G5() -> None:
    """The agent is killed with all of it read, and finds another file there."""

    async def main() -> None:
        world = World(unknown_compressed="ship")
        reader = await world.reader()
        reader.fail = lambda run: True
        world.write(SUFFIXES[".gz"](lines(0, 300)), ROTATED + ".gz")
        await world.clock.sleep(100)
        world.start()
        await world.clock.sleep(5)
        await world.kill()
        reader.fail = lambda run: False
        world.disk.remove(ROTATED + ".gz")
        world.write(SUFFIXES[".gz"](lines(500, 300)), ROTATED + ".gz")
        world.start()
        await _over(world)
        old, new = sorted(_sources(reader), key=lambda each: bool(each.data))
        size = len(lines(0, 300))
        assert (old.content, old.gaps) == (b"", [(0, size, "removed", True)])
        assert (new.content, new.gaps) == (lines(500, 300), [])
        await world.stop()

    run(main())


def test_a_compressed_file_unreadable_for_an_hour_is_sent_once_it_can_be_read__G5() -> None:
    """The agent was killed with all of it read and nothing stored; its gap is told by then."""

    async def main() -> None:
        world = World(unknown_compressed="ship")
        reader = await world.reader()
        reader.fail = lambda run: True
        world.write(SUFFIXES[".gz"](lines(0, 300)), ROTATED + ".gz")
        await world.clock.sleep(100)
        world.start()
        await world.clock.sleep(5)
        await world.kill()

        reader.fail = lambda run: False
        open_file = world.disk.open

        def deny(path: str, **how: bool) -> File:
            if path == ROTATED + ".gz":
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return open_file(path, **how)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.disk, "open", deny)
            world.start()
            await world.clock.sleep(4000)
            await world.settle()
        (gap,) = _sources(reader)
        assert gap.gaps == [(0, len(lines(0, 300)), "removed", True)]
        await _over(world)
        (sent,) = [each for each in _sources(reader) if each is not gap]
        assert (sent.content, sent.gaps) == (lines(0, 300), [])
        await world.stop()

    run(main())


def test_a_compressed_file_is_settled_in_the_checkpoint_that_has_its_source__G5() -> None:
    """Its end may be in a checkpoint before the agent leaves the file."""

    async def main() -> None:
        world = World(unknown_compressed="ship")
        world.write(SUFFIXES[".gz"](lines(0, 300)), ROTATED + ".gz")
        await world.clock.sleep(100)
        agent = world.start()
        await world.clock.sleep(3)
        assert len(agent.registry.sources) == 1, "no receiver was there"
        assert [stamp.inode for stamp in agent.registry.copies] == [
            world.disk.stat(ROTATED + ".gz").inode
        ]
        await world.kill()

    run(main())


@every_suffix
@pytest.mark.parametrize("how", ["cut", "changed", "other"])
def test_a_damaged_file_is_a_gap_and_a_warning__G5_P4(
    suffix: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        packed = bytearray(SUFFIXES[suffix](lines(0, 5000)))
        if how == "cut":
            del packed[-7:]
        elif how == "changed":
            packed[len(packed) // 2] ^= 0xFF
        else:
            packed[:] = bytes(5000)
        world.write(bytes(packed), ROTATED + suffix)
        world.write(lines(0, 5))
        world.start()
        await world.clock.sleep(100)
        await _over(world)
        by_path = {each.path: each for each in reader.stored.values() if each.number > 0}
        assert by_path[LOG].content == lines(0, 5), "the other file is not kept waiting"
        damaged = by_path[ROTATED + suffix]
        assert damaged.ended is not None
        assert damaged.ended[1] == "damaged"
        assert not damaged.data
        await world.stop()

    run(main())
    assert "compressed file is damaged" in capsys.readouterr().out


def test_what_a_damaged_copy_lacks_is_a_gap__G5_P4() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 300))
        world.write(b"half a line")
        await world.clock.sleep(1)
        await world.kill()
        data = _rotate(world)
        world.write(SUFFIXES[".gz"](data)[:-20], f"{ROTATED}.gz")
        world.disk.remove(ROTATED)
        world.start()
        await _over(world)
        await world.clock.sleep(60)
        (old,) = _sources(reader)
        assert old.gaps == [(len(data) - 11, len(data), "removed", False)]
        await world.stop()

    run(main())
