"""Connections to a streaming service that break while a task that uses them is cancelled.

The task ends as cancelled.
"""

import asyncio
from itertools import product
from random import Random
from typing import Any

from logdrive.host.transport import ByteStream
from logdrive.services.outage import Outage
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.channel import RequestChannel
from logdrive.services.pravega.client.pooled_connection import (
    _GREETING_SECONDS,
    PooledConnection,
)
from tests.support.memory.transport import MemoryHost, MemoryNetwork
from tests.support.pravega.peer import virtually
from tests.support.virtual_time import VirtualClock

PORT = 6000
_TURNS = 8
"""So many of the event loop's after a connection broke, everything about it is over."""


async def silent_service(network: MemoryNetwork) -> MemoryHost:
    """Let "service" take connections and say nothing on them; return the host of a client."""

    async def accept(stream: ByteStream) -> None:
        await asyncio.Event().wait()

    await network.host("service").listen("service", PORT, None, accept)
    return network.host("client")


async def cancelled_after(running: "asyncio.Task[Any]", steps: int) -> None:
    """Cancel it so many turns of the loop from now, and hold that it ends as cancelled, unless it
    has ended before.
    """
    for _ in range(steps):
        await asyncio.sleep(0)
    if running.cancel():
        await asyncio.wait([running])
        assert running.cancelled(), repr(running.exception())


@virtually
async def test_a_link_cancelled_while_its_connection_breaks_ends_as_cancelled() -> None:
    # with room for a byte the Hello is still being written
    for capacity, steps in product((1, 1000), range(_TURNS)):
        network = MemoryNetwork()
        network.link("client", "service").capacity = capacity
        client = await silent_service(network)
        running = asyncio.create_task(
            RequestChannel(await client.connect("service", PORT, None), lambda message: None).run()
        )
        await asyncio.sleep(1.0)
        network.cut("client", "service")
        await cancelled_after(running, steps)
        await network.close()


@virtually
async def test_a_link_whose_writing_fails_while_nobody_cancels_tells_why() -> None:
    network = MemoryNetwork()
    network.link("client", "service").capacity = 1
    client = await silent_service(network)
    running = asyncio.create_task(
        RequestChannel(await client.connect("service", PORT, None), lambda message: None).run()
    )
    await asyncio.sleep(1.0)
    network.cut("client", "service")
    assert "reset" in str(await running)
    await network.close()


def lane(client: MemoryHost) -> PooledConnection:
    return PooledConnection(
        client, Target("service", PORT), Outage("service"), clock=VirtualClock(), random=Random(1)
    )


@virtually
async def test_a_lane_cancelled_while_its_connection_breaks_ends_as_cancelled() -> None:
    for steps in range(_TURNS):
        network = MemoryNetwork()
        client = await silent_service(network)
        running = asyncio.create_task(lane(client).run())
        await asyncio.sleep(1.0)
        network.cut("client", "service")
        await cancelled_after(running, steps)
        await network.close()


@virtually
async def test_lane_cancelled_in_moment_in_which_gives_silent_service_up_ends_as_cancelled() -> (
    None
):
    for steps in range(_TURNS):
        network = MemoryNetwork()
        client = await silent_service(network)
        running = asyncio.create_task(lane(client).run())
        await asyncio.sleep(_GREETING_SECONDS)
        await cancelled_after(running, steps)
        await network.close()


@virtually
async def test_lane_outlives_connection_breaks_in_moment_in_which_service_is_given_up() -> None:
    """Both that it was silent and that it broke end one connection; the next is made as ever."""
    for capacity, steps in product((1, 1000), range(_TURNS)):
        network = MemoryNetwork()
        network.link("client", "service").capacity = capacity
        client = await silent_service(network)
        running = asyncio.create_task(lane(client).run())
        await asyncio.sleep(_GREETING_SECONDS)
        for _ in range(steps):
            await asyncio.sleep(0)
        network.cut("client", "service")
        await asyncio.sleep(60.0)
        assert not running.done()
        assert network.connections("client", "service")
        running.cancel()
        await asyncio.wait([running])
        await network.close()
