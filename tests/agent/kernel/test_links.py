"""Names of files as the kernel has them: hard links, symbolic links, files replaced by a rename.

Each file is one source under whichever of its names; nothing is read twice, nothing is left out.
"""

import os
from pathlib import Path

from tests.agent.kernel.real_world import RealWorld
from tests.agent.world import lines
from tests.support.virtual_time import run


def test_a_file_with_two_names_is_one_source_until_the_last_is_gone__G1(tmp_path: Path) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path)
        world.put(lines(0, 10))
        other = world.logs / "other.log"
        os.link(world.log, other)
        await world.begin()
        world.put(lines(10, 10), other)
        await world.pass_time()
        world.log.unlink()
        world.put(lines(20, 10), other)
        await world.pass_time(100)
        assert world.all_content() == [lines(0, 30)]
        assert [stored.ended for stored in world.all_stored()] == [None], "it has a name"
        other.unlink()
        await world.pass_time(100)
        assert [stored.ended for stored in world.all_stored()] == [(len(lines(0, 30)), "removed")]
        await world.stop()

    run(main())


def test_a_link_to_a_followed_file_made_while_the_agent_is_away_is_the_same_source__G1_G2(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path)
        world.put(lines(0, 10))
        await world.begin()
        for checkpoint_lost in (False, True):
            await world.stop()
            link = world.logs / f"a{checkpoint_lost}.log"
            os.link(world.log, link)
            world.put(lines(10 * (1 + checkpoint_lost), 10), link)
            if checkpoint_lost:
                (world.root / "state/checkpoint.json").unlink()
            world.start()
            await world.pass_time()
        assert world.all_content() == [lines(0, 30)]
        await world.stop()

    run(main())


def test_a_symbolic_link_and_its_target_are_one_source__G1(tmp_path: Path) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path)
        world.put(lines(0, 10))
        (world.logs / "current.log").symlink_to("app.log")
        (world.logs / "again.log").symlink_to(world.logs / "current.log")
        await world.begin()
        await world.pass_time()
        assert world.all_content() == [lines(0, 10)]
        await world.stop()

    run(main())


def test_a_link_that_is_replaced_leads_to_the_new_target_and_the_old_is_read_to_its_end__G1(
    tmp_path: Path,
) -> None:
    """As daemons do that write to `app.log`, a link to the file of the day."""

    async def main() -> None:
        world = RealWorld(tmp_path)
        world.settings["input"][0]["paths"] = [str(world.log)]
        days = world.root / "days"
        days.mkdir()
        world.put(lines(0, 10, prefix="one"), days / "1")
        world.log.symlink_to(days / "1")
        await world.begin()
        world.put(lines(0, 10, prefix="two"), days / "2")
        (world.logs / "new").symlink_to(days / "2")
        (world.logs / "new").rename(world.log)
        # its writer has not closed it yet
        world.put(lines(10, 10, prefix="one"), days / "1")
        await world.pass_time()
        await world.stop()
        world.put(lines(20, 10, prefix="one"), days / "1")
        world.start()
        await world.pass_time()
        assert world.all_content() == [lines(0, 30, prefix="one"), lines(0, 10, prefix="two")]
        assert not any(stored.gaps for stored in world.all_stored())
        await world.stop()

    run(main())


def test_a_dangling_link_is_followed_once_its_target_comes__G1(tmp_path: Path) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path)
        target = world.root / "target"
        world.log.symlink_to(target)
        (world.logs / "round.log").symlink_to("round.log")
        await world.begin()
        await world.pass_time()
        assert world.all_content() == []
        world.put(lines(0, 10), target)
        await world.pass_time()
        assert world.all_content() == [lines(0, 10)]
        await world.stop()

    run(main())


def test_directories_that_link_to_one_another_are_listed_a_bounded_number_of_times__G1(
    tmp_path: Path,
) -> None:
    """`**` follows links to directories. Ten links to the directory itself, eight levels deep,
    would be a hundred million paths.
    """

    async def main() -> None:
        world = RealWorld(tmp_path)
        world.settings["input"][0]["paths"] = [f"{world.logs}/**/*.log"]
        for number in range(10):
            (world.logs / f"self{number}").symlink_to(".")
        elsewhere = world.root / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "back").symlink_to(world.logs)
        (world.logs / "there").symlink_to(elsewhere)
        world.put(lines(0, 10))
        world.put(lines(10, 10), elsewhere / "b.log")
        await world.begin()
        await world.pass_time()
        assert world.all_content() == [lines(0, 10), lines(10, 10)]
        await world.stop()

    run(main())


def test_a_file_replaced_by_a_rename_is_another_and_the_old_one_is_read_to_its_end__G1(
    tmp_path: Path,
) -> None:
    """As `sed -i` and editors do: a new file takes the name. A writer may have the old one."""

    async def main() -> None:
        world = RealWorld(tmp_path)
        world.put(lines(0, 10))
        await world.begin()
        with world.log.open("ab") as writer:
            edited = lines(0, 10).replace(b"line", b"LINE")
            world.put(edited, world.logs / "sedA1b2")
            (world.logs / "sedA1b2").rename(world.log)
            writer.write(lines(10, 10))
            writer.flush()
            await world.pass_time()
        assert world.all_content() == [edited, lines(0, 20)]
        await world.pass_time(100)
        ended = {stored.content: stored.ended for stored in world.all_stored()}
        assert ended == {lines(0, 20): (len(lines(0, 20)), "removed"), edited: None}
        await world.stop()

    run(main())
