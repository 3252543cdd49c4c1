"""Histories over an Iggy with the faults of real servers (docs/adr/0027): what it acknowledged and
lost is found by the audit, and nothing else is lost; what it doubled or stored in another order is
in the tables once.
"""

import pytest

from tests.receiver.world import in_virtual_time
from tests.simulation.drawing.history import draw
from tests.simulation.history import play
from tests.simulation.judging.arrivals import arrived
from tests.simulation.peers.faulty_iggy import FAULTS, FaultyIggyHost
from tests.simulation.plan import ALIKE_OVER_S2
from tests.simulation.promises import BrokenPromise
from tests.simulation.recipe import recipe_of
from tests.simulation.scenarios.scene import Scene, gaps_of, lines, scene

pytestmark = pytest.mark.history

DRAWN = range(90)
_GROUP = 45
_PART = len(lines(0, 20))
_LONG = 500  # lines of a trace


@pytest.mark.parametrize("torn", [0, 1], ids=["whole", "torn"])
@in_virtual_time
async def test_what_a_crash_lost_of_what_was_acknowledged_is_found(torn: int) -> None:
    """Of 60 lines the 20 in the middle are lost, or all but the first message of their batch."""
    async with scene(shared=True, iggy=True, faulty_iggy="scripted") as world:
        server = _server(world)
        world.append("a", lines(0, 20))
        await world.settled()
        kept = _lengths(server)
        world.append("a", lines(20, 20))
        await world.settled()
        longer = [
            bool(torn and now > before) for now, before in zip(_lengths(server), kept, strict=True)
        ]
        server.lose([count + more for count, more in zip(kept, longer, strict=True)])
        life = world.append("a", lines(40, 20))
        verdict = await world.rest()
        (source,) = verdict.by_source
        assert not verdict.complete
        assert verdict.lost_bytes == _PART
        assert gaps_of(source) == [(_PART, 2 * _PART, "unexplained", True)]
        assert world.content(source) == bytes(life.data[:_PART] + life.data[2 * _PART :])
        assert "the partition is shorter than it was" in world.trace.text(_LONG)


@in_virtual_time
async def test_a_judge_that_knows_of_no_acknowledgement_takes_the_loss_for_ours() -> None:
    async with scene(shared=True, iggy=True, faulty_iggy="scripted") as world:
        server = _server(world)
        world.append("a", lines(0, 20))
        await world.settled()
        server.lose([0, 0])
        server.iggy.acknowledged.clear()
        with pytest.raises(BrokenPromise, match="everything arrives"):
            await world.rest()


@in_virtual_time
async def test_what_a_crash_tore_before_it_was_acknowledged_is_sent_again() -> None:
    async with scene(shared=True, iggy=True, faulty_iggy="scripted") as world:
        server = _server(world)
        world.append("a", lines(0, 20))
        await world.settled()
        kept = _lengths(server)
        server.iggy.answers = False
        life = world.append("a", lines(20, 20))
        await world.until(lambda: _lengths(server) != kept)
        server.iggy.answers = True
        torn = [count + (now > count) for now, count in zip(_lengths(server), kept, strict=True)]
        assert sum(torn) < sum(_lengths(server))
        server.lose(torn)
        verdict = await world.rest()
        (source,) = verdict.by_source
        assert (world.content(source), verdict.complete) == (bytes(life.data), True)
        assert _sent_twice(world) == 0


@in_virtual_time
async def test_what_the_server_stores_twice_is_in_the_tables_once() -> None:
    async with scene(shared=True, iggy=True, faulty_iggy="scripted") as world:
        iggy = _server(world).iggy

        def double() -> None:
            iggy.doubles = 1

        iggy.on_send = double
        for turn in range(5):
            life = world.append("a", lines(turn * 20, 20))
            await world.settled()
        verdict = await world.rest()
        (source,) = verdict.by_source
        assert (world.content(source), verdict.complete) == (bytes(life.data), True)
        assert _sent_twice(world) == len(life.data)


@in_virtual_time
async def test_what_the_server_stores_in_another_order_is_in_the_tables_once() -> None:
    async with scene(shared=True, iggy=True, faulty_iggy="scripted") as world:
        iggy = _server(world).iggy
        world.append("a", lines(0, 20))
        await world.settled()
        for turn in range(1, 4):
            iggy.swaps = 1
            world.append("a", lines(turn * 40, 20))
            await world.settled()
            life = world.append("a", lines(turn * 40 + 20, 20))
            await world.settled()
        verdict = await world.rest()
        (source,) = verdict.by_source
        content = sorted(world.tables.bronze().rows[source.source], key=lambda row: row.start)
        assert b"".join(row.data for row in content) == bytes(life.data)
        assert verdict.complete
        assert _sent_twice(world) == 0
        positions = [batch.header["position"] for batch in world.tables.batches]
        assert positions != sorted(positions)


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "hidden"])
@in_virtual_time
async def test_what_a_lost_client_stores_late_is_not_sent_again(listed: bool) -> None:
    """The server carries out a send 3 s after its connection is lost; it shows its clients, or the
    receiver may not see them.
    """
    async with scene(shared=True, iggy=True, faulty_iggy="scripted") as world:
        server = _server(world)
        server.iggy.lists_clients = listed
        world.append("a", lines(0, 20))
        await world.settled()
        sends: list[int] = []
        server.iggy.on_send = lambda: sends.append(1)
        server.iggy.store_seconds = 3.0
        for turn in range(1, 4):
            count, stored = len(sends), _lengths(server)
            life = world.append("a", lines(turn * 20, 20))
            await world.until(lambda count=count: len(sends) > count)  # type: ignore[misc]
            server.iggy.cut()
            assert _lengths(server) == stored
            await world.settled()
        verdict = await world.rest()
        (source,) = verdict.by_source
        assert (world.content(source), verdict.complete) == (bytes(life.data), True)
        assert _sent_twice(world) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("first", DRAWN[::_GROUP])
def test_every_promise_holds_in_drawn_histories_over_a_faulty_iggy(first: int) -> None:
    came: dict[str, None] = {}
    for seed in range(first, first + _GROUP):
        plan = draw(seed)
        if not plan.shared or seed in ALIKE_OVER_S2:
            continue
        outcome = play(plan.over_faulty_iggy())
        again = f"python -m tests.simulation replay --whole {recipe_of(outcome.plan)}"
        assert outcome.broken is None, f"{outcome.broken}\n{outcome.trace.text(80)}\n{again}"
        text = outcome.trace.text(len(outcome.trace.lines))
        came |= dict.fromkeys(words for words in (*FAULTS, "are left") if words in text)
    assert sorted(came) == sorted((*FAULTS, "are left"))


def _server(world: Scene) -> FaultyIggyHost:
    assert isinstance(world.store, FaultyIggyHost)
    return world.store


def _lengths(server: FaultyIggyHost) -> list[int]:
    return [len(events) for events in server.iggy.stored]


def _sent_twice(world: Scene) -> int:
    """Return how many bytes of files stand in the topic again."""
    sources = arrived(world.tables.batches).values()
    return sum(len(data) for source in sources for _, data in source.pieces) - sum(
        source.bytes for source in sources
    )
