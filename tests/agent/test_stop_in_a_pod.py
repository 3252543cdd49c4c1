"""The end of an agent beside an application, whose files go with both: `linger_seconds` and
`files_end_with_agent`.
"""

import asyncio

import pytest

from tests.agent.world import LOG, World, contents, lines
from tests.receiver.world import in_virtual_time


def _in_a_pod(**keys: object) -> World:
    world = World()
    world.settings["agent"].update(keys)
    return world


@in_virtual_time
async def test_what_is_written_while_the_agent_lingers_is_sent__drain() -> None:
    world = _in_a_pod(linger_seconds=10)
    await world.ships(lines(0, 10))
    stopping = asyncio.create_task(world.stop())
    await world.clock.sleep(9)
    world.write(lines(10, 10))
    world.write(lines(0, 10), "/logs/new.log")
    await stopping
    assert contents(world.stored()) == [world.disk.content(LOG)]
    assert contents(world.stored("/logs/new.log")) == [world.disk.content("/logs/new.log")]


@pytest.mark.parametrize("written", [lines(0, 10) + b"half a line", b"a first line's half"])
@in_virtual_time
async def test_a_stop_sends_last_lines_without_newline_of_files_that_end_with_it__P3(
    written: bytes,
) -> None:
    world = _in_a_pod(files_end_with_agent=True)
    await world.reader()
    world.start()
    await world.clock.sleep(3)
    world.write(written)
    await world.clock.sleep(1)
    await world.stop()
    assert contents(world.stored()) == [written]


@in_virtual_time
async def test_a_stop_leaves_last_lines_without_newline_of_other_files__P3() -> None:
    world = _in_a_pod()
    await world.ships(lines(0, 10))
    world.write(b"half a line")
    await world.clock.sleep(1)
    await world.stop()
    assert contents(world.stored()) == [lines(0, 10)]
