"""Histories over S2: the receivers append to a shared store by its protocol, which keeps no number
for a writer (rule S5): 18 and 19 of delivery.md §7, two receivers, a fence, and drawn ones.
"""

import asyncio
from itertools import pairwise

import pytest

from logdrive.address import S2Address
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.target import target_of
from logdrive.wire.s2.records import FENCE, AppendInput, Record
from tests.receiver.world import in_virtual_time
from tests.simulation.drawing.history import draw
from tests.simulation.history import play
from tests.simulation.hosts.programs import BASIN, S2_PORT, STREAM
from tests.simulation.judging.arrivals import arrived
from tests.simulation.peers.reader import S2_SEGMENT
from tests.simulation.plan import ALIKE_OVER_S2
from tests.simulation.recipe import recipe_of
from tests.simulation.scenarios.scene import Scene, lines, scene

pytestmark = pytest.mark.history

DRAWN = range(40)
_GROUP = 40


@in_virtual_time
async def test_history_18_what_was_shipped_after_the_quiet_time_is_sent_again_as_a_line() -> None:
    """ "abc" is shipped after the quiet time and stored, and the connection is lost before the
    acknowledgement. The line is finished meanwhile: the agent sends all of it again, as one event,
    and the tables have each byte once (A2).
    """
    async with scene(shared=True, s2=True) as world:
        world.append("a", b"first\n")
        await world.settled()
        stored = len(await _batches(world))
        world.network.swallow("agent1", "receiver1", frozenset({"agent1"}))
        world.append("a", b"abc")
        await asyncio.sleep(12)  # the quiet time
        assert len(await _batches(world)) > stored
        life = world.append("a", b"def\n")
        world.network.give_back("agent1", "receiver1", reset=True)
        verdict = await world.rest()
        (source,) = verdict.by_source
        assert (world.content(source), verdict.complete) == (bytes(life.data), True)
        assert _sent_twice(world) == len(b"abc")


@in_virtual_time
async def test_history_19_after_a_lost_connection_to_s2_only_what_is_missing_is_sent() -> None:
    """What the store says to the receiver vanishes while batches are appended, and then their
    connection is lost, again and again. The receiver finds the batches that the store has, sends
    those that it lacks, and the agent hears nothing of it.
    """
    async with scene(shared=True, s2=True, delay=0.002, sync_seconds=0.01) as world:
        world.append("a", lines(0, 10))
        await world.settled()
        for turn in range(1, 5):
            stored = len(await _batches(world))
            world.network.swallow("receiver1", "store", frozenset({"receiver1"}))
            world.append("a", lines(turn * 50, 50))
            world.append("b", lines(turn * 50, 50, "other"))
            while len(await _batches(world)) == stored:  # noqa: ASYNC110 - the reader must ask
                await asyncio.sleep(0.05)
            world.append("c", lines(turn * 50, 50, "not yet there"))
            world.network.give_back("receiver1", "store", reset=True)
            await world.settled()
        verdict = await world.rest()
        assert verdict.complete
        assert _sent_twice(world) == 0
        assert "batches of a lost session are in the stream" in world.trace.text(500)


@in_virtual_time
async def test_two_receivers_on_one_stream_make_progress_and_double_nothing() -> None:
    async with scene(
        agents=4, receivers=2, shared=True, s2=True, delay=0.002, sync_seconds=0.01
    ) as world:
        for number, agent in enumerate(world.agents):
            await world.down(agent)
            agent.settings["output"]["hosts"] = [f"receiver{number % 2 + 1}:5044"]
            agent.start()
            agent.applications.append("a", lines(0, 20, "begun"))
        await world.settled()
        for turn in range(200):
            for number, agent in enumerate(world.agents):
                agent.applications.append("a", lines(turn * 20, 20, f"agent{number}"))
            await asyncio.sleep(0.1)
            if turn % 20 == 10:
                world.network.cut(f"receiver{turn // 20 % 2 + 1}", "store")
        verdict = await world.rest()
        assert verdict.complete
        assert _sent_twice(world) == 0
        hosts = [batch.header["attributes"]["host"] for batch in world.tables.batches]
        receivers = [int(host.removeprefix("agent")) % 2 for host in hosts]
        turns = sum(one != other for one, other in pairwise(receivers))
        assert turns > 20, "they did not meet"


@in_virtual_time
async def test_a_fence_of_another_writer_stops_appends_until_it_is_removed() -> None:
    async with scene(shared=True, s2=True) as world:
        world.append("a", lines(0, 10))
        await world.settled()
        await _fence(world, b"somebody")
        world.append("a", lines(10, 10))
        await asyncio.sleep(30)
        assert "another writer has fenced the stream with the token 'somebody'" in (
            world.trace.text(200)
        )
        stored = len(await _batches(world))
        await asyncio.sleep(5)
        assert len(await _batches(world)) == stored
        await _fence(world, b"")
        verdict = await world.rest()
        assert verdict.complete
        assert _sent_twice(world) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("first", DRAWN[::_GROUP])
def test_every_promise_holds_in_drawn_histories_over_s2(first: int) -> None:
    played = 0
    for seed in range(first, first + _GROUP):
        plan = draw(seed)
        if not plan.shared or seed in ALIKE_OVER_S2:
            continue
        outcome = play(plan.over_s2())
        again = f"python -m tests.simulation replay --whole {recipe_of(outcome.plan)}"
        assert outcome.broken is None, f"{outcome.broken}\n{outcome.trace.text(80)}\n{again}"
        played += 1
    assert played


def _sent_twice(world: Scene) -> int:
    """Return how many bytes of files stand in the stream again."""
    sources = arrived(world.tables.batches).values()
    return sum(len(data) for source in sources for _, data in source.pieces) - sum(
        source.bytes for source in sources
    )


async def _fence(world: Scene, token: bytes) -> None:
    fence = Record(token, ((b"", FENCE),))
    async with _client(world) as client:
        await client.append(STREAM, AppendInput((fence,)))


async def _batches(world: Scene) -> list[object]:
    await world.read()
    return [batch for batch in world.tables.batches if batch.segment == S2_SEGMENT]


def _client(world: Scene) -> S2Client:
    address = S2Address("store", S2_PORT, BASIN, STREAM)
    target = target_of(address, tls=None, plain=True, token=None, environ={})
    return S2Client(world.network.host("operator"), target)
