"""Skip, resend and forget: what operators do with a source is told to the receiver (rule A4)."""

import asyncio
from typing import Any

import orjson
import pytest

from tests.agent.control.asking import ask
from tests.agent.world import LOG, World, contents, lines
from tests.receiver.world import configuration, receiver
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


def test_a_resend_ends_the_old_count_and_the_new_one_has_all_lines_again__A4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
        answer = await ask(world, "resend", source=LOG)
        assert answer.ok
        assert answer.change is not None
        assert (answer.change.done, answer.change.start, answer.change.end) == (True, 0, 1200)
        world.write(lines(100, 10))
        await world.settle()
        old, new = world.stored()
        assert (old.content, old.ended, old.gaps) == (lines(0, 100), (1200, "resent"), [])
        assert new.content == world.disk.content(LOG)
        assert (new.ended, new.attributes["resend"]) == (None, True)
        assert "resend" not in old.attributes
        await world.stop()

    run(main())


@pytest.mark.parametrize("first", [b"", lines(0, 10)])
def test_a_resend_says_what_is_then_there_twice(first: bytes) -> None:
    async def main() -> None:
        world = World()
        await world.ships(first + b"x" * 2000)
        answer = await ask(world, "resend", source=LOG, dry_run=True)
        assert answer.change is not None, answer.error
        assert answer.change.text.endswith(
            " 2,120 bytes so far: what was sent before, up to 120, is then there twice, under two "
            'sources. The first ends as "resent", so the audit takes it for no duplicate'
            if first
            else " 2,000 bytes so far"
        )
        await world.stop()

    run(main())


@pytest.mark.parametrize("forget", [False, True], ids=["checkpoint kept", "checkpoint lost"])
@pytest.mark.parametrize("seconds", [0.0, 0.4, 3.0])
def test_a_resend_that_a_kill_interrupts_sends_no_line_a_third_time__A4(
    seconds: float, forget: bool
) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
        asking = asyncio.create_task(ask(world, "resend", source=LOG))
        await world.clock.sleep(seconds)
        await world.kill()
        asking.cancel()
        if forget:
            world.forget()
        world.start()
        await world.settle()
        # what the receiver had before the kill decides whether the wish survives
        old, *new = world.stored()
        assert old.content == lines(0, 100)
        assert [each.content for each in new] in ([], [lines(0, 100)])
        assert bool(new) == (old.ended is not None)
        assert old.ended in (None, (1200, "resent"))
        await world.stop()

    run(main())


def test_nothing_of_a_file_that_is_sent_again_goes_before_the_checkpoint_has_it__A4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 100))
        assert (await ask(world, "resend", source=LOG)).ok
        for _ in range(100):
            await world.clock.sleep(0.05)
            old, *new = world.stored()
            if new or old.ended is not None:
                break
        else:
            pytest.fail("it was not sent again")
        entries = orjson.loads(world.disk.content("/state/checkpoint.json"))["entries"]
        assert sorted(entry.get("ended", "") for entry in entries) == ["", "resent"]
        await world.stop()

    run(main())


def test_what_is_read_from_a_copy_is_not_sent_again__A4_G5() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 3.0
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        world.write(world.disk.content(LOG), f"{LOG}.1")
        world.truncate()
        await world.clock.sleep(2)
        refused = await ask(world, "resend", source=LOG)
        assert "is read to its end from a copy" in refused.error
        await world.settle(60)
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_what_was_truncated_with_a_copy_and_not_looked_at_since_is_not_sent_again__A4_G5() -> None:
    async def main() -> None:
        world = World()
        first = lines(0, 100)
        await world.ships(first)
        world.write(first, f"{LOG}.1")
        world.truncate()  # no look has seen it
        refused = await ask(world, "resend", source=LOG)
        assert "was truncated" in refused.error
        await world.kill()
        world.start()
        await world.settle()
        assert contents(world.stored()) == [first]
        await world.stop()

    run(main())


@pytest.mark.parametrize("copied", [False, True], ids=["no copy", "copy"])
def test_what_was_truncated_and_not_looked_at_since_is_not_skipped__A4(copied: bool) -> None:
    """The file has other lines by then: the last one's end would be inside a line of the source."""

    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        first = lines(0, 10) + b"longer lines\n" * 10
        world.write(first[120:])
        await world.clock.sleep(1)
        if copied:
            world.write(first, f"{LOG}.1")
        world.truncate()
        world.write(lines(10, 15))  # no look has seen it
        refused = await ask(world, "skip", source=LOG)
        assert "was truncated" in refused.error
        await world.reader()
        await world.settle(200)
        old, new = world.stored()
        assert new.content == lines(10, 15)
        assert old.content == (first if copied else lines(0, 10))
        assert old.gaps == ([] if copied else [(120, len(first), "truncated", False)])
        await world.stop()

    run(main())


