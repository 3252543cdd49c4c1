"""Histories of copies: what copytruncate leaves, and files that replace others (G5)."""

import errno
import os

import pytest
from structlog.testing import capture_logs

from tests.agent.world import LOG, World, contents, lines
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.reader_model import ReaderModel, Stored
from tests.support.virtual_time import run

COPY = f"{LOG}.1"
NEXT = lines(0, 10, prefix="next")
HEADER = b"time,level,message\n"


def _sources(reader: ReaderModel) -> list[Stored]:
    """Return the sources of which anything is stored."""
    return [each for each in reader.stored.values() if each.data or each.gaps]


async def _over(world: World) -> None:
    """Wait until a copy that is at rest counts as whole, and all is sent."""
    await world.clock.sleep(15)
    await world.settle()


async def _ship_behind_the_checkpoint(world: World, data: bytes) -> None:
    """Let *data* be shipped, and the agent be killed before its checkpoint knows of it."""
    await world.clock.sleep(2)
    kept = world.disk.content("/state/checkpoint.json")
    world.write(data)
    await world.clock.sleep(1)
    await world.settle()
    await world.kill()
    world.forget()
    world.write(kept, "/state/checkpoint.json")


def _copytruncate(world: World, to: str = COPY) -> bytes:
    data = world.disk.content(LOG)
    world.write(data, to)
    world.truncate()
    return data


def _rename_when_opened(disk: MemoryDisk) -> None:
    """Rename the log between the look at its name and the opening."""
    opened = disk.open

    def open_renamed(path: str, **options: bool) -> MemoryFile:
        if path == LOG and LOG in disk.paths():
            disk.replace(LOG, f"{LOG}.2")
        return opened(path, **options)

    disk.open = open_renamed  # type: ignore[method-assign]


async def _see_a_life_go_untold(world: World) -> tuple[int, int, str, bool]:
    """Let a life be seen by an agent without a receiver, and be truncated while none runs.

    Returns its gap.
    """
    life = HEADER + NEXT * 100
    world.write(life)
    await world.crash_reader()
    world.start()
    await world.clock.sleep(3)
    await world.kill()
    world.truncate()
    return 0, len(life), "truncated", False


@pytest.mark.parametrize("size", [1, 20, 200, 20_000], ids=lambda size: f"{size} lines")
@pytest.mark.parametrize("to", [COPY, "/logs/app-1.log", "/logs/app.bak"])
def test_lines_that_only_the_copy_has_are_read_from_it__G5_G3_h06_h27(size: int, to: str) -> None:
    """They were written while no receiver was there; the copy's name may match an input or not."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, size))
        await world.crash_reader()
        world.write(lines(size, 50))
        await world.clock.sleep(1)
        data = _copytruncate(world, to)
        world.write(NEXT)
        await world.clock.sleep(1)
        await world.reader()
        await _over(world)
        old, new = _sources(reader)
        assert (old.content, old.ended, old.gaps) == (data, (len(data), "truncated"), [])
        assert (new.content, new.ended) == (NEXT, None)
        await world.stop()

    run(main())


def test_a_copy_that_was_truncated_between_two_looks_has_what_was_never_seen__G5() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 200))
        world.write(lines(200, 100))
        data = _copytruncate(world)  # no look came between
        world.write(NEXT)
        await _over(world)
        assert contents(_sources(reader)) == [data, NEXT]
        assert [each.ended for each in _sources(reader)] == [(len(data), "truncated"), None]
        assert not any(each.gaps for each in _sources(reader)), "its end is known exactly"
        await world.stop()

    run(main())


@pytest.mark.parametrize("sent", [True, False], ids=["sent", "not sent"])
def test_of_a_life_of_which_only_the_first_line_was_read_the_copy_is_a_file_of_its_own__G5(
    *, sent: bool
) -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        if not sent:
            await world.crash_reader()
        world.start()
        world.write(lines(0, 1))
        await world.clock.sleep(6)
        world.write(lines(1, 20))
        data = _copytruncate(world)
        world.write(NEXT)
        await world.clock.sleep(30)
        if not sent:
            await world.reader()
        await world.clock.sleep(60)
        await world.settle()
        life, *others = _sources(reader)
        assert contents(others) == [NEXT, data]
        assert life.content == (lines(0, 1) if sent else b"")
        assert life.ended == (len(lines(0, 1)), "truncated")
        assert life.gaps == ([] if sent else [(0, len(lines(0, 1)), "truncated", False)])
        await world.stop()

    run(main())


def test_a_copy_that_grows_for_a_while_is_no_source_of_its_own__G5_h14() -> None:
    """cp is slow: the copy is looked at many times before it is whole."""

    async def main() -> None:
        world = World()
        data = lines(0, 4000)
        reader = await world.ships(data)
        for begin in range(0, len(data), 5000):
            world.write(data[begin : begin + 5000], COPY)
            await world.clock.sleep(2)
        world.truncate()
        world.write(NEXT)
        await _over(world)
        assert contents(_sources(reader)) == [data, NEXT]
        await world.stop()

    run(main())


def test_a_copy_that_appears_after_the_truncation_is_found__G5() -> None:
    """Such as one that is moved here from another file system."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 200))
        world.write(b"half a line")
        await world.clock.sleep(1)
        data = world.disk.content(LOG)
        world.truncate()
        await world.clock.sleep(4)
        world.write(data, COPY)
        await _over(world)
        (old,) = _sources(reader)
        assert (old.content, old.ended, old.gaps) == (data, (len(data), "truncated"), [])
        await world.stop()

    run(main())


