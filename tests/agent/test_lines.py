"""An agent whose inputs are no plain lines: several lines an event, other line ends (P3, G2)."""

import asyncio
import random
from typing import Any

import pytest
from msgspec import structs

from agent.config.files import InputTable
from agent.config.lines import MultilineTable
from agent.events.cutting.make import make_cutter
from tests.agent.events.cutting.world import read_events
from tests.agent.test_dialects import PlainModel
from tests.agent.test_ship import shipped
from tests.agent.v1_model import V1Model
from tests.agent.world import LOG, World
from tests.support.virtual_time import run

TRACE = b"""\
10:00 ERROR can't
java.lang.IllegalStateException: no
\tat shop.Cart.add(Cart.java:7)
\tat shop.Main.main(Main.java:3)
Caused by: java.io.IOException: gone
\t... 2 more
"""
NEXT = b"10:01 INFO well\n"
JAVA = {"preset": "java"}
PRESET = MultilineTable(preset="java")


def multiline_world(**keys: Any) -> World:
    """Return a world whose input has this [input.multiline] table."""
    return World(multiline=JAVA | keys)


def events(world: World, path: str = LOG) -> list[bytes]:
    """Return the events that the receiver has of a file."""
    return [data for stored in world.stored(path) for _, _, data in stored.data]