def test_a_resend_while_lines_are_on_the_way_loses_none__A4() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 2.0
        world.write(lines(10, 40_000))
        await world.clock.sleep(1)
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        assert source.position == 120 < source.sent_position
        answer = await ask(world, "resend", source=LOG)
        assert answer.ok, answer.error
        await world.settle(300)
        old, new = world.stored()
        assert old.ended == (len(old.content), "resent")
        assert world.disk.content(LOG).startswith(old.content)
        assert new.content == world.disk.content(LOG)
        await world.stop()

    run(main())


def test_what_is_skipped_is_a_gap_and_later_lines_follow__A4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 90) + b"half a li")
        await world.clock.sleep(1)
        answer = await ask(world, "skip", source=LOG)
        assert answer.change is not None, answer.error
        assert (answer.change.start, answer.change.end) == (120, 1200)
        await world.reader()
        world.write(b"ne\n")
        await world.settle(200)
        (stored,) = world.stored()
        assert stored.content == lines(0, 10) + b"half a line\n"
        assert stored.gaps == [(120, 1200, "skipped", True)]
        await world.stop()

    run(main())


def test_of_what_is_skipped_the_lines_that_are_on_the_way_are_named__A4() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["windows_in_flight"] = 1
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 2.0
        world.write(lines(10, 400_000))
        await world.clock.sleep(1)
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        sent = source.sent_position
        assert source.position == 120 < sent
        answer = await ask(world, "skip", source=LOG)
        assert answer.change is not None, answer.error
        change = answer.change
        assert (change.start, change.end) == (120, len(lines(0, 400_010)))
        assert f"up to {sent:,} are under way" in change.text
        await world.settle(300)
        (stored,) = world.stored()
        assert stored.gaps == [(sent, change.end, "skipped", True)]
        await world.stop()

    run(main())


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_what_is_to_be_skipped__A4(end: str) -> None:
    async def main() -> None:
        world = World()
        world.settings["agent"]["drain_seconds"] = 1
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        assert (await ask(world, "skip", source=LOG)).ok  # the checkpoint has it
        await (world.stop() if end == "stop" else world.kill())
        world.write(lines(20, 10))
        await world.reader()
        world.start()
        await world.settle(200)
        (stored,) = world.stored()
        assert stored.content == lines(0, 10) + lines(20, 10)
        assert stored.gaps == [(120, 240, "skipped", True)]
        await world.stop()

    run(main())


def test_change_that_the_checkpoint_has_no_room_for_is_done_and_said_to_be_not_durable() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        world.disk.capacity = 0
        answer = await ask(world, "resend", source=LOG)
        assert answer.change is not None, answer.error
        assert (answer.change.done, answer.change.durable) == (True, False)
        world.disk.capacity = None
        await world.settle()
        old, new = world.stored()
        assert (old.ended, new.content) == ((120, "resent"), lines(0, 10))
        await world.stop()

    run(main())


def test_a_file_that_is_removed_before_its_skip_was_sent_says_what_was_skipped__A4_P4() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        assert (await ask(world, "skip", source=LOG)).ok
        world.write(lines(20, 10))
        await world.clock.sleep(1)
        world.truncate()
        await world.clock.sleep(10)
        await world.reader()
        await world.settle(200)
        (stored,) = world.stored()
        assert stored.content == lines(0, 10)
        assert stored.gaps == [(120, 240, "skipped", True), (240, 360, "truncated", False)]
        await world.stop()

    run(main())


def test_nothing_is_skipped_where_all_was_sent() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10) + b"no whole line")
        answer = await ask(world, "skip", source=LOG)
        assert answer.error.endswith("there is no whole line that was not sent")
        await world.stop()

    run(main())