def test_without_a_copy_what_was_not_read_is_a_gap__G5_P4() -> None:
    """A file beside it that begins alike but is another does not count."""

    async def main() -> None:
        world = World()
        header = b"# constant header of every life\n"
        reader = await world.ships(header + lines(0, 200))
        world.write(b"half a line")
        await world.clock.sleep(1)
        world.write(header + lines(0, 300, prefix="other"), COPY)
        end = len(world.disk.content(LOG))
        world.truncate()
        await _over(world)
        old, other = _sources(reader)
        assert old.gaps == [(end - 11, end, "truncated", False)]
        assert other.content == world.disk.content(COPY)
        await world.stop()

    run(main())


def test_the_copy_is_looked_for_again_after_a_restart__G5_h27() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 200))
        await world.crash_reader()
        world.write(lines(200, 5000))
        await world.clock.sleep(2)
        data = _copytruncate(world)
        world.write(NEXT)
        await world.clock.sleep(3)
        await world.kill()
        world.disk.replace(COPY, f"{LOG}.2")
        await world.reader()
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [data, NEXT]
        assert not any(each.gaps for each in _sources(reader))
        await world.stop()

    run(main())


def test_a_file_truncated_while_the_agent_was_away_is_read_on_from_its_copy__G5() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 200))
        await world.kill()
        world.write(lines(200, 100))
        data = _copytruncate(world)
        world.write(NEXT)
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [data, NEXT]
        await world.stop()

    run(main())


def test_a_copy_is_settled_for_good__G5() -> None:
    """Also after its generation was forgotten, and over restarts; not once it has changed."""

    async def main() -> None:
        world = World()
        world.settings["agent"]["keep_ended_days"] = 0.01
        reader = await world.ships(lines(0, 200))
        data = _copytruncate(world)
        world.write(NEXT)
        await _over(world)
        await world.clock.sleep(2000)
        world.write(lines(10, 10, prefix="next"))
        await world.settle()
        assert world.agent is not None
        assert not world.agent.registry.ended, "it is forgotten"
        await world.stop()
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [data, world.disk.content(LOG)]
        world.write(b"another line\n", COPY)
        await _over(world)
        assert len(_sources(reader)) == 3
        await world.stop()

    run(main())


def test_a_file_that_is_copied_and_written_on_becomes_two_sources__G5() -> None:
    """As long as the copy has nothing that the file lacks it is held, then it is one of its own."""

    async def main() -> None:
        world = World()
        data = lines(0, 300)
        reader = await world.ships(data)
        world.write(data, "/logs/app-2.log")
        await world.clock.sleep(60)
        assert contents(_sources(reader)) == [data]
        world.write(lines(300, 10, prefix="more"), "/logs/app-2.log")
        world.write(lines(300, 10))
        await _over(world)
        assert contents(_sources(reader)) == [
            world.disk.content(LOG),
            world.disk.content("/logs/app-2.log"),
        ]
        await world.stop()

    run(main())


def test_a_file_of_another_name_is_sent_though_it_has_the_same_bytes__G5() -> None:
    """As the log of the next build has, of the same program: it is never held."""

    async def main() -> None:
        world = World()
        data = lines(0, 300)
        reader = await world.ships(data)
        world.write(data, "/logs/other.log")
        await world.clock.sleep(5)
        assert contents(_sources(reader)) == [data, data]
        world.disk.remove(LOG)
        await world.clock.sleep(300)
        world.write(data, "/logs/third.log")
        await _over(world)
        assert contents(_sources(reader)) == [data] * 3, "of a file that has ended, too"
        await world.stop()

    run(main())


