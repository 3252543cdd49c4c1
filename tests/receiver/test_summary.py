"""The receiver logs one line a minute while something comes in, and none otherwise."""

import asyncio
from uuid import UUID

from structlog.testing import capture_logs

from tests.receiver.peers import run_of
from tests.receiver.world import in_virtual_time, receiver


@in_virtual_time
async def test_a_line_a_minute_while_something_comes_in() -> None:
    with capture_logs() as said:
        async with receiver() as world:
            peer = await world.native()
            await peer.register(0, UUID(int=0xA))
            await peer.acknowledged(await peer.send_window(run_of(0, 0, 100, lines=10)))
            await asyncio.sleep(200)
            await peer.acknowledged(await peer.send_window(run_of(0, 100, 250, lines=15)))
            await asyncio.sleep(60)
    minutes = [told for told in said if told["event"] == "in the last minute"]
    assert [(told["new_connections"], told["windows"], told["lines"]) for told in minutes] == [
        (1, 1, 10),
        (0, 1, 15),
    ]
    assert all(told["connections"] == 1 and told["bytes"] > 0 for told in minutes)
    assert all((told["refusals"], told["sink_failures"]) == (0, 0) for told in minutes)