def test_nothing_is_skipped_where_all_is_under_way_and_a_broken_connection_sends_it_again() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 30.0
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        assert (source.position, source.sent_position) == (120, 240)
        answer = await ask(world, "skip", source=LOG)
        assert "all that was seen is under way, up to 240, and is sent again" in answer.error
        await world.crash_reader()
        await world.reader()
        await world.settle(200)
        (stored,) = world.stored()
        assert (stored.content, stored.gaps) == (lines(0, 20), [])
        await world.stop()

    run(main())


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_dry_run_changes_nothing(do: str) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        answer = await ask(world, do, source=LOG, dry_run=True)
        assert answer.change is not None, answer.error
        assert not answer.change.done
        await world.reader()
        await world.settle(200)
        (stored,) = world.stored()
        assert (stored.content, stored.gaps) == (world.disk.content(LOG), [])
        await world.stop()

    run(main())


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


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_source_of_which_no_receiver_has_said_anything_is_left_alone(do: str) -> None:
    """Without a checkpoint, only the receiver knows which count it has (rule G3)."""

    async def main() -> None:
        world = World()
        world.write(lines(0, 10))
        world.start()
        await world.clock.sleep(3)
        answer = await ask(world, do, source=LOG)
        assert "no receiver has said yet" in answer.error
        await world.stop()

    run(main())


def test_sources_are_named_by_path_or_by_the_beginning_of_their_id() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        assert world.agent is not None
        (source,) = world.agent.registry.sources
        for name in (LOG, str(source.origin), str(source.origin)[:8], source.origin.hex[:12]):
            assert (await ask(world, "resend", source=name, dry_run=True)).ok, name
        for name, error in (
            ("/logs/none", "no source has this path:"),
            ("20240101", "no source has this origin id (a file is named as ./20240101)"),
            (str(source.origin)[:5], "6 or more characters are needed"),
        ):
            assert error in (await ask(world, "resend", source=name)).error
        await world.stop()

    run(main())


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_path_means_the_file_that_stands_there_though_rotated_ones_were_found_under_it(
    do: str,
) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        for number in range(2):
            world.disk.replace(LOG, f"{LOG}.{number}")
            world.write(lines(10 * number + 10, 10))
            await world.clock.sleep(10)
        await world.crash_reader()
        world.write(lines(50, 10))
        await world.clock.sleep(6)
        assert world.agent is not None
        registry = world.agent.registry
        assert [registry.path_of(source) for source in registry.sources] == [LOG] * 3
        newest = list(registry.sources)[-1]

        answer = await ask(world, do, source=LOG)
        assert answer.change is not None, answer.error
        assert answer.change.origin == str(newest.origin)
        chosen = f"3 sources have this path: this is {newest.origin}, whose file stands there now"
        assert answer.change.text.endswith(f". {chosen}")

        world.disk.replace(LOG, f"{LOG}.2")
        refused = await ask(world, do, source=LOG)
        assert "sources have it: name one by its id" in refused.error
        await world.stop()

    run(main())


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_path_means_the_file_that_stands_there_though_it_was_found_under_another(do: str) -> None:
    async def main() -> None:
        world = World(paths=["/logs/*"])
        first, second = f"{LOG}.1", f"{LOG}.2"
        world.write(lines(0, 10), first)
        await world.ships(lines(10, 10))
        world.disk.replace(first, second)
        world.disk.replace(LOG, first)
        await world.settle()
        await world.crash_reader()
        world.write(lines(50, 10), first)
        world.write(lines(60, 10), second)
        await world.clock.sleep(6)
        assert world.agent is not None
        registry = world.agent.registry
        found = {registry.path_of(source): source for source in registry.sources}
        assert set(found) == {LOG, first}

        for path, source in ((first, found[LOG]), (second, found[first])):
            answer = await ask(world, do, source=path)
            assert answer.change is not None, answer.error
            assert answer.change.origin == str(source.origin)
            known_as = registry.path_of(source)
            assert answer.change.text.endswith(
                f". This is {source.origin}, whose file was found as {known_as} and stands there "
                "now"
            )
        await world.stop()

    run(main())


@pytest.mark.parametrize("do", ["skip", "resend"])
def test_a_path_is_not_taken_for_the_file_that_was_found_there_while_another_stands_there(
    do: str,
) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.crash_reader()
        world.disk.replace(LOG, f"{LOG}.1")
        world.write(lines(50, 10), f"{LOG}.1")
        await world.clock.sleep(6)
        gone = await ask(world, do, source=LOG, dry_run=True)
        assert gone.change is not None, gone.error
        assert gone.change.text.endswith(". Its file was found there, and is gone from there")

        world.write(b"half a line", LOG)
        await world.clock.sleep(6)
        refused = await ask(world, do, source=LOG)
        assert "no source has the file that stands there now" in refused.error
        assert gone.change.origin in refused.error
        await world.stop()

    run(main())


