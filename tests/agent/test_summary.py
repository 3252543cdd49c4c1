"""The agent's summaries: a line a minute, totals at the end, and what is unknown."""

from typing import Any

from structlog.testing import capture_logs

from tests.agent.world import LOG, World, lines
from tests.support.virtual_time import run


def test_a_line_a_minute_while_something_happens_and_the_sums_at_the_end() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        with capture_logs() as said:
            world.start()
            world.write(lines(0, 10))
            await world.clock.sleep(200)
            world.write(lines(10, 5))
            world.write(lines(0, 1), "/logs/new.log")
            await world.clock.sleep(61)
            await world.stop()
        minutes = [entry for entry in said if entry["event"] == "in the last minute"]
        assert [(entry["lines"], entry["bytes"], entry["files"]) for entry in minutes] == [
            (10, 120, 1),
            (6, 72, 2),
        ]
        assert all((entry["sources_behind"], entry["unread_bytes"]) == (0, 0) for entry in minutes)
        (drained,) = [entry for entry in said if entry["event"] == "drained"]
        assert (drained["lines"], drained["bytes"], drained["files"]) == (16, 192, 2)

    run(main())


def test_the_first_minute_of_rest_after_each_spell_of_work_is_announced() -> None:
    async def main() -> None:
        world, rests = World(), 0

        def rested() -> None:
            nonlocal rests
            rests += 1

        await world.reader()
        world.write(lines(0, 10))
        world.start(when_idle=rested)
        await world.clock.sleep(90)
        assert rests == 0
        await world.clock.sleep(300)
        assert rests == 1
        world.write(lines(10, 5))
        await world.clock.sleep(300)
        assert rests == 2
        await world.stop()

    run(main())


def test_sources_behind_are_counted_while_nothing_gets_through() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 10))
        with capture_logs() as said:
            world.start()
            await world.clock.sleep(130)
            await world.kill()
        minutes = [entry for entry in said if entry["event"] == "in the last minute"]
        assert [
            (entry["lines"], entry["sources_behind"], entry["unread_bytes"]) for entry in minutes
        ] == [(0, 1, 120)] * 2

    run(main())


def test_a_stop_without_a_receiver_logs_how_much_is_left_and_why() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 10))
        world.write(lines(0, 1), "/logs/new.log")
        with capture_logs() as said:
            world.start()
            await world.clock.sleep(3)
            await world.stop()
        (end,) = [entry for entry in _warnings(said) if "lines undelivered" in entry["event"]]
        assert (end["sources_left"], end["bytes_left"], end["lines"]) == (2, 132, 0)
        assert "refused" in end["reason"]
        assert not any(entry["event"] == "drained" for entry in said)

    run(main())


def test_a_file_gone_while_the_agent_was_away_is_a_warning_that_says_what_is_unknown() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.stop()
        world.disk.remove(LOG)
        with capture_logs() as said:
            world.start()
            await world.settle()
            await world.stop()
        (warning,) = _warnings(said)
        assert (warning["path"], warning["acknowledged"]) == (LOG, 120)
        assert "beyond the 120 bytes seen last" in warning["unknown"]

    run(main())


def test_a_refused_source_is_named_by_its_path_and_its_lines_count_as_undelivered() -> None:
    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.refuse = lambda frame: (5, "no route")
        world.write(lines(0, 10))
        with capture_logs() as said:
            world.start()
            await world.clock.sleep(5)
            await world.stop()
        refused, end = _warnings(said)
        assert (refused["event"], refused["path"]) == ("source refused", LOG)
        assert "lines undelivered" in end["event"]
        assert (end["sources_left"], end["bytes_left"], end["reason"]) == (
            1,
            120,
            "refused (E 5): no route",
        )

    run(main())


def _warnings(said: Any) -> list[Any]:
    return [entry for entry in said if entry["log_level"] == "warning"]