def test_rotated_files_with_the_same_bytes_are_all_sent_though_they_are_removed_soon__G5() -> None:
    """A hundred files of one text lost two of three bytes where two rotated files were kept."""

    async def main() -> None:
        world = World()
        data = lines(0, 300)
        reader = await world.ships(data)
        names = [f"/logs/{number}.log" for number in range(5)]
        for name in names:
            world.write(data, name)
            world.disk.replace(name, f"{name}.1")
            world.write(data[:2400], name)
        await world.clock.sleep(6)  # a scan has found them
        for name in names:
            world.disk.remove(f"{name}.1")
        await world.clock.sleep(6)
        for name in names:
            world.write(data[2400:], name)
        await _over(world)
        assert contents(_sources(reader)) == [data] * 11
        await world.stop()

    run(main())


def test_a_run_that_writes_the_same_as_the_one_before_is_sent_beside_the_renamed_file__G5() -> None:
    """As a report that is made each day, all at once."""

    async def main() -> None:
        world = World()
        data = lines(0, 300)
        reader = await world.ships(data)
        world.disk.replace(LOG, f"{LOG}.1")
        world.write(data)
        await _over(world)
        assert contents(_sources(reader)) == [data, data]
        await world.stop()

    run(main())


def test_a_file_that_an_editor_has_replaced_lives_on_in_the_new_one__G5() -> None:
    async def main() -> None:
        world = World()
        data = lines(0, 300)
        reader = await world.ships(data)
        world.write(data + lines(300, 5), "/logs/app.swp")
        world.disk.replace("/logs/app.swp", LOG)
        await world.clock.sleep(20)
        world.write(lines(305, 5))
        await _over(world)
        (only,) = _sources(reader)
        assert (only.content, only.ended) == (lines(0, 310), None)
        await world.kill()
        world.write(lines(310, 5))
        world.start()
        await world.settle()
        assert contents(_sources(reader)) == [lines(0, 315)]
        await world.stop()

    run(main())


@pytest.mark.parametrize("seen_by", ["open", "closed"])
def test_the_copies_of_a_host_without_a_checkpoint_are_known_by_the_store__G5_D4_h14(
    seen_by: str,
) -> None:
    """Their lives' ids are made of the inode that the truncated file has still."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 300, prefix="first"))
        if seen_by == "open":
            await world.kill()
            world.write(lines(300, 50, prefix="first"))
        first = _copytruncate(world)
        world.write(lines(0, 300, prefix="second"))
        if seen_by == "closed":
            await _over(world)
            await world.kill()
        world.forget()
        world.write(lines(300, 10, prefix="second"))
        world.start()
        await _over(world)
        assert sorted(contents(_sources(reader))) == sorted([first, world.disk.content(LOG)])
        by_content = {each.content: each for each in _sources(reader)}
        assert by_content[first].ended == (len(first), "truncated")
        await world.stop()

    run(main())


@pytest.mark.parametrize("size", [1, 2, 300], ids=lambda size: f"{size} lines")
@pytest.mark.parametrize("asked", ["at once", "after a restart"])
def test_the_store_knows_copies_of_lives_that_the_checkpoint_lacks__G5_D4(
    size: int, asked: str
) -> None:
    """It lags behind: the life was sent after it was written."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 5), "/logs/other.log")
        await _ship_behind_the_checkpoint(world, lines(0, size))
        data = _copytruncate(world)
        if asked == "after a restart":
            await world.crash_reader()
            world.start()
            await world.clock.sleep(3)
            await world.kill()
            await world.reader()
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [lines(0, 5), data]
        assert _sources(reader)[1].ended == (len(data), "truncated")
        await world.stop()

    run(main())


