"""Histories of copies that a start finds, with what its checkpoint knows (G5)."""

import pytest
from structlog.testing import capture_logs

from tests.agent.histories.copied import (
    COPY,
    HEADER,
    NEXT,
    copytruncate,
    see_a_life_go_untold,
    ship_behind_the_checkpoint,
    sources_of,
    until_at_rest,
)
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run


def test_the_copy_is_looked_for_again_after_a_restart__G5_h27() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 200))
        await world.crash_reader()
        world.write(lines(200, 5000))
        await world.clock.sleep(2)
        data = copytruncate(world)
        world.write(NEXT)
        await world.clock.sleep(3)
        await world.kill()
        world.disk.replace(COPY, f"{LOG}.2")
        await world.reader()
        world.start()
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data, NEXT]
        assert not any(each.gaps for each in sources_of(reader))
        await world.stop()

    run(main())


def test_a_file_truncated_while_the_agent_was_away_is_read_on_from_its_copy__G5() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 200))
        await world.kill()
        world.write(lines(200, 100))
        data = copytruncate(world)
        world.write(NEXT)
        world.start()
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data, NEXT]
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
        data = copytruncate(world)
        world.start()
        await world.clock.sleep(3)
        await world.kill()
        world.start()
        await until_at_rest(world)
        assert contents(sources_of(reader)) == [data]
        assert sources_of(reader)[0].ended == (len(data), "truncated")
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
        data = copytruncate(world)
        gap = await see_a_life_go_untold(world)
        reader = await world.reader()
        world.start()
        await until_at_rest(world)
        stored = sources_of(reader)
        assert contents([each for each in stored if each.data]) == [data]
        assert [told for each in stored for told in each.gaps] == [gap]
        await world.stop()

    run(main())


def test_a_copy_is_asked_for_once_the_next_life_has_its_count__G3_G5() -> None:
    """The checkpoint has neither: the next life takes the first count, and then the second."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 1), "/logs/other.log")
        await ship_behind_the_checkpoint(world, HEADER + lines(0, 300))
        data = copytruncate(world)
        await world.crash_reader()
        world.start()
        await world.clock.sleep(3)
        world.write(HEADER + NEXT)
        await world.clock.sleep(3)
        await world.reader()
        await until_at_rest(world)
        assert sorted(contents(sources_of(reader))) == sorted([lines(0, 1), data, HEADER + NEXT])
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
        await until_at_rest(world)
        gone = [each for each in sources_of(reader) if each.gaps]
        assert [each.ended for each in gone] == [(len(lines(0, 300, prefix="two")), "removed")]
        by_origin = {
            frame.origin for frame in reader.registered if COPY.encode() in frame.attributes
        }
        assert len(by_origin) == 8, "each of the counts asked for has an id of its own"
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
        copytruncate(world)
        await until_at_rest(world)
        await ship_behind_the_checkpoint(world, second)
        copytruncate(world, f"{LOG}.2")
        world.write(third)
        world.start()
        await until_at_rest(world)
        assert sorted(contents(sources_of(reader))) == sorted([first, second, third])
        assert not any(b"resend" in frame.attributes for frame in reader.registered)
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
