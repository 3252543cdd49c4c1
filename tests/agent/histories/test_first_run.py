"""Histories of `start = "end"` and of an age: only the very first run begins at the end, even if
the checkpoint is lost later (rules P2, G3).
"""

from typing import Any

import pytest
from structlog.testing import capture_logs

from logdrive.model.numbers import ABSENT, LOST, NOT_KEPT
from logdrive.model.records import GAP
from logdrive.records.runs import FIRST_RUN
from tests.agent.test_dialects import plain_world
from tests.agent.world import LOG, World, contents, lines
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

LATER = "/logs/later.log"
CHECKPOINT = "/state/checkpoint.json"


def _lose(world: World, how: str) -> None:
    if how == "deleted":
        world.forget()
    else:
        world.disk.cut(CHECKPOINT, 40)


def _files(reader: ReaderModel) -> dict[str, bytes]:
    """Return the bytes that the receiver has of each file, joined."""
    stored = [
        each for each in reader.stored.values() if each.number != ABSENT and each.path != CHECKPOINT
    ]
    assert len({each.path for each in stored}) == len(stored), "each file is one source"
    return {each.path: each.content for each in stored}


@pytest.mark.parametrize("how", ["deleted", "damaged"])
@pytest.mark.parametrize("sent", [False, True])
def test_a_lost_checkpoint_loses_no_line_of_files_that_came_after_the_first_run__P2(
    how: str, sent: bool
) -> None:
    async def main() -> None:
        world = World(start="end")
        reader = await world.ships(lines(0, 10))
        if sent:
            world.write(lines(0, 20), LATER)
            await world.clock.sleep(20)
        await world.kill()
        _lose(world, how)
        world.write(lines(20 * sent, 30), LATER)
        world.write(lines(10, 5))
        world.start()
        await world.settle()
        assert _files(reader) == {LOG: lines(10, 5), LATER: lines(0, 20 * sent + 30)}
        (stored,) = world.stored()
        assert stored.gaps == [(0, 120, "not_wanted", True)]
        await world.stop()

    run(main())


def test_the_store_knows_the_agent_by_one_record_that_names_no_file__P2() -> None:
    async def main() -> None:
        world = World(start="end", tags=["x"])
        reader = await world.ships(lines(0, 10))
        (own,) = reader.by_path(CHECKPOINT)
        assert (own.content, own.gaps, own.ended) == (b"", [], (0, FIRST_RUN))
        assert own.attributes == {"host": "h", "agent": "a", "path": CHECKPOINT, "tags": ["x"]}, (
            "it takes the way of the files"
        )
        for _ in range(3):
            await world.stop()
            world.start()
            await world.settle()
        assert len(reader.by_path(CHECKPOINT)) == 1
        await world.stop()

    run(main())


def test_an_agent_that_begins_at_the_beginning_leaves_no_record__P2() -> None:
    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        assert reader.by_path(CHECKPOINT) == []
        await world.stop()

    run(main())


@pytest.mark.parametrize("seconds", [0.0, 0.0005, 0.001, 0.002, 0.01, 0.5, 1.5, 3.0])
def test_a_kill_at_any_time_of_the_first_run_does_not_make_it_look_like_a_second_run__P2(
    seconds: float,
) -> None:
    """The record is stored only once the checkpoint has the decision.

    Otherwise the next start would take it for that of an earlier run.
    """

    async def main() -> None:
        world = World(start="end")
        reader = await world.reader()
        reader.fail = lambda tried: tried.kind == GAP  # all that the store gets is the record
        world.write(lines(0, 100))
        world.start()
        while not reader.connections:
            await world.clock.sleep(0.0001)
        await world.clock.sleep(seconds)
        await world.kill()
        reader.fail = lambda tried: False
        world.write(lines(100, 10))
        world.start()
        await world.settle()
        (stored,) = world.stored()
        assert (stored.content, stored.gaps) == (lines(100, 10), [(0, 1200, "not_wanted", True)])
        await world.stop()

    run(main())


def test_while_the_receiver_is_away_the_decision_waits_in_the_checkpoint__P2() -> None:
    async def main() -> None:
        world = World(start="end")
        world.write(lines(0, 10))
        for start in range(10, 40, 10):
            world.start()
            await world.clock.sleep(5)
            world.write(lines(start, 10))
            await world.kill()
        world.write(lines(0, 10), LATER)
        reader = await world.reader()
        world.start()
        await world.settle()
        assert _files(reader) == {LOG: lines(10, 30), LATER: lines(0, 10)}
        await world.stop()

    run(main())


def test_file_that_is_gone_before_store_answers_is_no_loss_unless_it_was_wanted__P2_P4() -> None:
    """All of the file is wanted if the agent was here before."""

    async def main() -> None:
        world = World(start="end", end_after_seconds=5)
        reader = await world.ships(lines(0, 10))
        await world.kill()
        world.forget()
        await world.crash_reader()
        world.write(lines(0, 30), LATER)
        world.start()
        await world.clock.sleep(2)
        world.disk.remove(LATER)
        await world.clock.sleep(20)
        await world.kill()
        await world.reader()
        world.start()
        await world.settle()
        (later,) = world.stored(LATER)
        assert later.gaps == [(0, 360, "removed", False)], "none of it is not wanted"
        assert later.ended == (360, "removed")
        assert len(reader.by_path(CHECKPOINT)) == 1
        await world.stop()

    run(main())