def test_a_copy_made_before_its_file_could_be_read_since_the_start_is_known__G5_D4(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The checkpoint lags behind: only the store knows what the file had."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 5), "/logs/other.log")
        await _ship_behind_the_checkpoint(world, lines(0, 20))

        disk, readable = world.disk, world.disk.open

        def fail(path: str, **how: bool) -> MemoryFile:
            if path == LOG and not how:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return readable(path, **how)

        monkeypatch.setattr(disk, "open", fail)
        world.start()
        await world.clock.sleep(2)
        data = _copytruncate(world)
        world.write(NEXT)
        await world.clock.sleep(6)
        monkeypatch.setattr(disk, "open", readable)
        await _over(world)
        assert contents(_sources(reader)) == [lines(0, 5), data, NEXT]
        await world.stop()

    run(main())


@pytest.mark.parametrize("size", [1, 2, 300], ids=lambda size: f"{size} lines")
def test_a_copy_that_the_store_knew_is_known_to_the_next_start__G5(size: int) -> None:
    """It is killed while the copy waits for its rest; the name is that of the truncated file."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, size))
        await world.kill()
        world.forget()
        data = _copytruncate(world)
        world.start()
        await world.clock.sleep(3)
        await world.kill()
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [data]
        assert _sources(reader)[0].ended == (len(data), "truncated")
        await world.stop()

    run(main())


@pytest.mark.parametrize("then", ["renamed", "removed", "renamed amid the start"])
def test_a_copy_is_known_though_the_truncated_file_has_gone_before_the_store_was_asked__G5_D4(
    then: str,
) -> None:
    """The checkpoint has its inode by then."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 300))
        await world.kill()
        world.forget()
        data = _copytruncate(world)
        world.write(NEXT)
        await world.crash_reader()
        world.start()
        await world.clock.sleep(3)
        await world.kill()
        if then == "renamed":
            world.disk.replace(LOG, f"{LOG}.2")
        elif then == "removed":
            world.disk.remove(LOG)
        else:
            _rename_when_opened(world.disk)
        await world.reader()
        world.start()
        await _over(world)
        assert contents(_sources(reader))[0] == data
        assert data not in contents(_sources(reader))[1:]
        await world.stop()

    run(main())


def test_the_number_of_a_copied_life_is_not_that_of_the_next_one_gone_before_a_start__G3_G5() -> (
    None
):
    """Both have one first line. Of the second the checkpoint says how it ended."""

    async def main() -> None:
        world = World()
        reader = await world.ships(HEADER + lines(0, 300))
        await world.kill()
        world.forget()
        data = _copytruncate(world)
        gap = await _see_a_life_go_untold(world)
        reader = await world.reader()
        world.start()
        await _over(world)
        stored = _sources(reader)
        assert contents([each for each in stored if each.data]) == [data]
        assert [told for each in stored for told in each.gaps] == [gap]
        await world.stop()

    run(main())


def test_a_file_with_the_first_line_of_one_that_only_a_copy_can_tell_is_not_held_for_ever__G5() -> (
    None
):
    """The store has a number that may be its own or another's; its bytes are gone."""

    async def main() -> None:
        world = World()
        reader = await world.ships(HEADER + lines(0, 300))
        await world.kill()
        world.forget()
        world.truncate()
        gap = await _see_a_life_go_untold(world)
        later = HEADER + lines(0, 50, prefix="later")
        world.write(later, f"{LOG}.2")
        reader = await world.reader()
        world.start()
        await world.clock.sleep(30)
        await _over(world)
        assert later in contents([each for each in _sources(reader) if each.data])
        assert [told for each in _sources(reader) for told in each.gaps] == [gap]
        await world.stop()

    run(main())


def test_a_copy_is_asked_for_once_the_next_life_has_its_count__G3_G5() -> None:
    """The checkpoint has neither: the next life takes the first count, and then the second."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 1), "/logs/other.log")
        await _ship_behind_the_checkpoint(world, HEADER + lines(0, 300))
        data = _copytruncate(world)
        await world.crash_reader()
        world.start()
        await world.clock.sleep(3)
        world.write(HEADER + NEXT)
        await world.clock.sleep(3)
        await world.reader()
        await _over(world)
        assert sorted(contents(_sources(reader))) == sorted([lines(0, 1), data, HEADER + NEXT])
        await world.stop()

    run(main())


def test_the_store_says_what_was_read_of_a_life_whose_first_line_the_checkpoint_has__G5_D4() -> (
    None
):
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 1))
        await world.clock.sleep(2)
        kept = world.disk.content("/state/checkpoint.json")
        world.write(lines(1, 1))
        await world.clock.sleep(1)
        await world.settle()
        await world.kill()
        world.forget()
        world.write(kept, "/state/checkpoint.json")
        data = _copytruncate(world)
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [data]
        assert _sources(reader)[0].ended == (len(data), "truncated")
        await world.stop()

    run(main())


def test_a_file_that_begins_as_another_does_not_take_its_registration__G5_D4() -> None:
    """The store is asked for the ids of the file beside it, but for that of its living source."""

    async def main() -> None:
        world = World()
        reader = await world.ships(b"header\n" + lines(0, 300))
        await world.clock.sleep(2)
        await world.kill()
        world.write(b"header\n" + lines(0, 300, prefix="other"), COPY)
        world.start()
        await _over(world)
        own = f'"{LOG}"'.encode()
        named_so = [frame.origin for frame in reader.registered if own in frame.attributes]
        assert len(set(named_so)) == 8, "the ids of the file's other lives"
        assert named_so.count(named_so[0]) == 2, "once a start"
        assert len(_sources(reader)) == 2
        await world.stop()

    run(main())


def test_a_file_that_may_be_a_copy_can_be_counted_after_its_removal__G5_G3() -> None:
    """It is gone before the store has said what it is; the checkpoint has its first line."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 5), "/logs/other.log")
        await world.clock.sleep(2)
        await world.kill()
        await world.crash_reader()
        world.write(lines(0, 300, prefix="one"))
        world.write(lines(0, 300, prefix="two"), COPY)
        world.start()
        await world.clock.sleep(3)
        await world.kill()
        world.disk.remove(COPY)
        await world.reader()
        world.start()
        await _over(world)
        gone = [each for each in _sources(reader) if each.gaps]
        assert [each.ended for each in gone] == [(len(lines(0, 300, prefix="two")), "removed")]
        by_origin = {
            frame.origin for frame in reader.registered if COPY.encode() in frame.attributes
        }
        assert len(by_origin) == 8, "each of the counts asked for has an id of its own"
        await world.stop()

    run(main())


def test_the_store_has_the_end_of_a_life_whose_count_the_checkpoint_lacks__G5_D4() -> None:
    """Its first line is known, and no answer of the store."""

    async def main() -> None:
        world = World()
        world.write(lines(0, 300))
        world.start()
        await world.clock.sleep(3)  # no receiver has said what it has
        kept = world.disk.content("/state/checkpoint.json")
        reader = await world.reader()
        await _over(world)
        data = _copytruncate(world)
        await _over(world)
        await world.kill()
        world.forget()
        world.write(kept, "/state/checkpoint.json")
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [data]
        await world.stop()

    run(main())


@pytest.mark.parametrize("size", [1, 20], ids=lambda size: f"{size} lines")
def test_a_copy_of_a_file_that_lives_on_does_not_take_over_its_source__G5_D4(size: int) -> None:
    """The store has the lines of both under one name: they are the living file's."""

    async def main() -> None:
        world = World()
        data = lines(0, size)
        reader = await world.ships(data)
        await world.kill()
        world.forget()
        world.write(data, COPY)
        world.start()
        await _over(world)
        world.write(lines(size, 5))
        await _over(world)
        assert sorted(contents(_sources(reader))) == [data, world.disk.content(LOG)]
        assert [each.ended for each in _sources(reader)] == [None, None]
        await world.stop()

    run(main())


async def _held_until_the_store_answers(first: bytes, later: bytes) -> World:
    """Return a world in which `COPY` has *first*, and may be the rest of a file that is gone.

    Only the store can say how much it has of that one, which had *later*, too.
    """
    world = World()
    world.write(first + later)
    world.start()
    await world.clock.sleep(5)
    await world.kill()
    world.disk.remove(LOG)
    world.write(first, COPY)
    world.start()
    await world.clock.sleep(2)
    return world


def test_a_held_file_that_is_removed_is_read_once_the_store_has_answered__G5_G1() -> None:
    """Many files begin with one header: that is no proof that this one is a copy."""

    async def main() -> None:
        world = await _held_until_the_store_answers(HEADER, lines(0, 3))
        world.disk.remove(COPY)
        await world.clock.sleep(60)
        reader = await world.reader()
        await _over(world)
        assert HEADER in contents(_sources(reader))
        await world.stop()

    run(main())


def test_a_held_file_that_is_truncated_before_the_store_has_answered_is_a_gap__G5_P4() -> None:
    async def main() -> None:
        world = await _held_until_the_store_answers(HEADER, lines(0, 3))
        world.truncate(COPY)
        await world.clock.sleep(6)
        world.write(NEXT, COPY)
        await world.reader()
        await _over(world)
        following, held = world.stored(COPY)
        assert [gap[:2] for gap in held.gaps] == [(0, len(HEADER))]
        assert held.ended == (len(HEADER), "truncated")
        assert following.content == NEXT
        await world.stop()

    run(main())


def test_a_life_that_was_held_when_it_was_truncated_is_read_from_its_copy__G5() -> None:
    """It began as the one before, of which the store had yet to say how much it has."""

    async def main() -> None:
        world = World()
        first, held = HEADER + lines(0, 3, prefix="first"), HEADER + lines(0, 3, prefix="held")
        world.write(first)
        world.start()
        await world.clock.sleep(3)
        await world.kill()
        _copytruncate(world)
        world.start()
        await world.clock.sleep(1)
        world.write(held)
        await world.clock.sleep(3)
        _copytruncate(world, f"{LOG}.2")
        world.write(NEXT)
        await world.clock.sleep(3)
        reader = await world.reader()
        await _over(world)
        await _over(world)
        assert sorted(contents(_sources(reader))) == sorted([first, held, NEXT])
        assert not any(each.gaps for each in _sources(reader))
        await world.stop()

    run(main())


def test_a_life_is_not_taken_for_one_that_came_since_the_checkpoint__G3_G5() -> None:
    """That one was sent under the next count, and was truncated while the agent was away: nothing
    contradicts the store, so the audit must not look for what is there twice.
    """

    async def main() -> None:
        world = World()
        first, second, third = (
            HEADER + lines(0, 20, prefix=name) for name in ("1st", "2nd", "3rd")
        )
        reader = await world.ships(first)
        _copytruncate(world)
        await _over(world)
        await _ship_behind_the_checkpoint(world, second)
        _copytruncate(world, f"{LOG}.2")
        world.write(third)
        world.start()
        await _over(world)
        assert sorted(contents(_sources(reader))) == sorted([first, second, third])
        assert not any(b"resend" in frame.attributes for frame in reader.registered)
        await world.stop()

    run(main())


def test_a_lost_acknowledgement_of_a_copy_s_end_sends_nothing_again__G5_D3() -> None:
    """The store has the end record, the checkpoint does not, and the copy is still there."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 300))
        await world.kill()
        kept = world.disk.content("/state/checkpoint.json")
        data = _copytruncate(world)
        world.write(NEXT)
        world.start()
        await _over(world)
        await world.kill()
        world.forget()
        world.write(kept, "/state/checkpoint.json")
        world.start()
        await _over(world)
        assert contents(_sources(reader)) == [data, NEXT]
        await world.stop()

    run(main())


@pytest.mark.parametrize("copied", [False, True], ids=["removed", "copied and removed"])
def test_a_file_that_went_while_no_agent_ran_is_warned_of_unless_a_copy_has_its_rest__G5(
    copied: bool,
) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
        await world.stop()
        world.write(lines(100, 10))
        if copied:
            world.write(world.disk.content(LOG), f"{LOG}.1")
        world.disk.remove(LOG)
        world.start()
        await world.settle()
        await world.clock.sleep(60)
        (stored,) = world.stored()
        assert stored.content == lines(0, 110 if copied else 100)
        await world.stop()

    with capture_logs() as log_lines:
        run(main())
    gone = [each for each in log_lines if each["event"] == "file gone while the agent was away"]
    assert len(gone) == (not copied)
    assert copied or (gone[0]["path"], gone[0]["acknowledged"]) == (LOG, 1200)


def test_a_file_that_went_while_no_agent_ran_is_warned_of_once_though_the_receiver_is_away() -> (
    None
):
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
        await world.crash_reader()
        world.write(lines(100, 10))
        await world.clock.sleep(10)
        await world.kill()
        world.disk.remove(LOG)
        for _ in range(3):
            world.start()
            await world.clock.sleep(60)
            await world.kill()

    with capture_logs() as log_lines:
        run(main())
    assert [each["event"] for each in log_lines].count("file gone while the agent was away") == 1


def test_a_directory_is_listed_once_a_search_however_many_of_its_files_are_gone__G5(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        paths = [f"/logs/{number:02}.log" for number in range(20)]
        for path in paths:
            world.write(path.encode() + b"\n", path)
        world.start()
        await world.settle()
        await world.stop()
        for path in paths:
            world.disk.remove(path)

        listings, names = 0, world.disk.names

        def count(directory: str) -> list[str]:
            nonlocal listings
            listings += directory == "/logs"
            return names(directory)

        world.start()
        await world.clock.sleep(1)
        monkeypatch.setattr(world.disk, "names", count)
        await world.clock.sleep(5)
        # two searches a second, and scans
        assert listings < 20
        await world.stop()

    run(main())
