"""An agent whose inputs have processors: what is dropped is said, and what waits is sent later."""

import asyncio
from typing import Any

from logdrive.model.numbers import position_of
from tests.agent.test_reload import reloaded
from tests.agent.world import LOG, World, lines
from tests.support.virtual_time import run


def processing_world(*processors: dict[str, Any], seed: int = 1, **keys: Any) -> World:
    """Return a world whose input has these processors."""
    return World(seed, processor=list(processors), **keys)


def test_r1_what_is_dropped_is_skipped_and_the_position_reaches_its_end() -> None:
    async def main() -> None:
        world = processing_world({"exclude": {"pattern": "DEBUG"}})
        await world.ships(b"DEBUG a\nINFO b\nDEBUG c\n")
        world.write(b"DEBUG d\n")
        await world.settle()
        await world.stop()

        (stored,) = world.stored()
        assert stored.data == [(8, 15, b"INFO b\n")]
        assert position_of(stored.number) == 31

    run(main())


def test_history_22_runs_that_drop_all_or_their_ends_and_ten_megabytes_of_it__R1_D1() -> None:
    """What is dropped is sent as positions alone; without the checkpoint it is not read again."""

    async def main() -> None:
        world = processing_world({"exclude": {"pattern": "DEBUG"}})
        first, dropped, last = b"INFO a\nDEBUG b\n", b"DEBUG c\n" * 1_300_000, b"INFO d\nDEBUG e\n"
        assert len(dropped) > 10_000_000
        await world.ships(first)
        world.write(dropped)
        await world.settle()
        (stored,) = world.stored()
        assert position_of(stored.number) == len(first + dropped)

        await world.kill()
        world.forget()
        world.start()
        world.write(last)
        await world.settle()
        await world.stop()
        begin = len(first + dropped)
        (stored,) = world.stored()
        assert stored.data == [(0, 7, b"INFO a\n"), (begin, begin + 7, b"INFO d\n")]
        assert position_of(stored.number) == len(first + dropped + last)

    run(main())


def test_what_is_over_a_rate_waits_in_its_file_and_is_sent_later() -> None:
    async def main() -> None:
        rate = {"events_per_second": 10, "burst": 50, "when_over": "wait"}
        world = processing_world({"exclude": {"pattern": "0$"}}, {"rate_limit": rate})
        reader = await world.reader()
        world.write(lines(0, 1000))
        world.start()
        begun = world.clock.monotonic()
        await asyncio.sleep(10)
        (stored,) = reader.by_path(LOG)
        events = stored.content.count(b"\n")
        # those of the burst, and of ten seconds
        assert 100 <= events <= 150
        await world.settle(200)
        assert world.clock.monotonic() - begun >= 85
        (stored,) = reader.by_path(LOG)
        assert stored.content.count(b"\n") == 900
        await world.stop()

    run(main())


def test_a_source_that_waits_holds_up_no_other() -> None:
    async def main() -> None:
        world = processing_world(
            {"rate_limit": {"bytes_per_second": 100, "burst": 100, "when_over": "wait"}}
        )
        world.settings["input"].append({"paths": ["/other/*.log"]})
        world.disk.make_directory("/other")
        reader = await world.reader()
        world.write(lines(0, 1000))
        world.write(lines(0, 1000), "/other/x.log")
        world.start()
        await asyncio.sleep(5)
        (stored,) = reader.by_path("/other/x.log")
        assert stored.content == lines(0, 1000)
        (held,) = reader.by_path(LOG)
        assert 0 < len(held.content) <= 700
        await world.kill()

    run(main())


def test_a_reload_with_other_processors_holds_from_the_next_read_on() -> None:
    async def main() -> None:
        world = processing_world({"exclude": {"pattern": "^a"}})
        await world.ships(b"a 1\nb 1\n")
        (table,) = world.settings["input"]
        changed = table | {"processor": [{"exclude": {"pattern": "^b"}}]}
        await reloaded(world, input=[changed])
        world.write(b"a 2\nb 2\n")
        await world.settle()
        (stored,) = world.stored()
        assert stored.content == b"b 1\na 2\n"
        await reloaded(world, input=[table | {"processor": []}])
        world.write(b"a 3\nb 3\n")
        await world.settle()
        (stored,) = world.stored()
        assert stored.content == b"b 1\na 2\na 3\nb 3\n"
        await world.stop()

    run(main())
