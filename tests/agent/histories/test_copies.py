"""Histories of copies: what copytruncate leaves, and files that replace others (G5)."""

import pytest

from tests.agent.histories.copied import COPY, NEXT, copytruncate, sources_of, until_at_rest
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run


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
        data = copytruncate(world, to)
        world.write(NEXT)
        await world.clock.sleep(1)
        await world.reader()
        await until_at_rest(world)
        old, new = sources_of(reader)
        assert (old.content, old.ended, old.gaps) == (data, (len(data), "truncated"), [])
        assert (new.content, new.ended) == (NEXT, None)
        await world.stop()

    run(main())


def test_a_copy_that_was_truncated_between_two_looks_has_what_was_never_seen__G5() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 200))
        world.write(lines(200, 100))
        data = copytruncate(world)  # no look came between
        world.write(NEXT)
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data, NEXT]
        assert [each.ended for each in sources_of(reader)] == [(len(data), "truncated"), None]
        assert not any(each.gaps for each in sources_of(reader)), "its end is known exactly"
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
        data = copytruncate(world)
        world.write(NEXT)
        await world.clock.sleep(30)
        if not sent:
            await world.reader()
        await world.clock.sleep(60)
        await world.settle()
        life, *others = sources_of(reader)
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
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data, NEXT]
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
        await until_at_rest(world)
        (old,) = sources_of(reader)
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
        await until_at_rest(world)
        old, other = sources_of(reader)
        assert old.gaps == [(end - 11, end, "truncated", False)]
        assert other.content == world.disk.content(COPY)
        await world.stop()

    run(main())


def test_a_copy_is_settled_for_good__G5() -> None:
    """Also after its generation was forgotten, and over restarts; not once it has changed."""

    async def main() -> None:
        world = World()
        world.settings["agent"]["keep_ended_days"] = 0.01
        reader = await world.ships(lines(0, 200))
        data = copytruncate(world)
        world.write(NEXT)
        await until_at_rest(world)
        await world.clock.sleep(2000)
        world.write(lines(10, 10, prefix="next"))
        await world.settle()
        assert world.agent is not None
        assert not world.agent.registry.ended, "it is forgotten"
        await world.stop()
        world.start()
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data, world.disk.content(LOG)]
        world.write(b"another line\n", COPY)
        await until_at_rest(world)
        assert len(sources_of(reader)) == 3
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
        assert contents(sources_of(reader)) == [data]
        world.write(lines(300, 10, prefix="more"), "/logs/app-2.log")
        world.write(lines(300, 10))
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [
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
        assert contents(sources_of(reader)) == [data, data]
        world.disk.remove(LOG)
        await world.clock.sleep(300)
        world.write(data, "/logs/third.log")
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data] * 3, "of a file that has ended, too"
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
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data] * 11
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
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data, data]
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
        await until_at_rest(world)
        (only,) = sources_of(reader)
        assert (only.content, only.ended) == (lines(0, 310), None)
        await world.kill()
        world.write(lines(310, 5))
        world.start()
        await world.settle()
        assert contents(sources_of(reader)) == [lines(0, 315)]
        await world.stop()

    run(main())


def test_a_lost_acknowledgement_of_a_copy_s_end_sends_nothing_again__G5_D3() -> None:
    """The store has the end record, the checkpoint does not, and the copy is still there."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 300))
        await world.kill()
        kept = world.disk.content("/state/checkpoint.json")
        data = copytruncate(world)
        world.write(NEXT)
        world.start()
        await until_at_rest(world)
        await world.kill()
        world.forget()
        world.write(kept, "/state/checkpoint.json")
        world.start()
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data, NEXT]
        await world.stop()

    run(main())