@pytest.mark.parametrize("answer", [NOT_KEPT, LOST])
def test_files_begin_at_their_end_with_a_warning_if_the_store_cannot_answer__P2(
    answer: int,
) -> None:
    async def main() -> None:
        world = World(start="end")
        reader = await world.reader()
        reader.number_for = lambda source, stored: answer if stored == ABSENT else stored
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        world.write(lines(10, 10))
        await world.settle()
        (stored,) = world.stored()
        assert (stored.content, stored.gaps) == (lines(10, 10), [(0, 120, "not_wanted", True)])
        await world.stop()

    with capture_logs() as log_lines:
        run(main())
    (said,) = [each for each in log_lines if "this agent has run before" in each["event"]]
    assert (said["log_level"], said["files"]) == ("warning", 1)


def test_under_plain_lumberjack_files_begin_at_their_end_with_a_warning__P2_D8() -> None:
    async def main() -> None:
        world, model = await plain_world()
        world.settings["input"][0]["start"] = "end"
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        world.write(lines(10, 5))
        await world.settle()
        assert [event["message"] for event in model.events[LOG]] == lines(10, 5).decode().split(
            "\n"
        )[:-1]
        await world.stop()

    with capture_logs() as log_lines:
        run(main())
    assert len([each for each in log_lines if "this agent has run before" in each["event"]]) == 1


def test_where_no_record_is_kept_the_agents_own_source_does_not_stay__P2_D8() -> None:
    """Nobody could tell it from a file that hangs."""

    async def main() -> None:
        world, _ = await plain_world()
        world.settings["input"][0]["start"] = "end"
        world.write(lines(0, 10))
        for _ in range(2):
            world.start()
            await world.settle()
            world.write(lines(10, 5))
            await world.settle()
            assert world.agent is not None
            assert [source.path for source in world.agent.status().sources] == [LOG]
            await world.kill()

    run(main())


def test_a_store_gets_the_record_though_another_receiver_that_keeps_none_came_first__P2_D8() -> (
    None
):
    async def main() -> None:
        world, _ = await plain_world()
        world.settings["input"][0]["start"] = "end"
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        await world.stop()
        await world.crash_reader()
        world.settings["output"]["dialect"] = "logdrive/1"
        reader = await world.reader()
        world.start()
        await world.settle()
        (own,) = reader.by_path(CHECKPOINT)
        assert own.ended == (0, FIRST_RUN)
        await world.stop()

    run(main())


def test_another_store_gets_the_record_of_the_first_run_too__P2_D5() -> None:
    """The checkpoint may be lost while the other store is in use."""

    async def main() -> None:
        world = World(start="end")
        world.settings["output"]["hosts"] = ["east:5044", "west:5044"]
        await world.reader("east")
        world.write(lines(0, 10))
        world.start()
        await world.settle()
        west = await world.reader("west")
        await world.crash_reader("east")
        world.write(lines(10, 10))
        await world.settle()
        assert len(west.by_path(CHECKPOINT)) == 1
        await world.kill()
        world.forget()
        world.write(lines(0, 10), LATER)
        world.start()
        await world.settle()
        assert _files(west) == {LOG: lines(10, 10), LATER: lines(0, 10)}
        await world.stop()

    run(main())


def test_after_an_upgrade_the_first_start_writes_the_record_of_the_first_run__P2() -> None:
    """Older agents decided without a record, so their checkpoints have no decision."""

    async def main() -> None:
        world = World()
        reader = await world.ships(lines(0, 10))
        await world.stop()
        settings: dict[str, Any] = world.settings["input"][0]
        settings["start"] = "end"
        world.start()
        await world.settle()
        assert len(reader.by_path(CHECKPOINT)) == 1
        await world.kill()
        world.forget()
        world.write(lines(0, 10), LATER)
        world.start()
        await world.settle()
        assert _files(reader) == {LOG: lines(0, 10), LATER: lines(0, 10)}
        assert contents(world.stored()) == [lines(0, 10)]
        await world.stop()

    run(main())


def test_of_files_that_are_there_at_the_first_run_the_old_ones_start_at_their_end__P2() -> None:
    async def main() -> None:
        world = World(start="2h")
        now = world.clock.wall_ms * 1_000_000
        world.disk.now_ns = lambda: now - 3 * 3600 * 10**9
        world.write(lines(0, 10), "/logs/old.log")
        world.write(lines(0, 3) + b"no end", "/logs/old, open.log")
        world.disk.now_ns = lambda: now - 1 * 3600 * 10**9
        world.write(lines(0, 10), "/logs/new.log")
        reader = await world.reader()
        world.start()
        await world.settle()
        world.write(lines(10, 5), "/logs/old.log")
        world.write(b" yet\n", "/logs/old, open.log")
        # files that come later are read, however old they are
        world.disk.now_ns = lambda: now - 9 * 3600 * 10**9
        world.write(lines(0, 7), LATER)
        await world.clock.sleep(20)
        await world.settle()
        whole = {"/logs/new.log": lines(0, 10), LATER: lines(0, 7)}
        rest = {"/logs/old.log": lines(10, 5), "/logs/old, open.log": b"no end yet\n"}
        assert _files(reader) == whole | rest
        gaps = {each.path: each.gaps for each in reader.stored.values() if each.gaps}
        assert gaps == {
            "/logs/old.log": [(0, 120, "not_wanted", True)],
            "/logs/old, open.log": [(0, 36, "not_wanted", True)],
        }
        await world.stop()

    run(main())


def test_more_files_than_handles_all_start_at_their_end__P2() -> None:
    """Beyond the limit on handles, files take turns; where they start does not depend on that."""

    async def main() -> None:
        world = World(start="end")
        paths = [f"/logs/{number:03d}.log" for number in range(100)]
        for path in paths:
            world.write(lines(0, 10), path)
        reader = await world.reader()
        world.start(open_files=40)
        await world.clock.sleep(30)
        for path in paths:
            world.write(lines(10, 1), path)
        await world.clock.sleep(60)
        await world.settle(300)
        assert _files(reader) == dict.fromkeys(paths, lines(10, 1))
        await world.stop()

    run(main())