def test_of_a_file_that_was_truncated_its_path_means_the_life_after_that__G5() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        reader.ack_seconds = 3.0
        world.write(lines(10, 10))
        await world.clock.sleep(1)
        world.truncate()
        world.write(lines(20, 10))
        await world.clock.sleep(6)
        assert world.agent is not None
        old, new = world.agent.registry.sources
        assert (old.ended, old.ending is None, new.ending) == (None, False, None)
        answer = await ask(world, "resend", source=LOG, dry_run=True)
        assert answer.change is not None, answer.error
        assert answer.change.origin == str(new.origin)
        await world.stop()

    run(main())


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        ({"encoding": "utf-16-le"}, "\n"),
        ({"encoding": "utf-16"}, "\n"),
        ({"encoding": "utf-16-be"}, "\n"),
        ({"line_end": "||"}, "||"),
        ({"line_end": "\0", "encoding": "latin-1"}, "\0"),
    ],
    ids=["utf-16-le", "utf-16 with a mark", "utf-16-be", "delimiter", "NUL"],
)
def test_a_skip_ends_where_a_line_of_the_file_ends__A4(settings: dict[str, Any], end: str) -> None:
    """Characters whose bytes look like a line end, on both sides of it."""

    async def main() -> None:
        world, disk = World(**settings), MemoryDisk()
        world.settings["agent"]["drain_seconds"] = 1
        world.settings["output"]["hosts"] = ["receiver:5044"]
        encoding = settings.get("encoding", "utf-8")
        mark = "\ufeff".encode("utf-16-be") if encoding == "utf-16" else b""
        codec = "utf-16-be" if mark else encoding
        letters = "\u0a00\u000b\u0a0b" if "utf-16" in encoding else "|x"
        first = f"first{letters}{end}".encode(codec)
        skipped = f"skipped{letters}{end}".encode(codec) * 9000  # more than is read at once
        world.write(mark + first)
        async with receiver(network=world.network, disk=disk, config=configuration(tls="off")):
            world.start()
            await world.settle()
        world.write(skipped + f"half{letters}".encode(codec))
        await world.clock.sleep(2)
        answer = await ask(world, "skip", source=LOG)
        assert answer.change is not None, answer.error
        begin = len(mark + first)
        assert (answer.change.start, answer.change.end) == (begin, begin + len(skipped))
        await world.stop()

    run(main())


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/logs/a b.log", ["/logs/a b.log"]),
        ("/logs/new\nline.log", ["/logs/new\nline.log", "/logs/new\\nline.log"]),
        ("/logs/\x1b[31m.log", ["/logs/\x1b[31m.log", "/logs/\\x1b[31m.log"]),
        ("/logs/\udcff\udcfe.log", ["/logs/\ufffd\ufffd.log"]),
    ],
    ids=["space", "newline", "escape", "not UTF-8"],
)
def test_a_source_is_named_by_its_path_as_it_is_shown(path: str, names: list[str]) -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10), path)
        for name in names:
            answer = await ask(world, "resend", source=name, dry_run=True)
            assert answer.ok, answer.error
        for pattern in (names[0], "/logs/*.log"):
            status = (await ask(world, "status", path=pattern)).status
            assert status is not None
            assert status.matching == 1
        await world.stop()

    run(main())


def _write_many(world: World, line: bytes) -> None:
    for number in range(600):
        world.write(line, f"/logs/{number}.log")


@pytest.mark.parametrize("again", [False, True], ids=["first start", "checkpoint"])
def test_many_files_are_looked_at_in_turns_and_nothing_is_changed_meanwhile(again: bool) -> None:
    async def main() -> None:
        world = World(start="end")
        await world.reader()
        _write_many(world, b"first\n")
        if again:
            world.start()
            await world.settle()
            await world.stop()
        _write_many(world, b"second\n")
        agent = world.start()
        looked_at = 0
        while not looked_at:
            await asyncio.sleep(0)
            files = agent.tailer.followed.values()
            looked_at = sum(file.generation.seen == len(b"first\nsecond\n") for file in files)
        assert looked_at == 256
        answer = await ask(world, "skip", source="/logs/1.log")
        assert "still looking for its files" in answer.error
        await world.settle()
        answer = await ask(world, "skip", source="/logs/1.log")
        assert "no whole line that was not sent" in answer.error
        await world.stop()

    run(main())