@pytest.mark.parametrize("cut", [20, len(TRACE) // 2, len(TRACE) - 3, len(TRACE)])
def test_p3_an_event_of_several_lines_waits_for_its_end(cut: int) -> None:
    async def main() -> None:
        world = multiline_world()
        await world.ships(NEXT + TRACE[:cut])
        assert events(world) == [NEXT]
        await asyncio.sleep(1)
        world.write(TRACE[cut:])
        await asyncio.sleep(1)
        assert events(world) == [NEXT]
        world.write(NEXT)
        await world.settle()
        assert events(world) == [NEXT, TRACE]
        await world.stop()

    run(main())


def test_p3_the_last_event_is_sent_when_its_file_has_not_grown_for_a_while() -> None:
    async def main() -> None:
        world = multiline_world(max_seconds=8)
        await world.ships(NEXT + TRACE)
        await asyncio.sleep(5)
        assert events(world) == [NEXT]
        await asyncio.sleep(8)
        assert events(world) == [NEXT, TRACE]
        await world.stop()

    run(main())


def test_p3_half_a_line_behind_the_last_event_waits_longer() -> None:
    async def main() -> None:
        world = multiline_world()
        await world.ships(TRACE + b"half")
        await asyncio.sleep(10)
        assert events(world) == [TRACE]
        await asyncio.sleep(30)
        assert events(world) == [TRACE, b"half"]
        await world.stop()

    run(main())


def test_p3_an_event_may_wait_longer_than_a_line() -> None:
    async def main() -> None:
        world = World(multiline=JAVA | {"max_seconds": 20}, quiet_seconds=2)
        await world.ships(TRACE + b"half")
        await asyncio.sleep(10)
        assert events(world) == []
        await asyncio.sleep(20)
        assert events(world) == [TRACE, b"half"]
        await world.stop()

    run(main())


def test_p3_another_configuration_cuts_what_is_read_next() -> None:
    async def main() -> None:
        world = World()
        await world.ships(NEXT + TRACE[:10])
        assert world.agent is not None
        (followed,) = world.agent.tailer.followed.values()
        settings = followed.generation.settings
        followed.generation.apply_settings(structs.replace(settings, multiline=PRESET))
        world.write(TRACE[10:] + NEXT)
        await world.settle()
        assert events(world)[-1] == TRACE
        await world.stop()

    run(main())


def test_p3_half_an_event_is_neither_sent_at_the_end_of_the_agent_nor_lost() -> None:
    async def main() -> None:
        world = multiline_world()
        await world.ships(NEXT + TRACE[:100])
        await world.stop()
        assert events(world) == [NEXT]
        world.write(TRACE[100:] + NEXT)
        world.start()
        await world.settle()
        assert events(world) == [NEXT, TRACE]
        await world.kill()
        world.write(TRACE)
        world.start()
        await world.settle(90)
        await asyncio.sleep(10)
        assert events(world) == [NEXT, TRACE, NEXT, TRACE]
        await world.stop()

    run(main())


def test_p3_an_event_goes_on_in_a_file_that_was_renamed() -> None:
    async def main() -> None:
        world = multiline_world()
        await world.ships(NEXT + TRACE[:100])
        world.disk.replace(LOG, LOG + ".1")
        world.write(NEXT + NEXT)
        await asyncio.sleep(3)
        world.write(TRACE[100:], LOG + ".1")
        await world.settle()
        await asyncio.sleep(10)
        whole = [
            stored.content for stored in world.readers["reader"].stored.values() if stored.data
        ]
        assert sorted(whole) == sorted([NEXT + TRACE, NEXT + NEXT])
        assert TRACE in events(world, LOG) + events(world, LOG + ".1")
        await world.stop()

    run(main())


@pytest.mark.parametrize("records", ["packed", "block", "full"])
def test_r1_events_of_several_lines_travel_in_every_form(records: str) -> None:
    async def main() -> None:
        world = multiline_world()
        world.settings["output"]["records"] = records
        reader = await world.ships(NEXT + TRACE + b"\xff bad\r\n" + TRACE + NEXT)
        await asyncio.sleep(10)
        (stored,) = world.stored()
        assert stored.content == NEXT + TRACE + b"\xff bad\r\n" + TRACE + NEXT
        assert stored.events == 5
        assert (reader.packs_stored > 0) == (records != "block")
        await world.stop()

    run(main())


def test_g2_a_file_without_any_newline_begins_where_its_first_line_ends() -> None:
    async def main() -> None:
        world = World(line_end="\0")
        await world.ships(b"one\0two\0thr")
        (stored,) = world.stored()
        assert stored.content == b"one\0two\0"
        await world.kill()
        # the line end of the input is another one now: the file is the same
        world.settings["input"][0]["line_end"] = "|"
        world.write(b"ee|four|")
        world.start()
        await world.settle()
        (stored,) = world.stored()
        assert stored.content == b"one\0two\0three|four|"
        await world.stop()

    run(main())


def test_p3_a_file_that_is_shipped_once_ends_with_its_last_event() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(NEXT + TRACE + TRACE[:-1])
        table = InputTable(paths=["/"], multiline=PRESET)
        assert (await shipped(world, labels=table)).complete
        assert events(world) == [NEXT, TRACE, TRACE[:-1]]

    run(main())


@pytest.mark.parametrize("dialect", ["lumberjack/2", "lumberjack/1"])
def test_plain_lumberjack_gets_one_event_for_several_lines(dialect: str) -> None:
    async def main() -> None:
        world = World(encoding="latin-1", multiline=JAVA, longest_event_bytes=300)
        world.settings["output"]["dialect"] = dialect
        model: Any = PlainModel() if dialect == "lumberjack/2" else V1Model()
        await world.network.host("reader").listen("0.0.0.0", 5044, None, model.accept)
        world.write(TRACE + b"caf\xe9\n" + b"x" * 400 + b"\n")
        world.start()
        await asyncio.sleep(20)
        received = model.events[LOG]
        key = "message" if dialect == "lumberjack/2" else "line"
        assert [event[key] for event in received] == [TRACE.decode()[:-1], "caf\xe9", "x" * 300]
        log = received[2]["log"]["flags"] if key == "message" else [received[2]["log.flags"]]
        assert log == ["truncated"]
        await world.stop()

    run(main())


@pytest.mark.parametrize("seed", range(6))
def test_p3_events_are_the_same_whenever_their_bytes_come_and_whoever_dies(seed: int) -> None:
    async def main() -> None:
        pick = random.Random(seed)
        world = World(seed, multiline=JAVA | {"max_seconds": 60}, quiet_seconds=60)
        reader = await world.reader()
        wanted = [pick.choice((NEXT, TRACE, b"\n", b"  \xff more\n" * 9)) for _ in range(60)]
        data, at = NEXT + b"".join(wanted) + NEXT, 0
        world.start()
        while at < len(data):
            end = min(len(data), at + pick.choice((1, 7, 40, 300, 2000)))
            world.write(data[at:end])
            at = end
            await asyncio.sleep(pick.choice((0.0, 0.3, 2.0)))
            if pick.random() < 0.15:
                await (world.kill() if pick.random() < 0.5 else world.stop())
                world.start()
            elif pick.random() < 0.1:
                await world.crash_reader()
                await world.reader(model=reader)
        await asyncio.sleep(90)
        await world.settle()
        whole = read_events(make_cutter(InputTable(paths=["/"], multiline=PRESET)), data, [])
        assert events(world) == [data[event.start : event.end] for event in whole]
        await world.stop()

    run(main())
