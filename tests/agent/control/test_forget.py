"""An operator gives up a source whose file nothing would find again (rule A4)."""

import pytest

from tests.agent.control.asking import ask
from tests.agent.world import LOG, World, contents, lines
from tests.support.virtual_time import run


def test_a_source_that_no_input_names_is_given_up_and_the_audit_can_tell__A4_P4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(3)
        await world.kill()
        world.settings["input"] = [{"paths": ["/logs/other*"]}]
        await world.reader()
        world.start()
        await world.clock.sleep(5)
        refused = await ask(world, "skip", source=LOG)
        assert "is not read now, so it can't be skipped" in refused.error
        tried = await ask(world, "forget", source=LOG, dry_run=True)
        assert tried.change is not None
        assert (tried.change.done, tried.change.start, tried.change.end) == (False, 120, 240)
        assert (await ask(world, "forget", source=LOG)).ok
        await world.settle(200)
        (stored,) = world.stored()
        assert stored.ended == (240, "forgotten")
        assert stored.gaps == [(120, 240, "forgotten", False)]

        # it has ended: now the checkpoint forgets it
        again = await ask(world, "forget", source=LOG)
        assert again.change is not None, again.error
        assert "forgets it now" in again.change.text
        assert not (await ask(world, "forget", source=LOG)).ok
        await world.stop()

    run(main())


@pytest.mark.parametrize("since", ["nothing", "grown", "rewritten", "gone"])
def test_a_source_given_up_ends_whole_only_if_its_file_has_no_more_than_was_acknowledged__A4(
    since: str,
) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.stop()
        world.settings["input"] = [{"paths": ["/logs/other*"]}]
        if since == "grown":
            world.write(lines(10, 1))
        elif since == "rewritten":  # in place: as long as before
            await world.clock.sleep(1)
            file = world.disk.open(LOG, write=True)
            file.truncate(0)
            file.append([lines(50, 10)])
            file.close()
        elif since == "gone":
            world.disk.remove(LOG)
        world.start()
        await world.clock.sleep(5)
        told = await ask(world, "forget", source=LOG)
        assert told.change is not None, told.error
        whole = since == "nothing"
        assert ("all of its 120 bytes are acknowledged" in told.change.text) is whole
        await world.settle()
        (stored,) = world.stored()
        assert (stored.content, stored.ended) == (lines(0, 10), (120, "forgotten"))
        assert (stored.end_exact, stored.gaps) == (whole, [])
        await world.stop()

    run(main())


def test_a_file_that_comes_back_after_it_was_given_up_says_that_it_is_sent_again__A4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.stop()
        paths = world.settings["input"]
        world.settings["input"] = [{"paths": ["/logs/other*"]}]
        world.start()
        await world.clock.sleep(5)
        assert (await ask(world, "forget", source=LOG)).ok
        await world.settle()
        await world.stop()
        world.settings["input"] = paths
        world.start()
        await world.settle()
        old, new = world.stored()
        assert (old.ended, new.content) == ((120, "forgotten"), lines(0, 10))
        assert new.attributes["resend"] is True
        await world.stop()

    run(main())


def test_what_is_there_is_not_forgotten() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        answer = await ask(world, "forget", source=LOG)
        assert "would be found again" in answer.error
        assert contents(world.stored()) == [lines(0, 10)]
        await world.stop()

    run(main())


@pytest.mark.parametrize("receiver_answers", [True, False])
@pytest.mark.parametrize("follows", [False, True], ids=["alone", "another at its path"])
def test_a_file_moved_to_where_no_input_looks_is_given_up__A4(
    receiver_answers: bool, follows: bool
) -> None:
    async def main() -> None:
        world = World()
        world.disk.make_directory("/old")
        await world.ships(lines(0, 10))
        world.disk.replace(LOG, "/old/app.log")
        if not receiver_answers:
            await world.crash_reader()
            world.write(lines(10, 10), "/old/app.log")
        if follows:
            world.write(lines(0, 5, prefix="next"))
        await world.clock.sleep(15)
        assert world.agent is not None
        origin = str(next(iter(world.agent.registry.sources)).origin)
        tried = await ask(world, "forget", source=origin, dry_run=True)
        assert tried.change is not None, tried.error
        assert "was moved to" in tried.change.text
        assert ("all of its 120 bytes are acknowledged" in tried.change.text) is receiver_answers
        assert (await ask(world, "forget", source=origin)).ok
        if not receiver_answers:
            await world.reader()
        await world.settle(200)
        stored = world.stored()
        seen = 120 if receiver_answers else 240
        assert (stored[0].ended, stored[0].end_exact) == ((seen, "forgotten"), receiver_answers)
        assert stored[0].content == lines(0, 10)
        assert contents(stored[1:]) == ([lines(0, 5, prefix="next")] if follows else [])
        await world.stop()

    run(main())


def test_a_moved_file_that_comes_back_after_it_was_given_up_is_sent_again__A4() -> None:
    async def main() -> None:
        world = World()
        world.disk.make_directory("/old")
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.disk.replace(LOG, "/old/app.log")
        world.write(lines(10, 10), "/old/app.log")
        await world.clock.sleep(15)
        assert (await ask(world, "forget", source=LOG)).ok
        await world.reader()
        await world.settle(200)
        world.disk.replace("/old/app.log", LOG)
        await world.clock.sleep(15)
        await world.settle(200)
        old, new = world.stored()
        assert (old.ended, new.content) == ((240, "forgotten"), lines(0, 20))
        assert new.attributes["resend"] is True
        await world.stop()

    run(main())


def test_a_file_moved_to_where_an_input_looks_is_not_forgotten() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        world.disk.replace(LOG, "/logs/app.log.1")
        answer = await ask(world, "forget", source=LOG)
        assert "/logs/app.log.1 is there and an input names it" in answer.error
        assert contents(world.stored()) == [lines(0, 10)]
        await world.stop()

    run(main())


def test_where_a_file_of_another_path_stands_forget_says_which_path_it_was_found_under() -> None:
    async def main() -> None:
        world = World(paths=["/logs/*"])
        await world.ships(lines(0, 10))
        world.disk.replace(LOG, f"{LOG}.1")
        await world.settle()
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        refused = await ask(world, "forget", source=f"{LOG}.1")
        assert f"the file that stands there was found as {LOG}" in refused.error
        assert str(source.origin) in refused.error
        await world.stop()

    run(main())


def test_a_removed_file_that_is_not_read_is_given_up__A4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(15)
        world.disk.remove(LOG)
        await world.clock.sleep(15)
        tried = await ask(world, "forget", source=LOG, dry_run=True)
        assert tried.change is not None, tried.error
        assert "was removed, and would end by itself" in tried.change.text
        assert (await ask(world, "forget", source=LOG)).ok
        await world.reader()
        await world.settle(200)
        (stored,) = world.stored()
        assert (stored.content, stored.ended) == (lines(0, 10), (240, "forgotten"))
        await world.stop()

    run(main())
