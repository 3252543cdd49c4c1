"""Histories of delivery.md §7 about receivers and what comes to them: forged headers, a lost
dialect, one source that never matches, crowds (10, 20, 24, 25).
"""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from agent.delivery.lumberjack import WAITS
from agent.sources.registration import SourceState
from agent.sources.source import Source
from logdrive.model.identity import source_id as writer_id
from logdrive.model.numbers import number_of, position_of
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.wire.lumberjack.frames import RefusalCode
from receiver.counters import Counters
from tests.receiver.world import in_virtual_time
from tests.simulation.hosts.programs import FACE_PORT
from tests.simulation.judging.arrivals import foreign_events
from tests.simulation.scenarios.scene import Scene, lines, scene

HOUR = 600.0
"""A sixth of it: the agents look every few seconds, and would do no otherwise for longer."""
SOURCES, AGENTS = 200, 60


@in_virtual_time
async def test_history_10_a_foreign_client_sends_records_that_look_like_headers() -> None:
    """Events of a foreign peer that look like headers are events like others (R5).

    They are copies of a header of the agent's source, with other positions and lengths: only its
    place makes a header.
    """
    async with scene(beats=1) as world:
        life = world.append("a", lines(0, 100))
        await world.settled()
        await world.read()
        header = _first_header(world)
        (beat,) = world.beats
        for kind in ("data", "gap", "end"):
            for size in (0, 10, 10**9):
                forged = header | {
                    "kind": kind,
                    "bytes": size,
                    "previous": 1200,
                    "position": 10**6,
                    "attributes": {"beat": beat.name},
                }
                beat.send(orjson.dumps({"logdrive": forged}))
                beat.burst(3)
                world.append("a", lines(1000 + size % 100, 3))
                await asyncio.sleep(1)
        verdict = await world.rest()
        (source,) = [one for one in verdict.by_source if not one.foreign]
        assert (source.bytes, source.state, verdict.complete) == (len(life.data), "open", True)
        assert verdict.events == source.events + len(beat.sent)


@in_virtual_time
async def test_large_events_foreign_clients_survive_receivers_and_stores_killed_amid_them() -> None:
    """Large events of foreign peers arrive whole though receivers and the store lose power (R6).

    Two Beats send them to whichever receiver of a shared store is there.
    """
    async with scene(receivers=2, beats=2, shared=True, sync_seconds=0.02) as world:
        for turn in range(6):
            for beat in world.beats:
                beat.send(
                    beat.mark
                    + b',"number":%d,"message":"%b"}' % (len(beat.sent), b"%d" % turn * 2_000_000)
                )
                beat.burst(2)
            await asyncio.sleep(0.05 * turn)
            process = world.store if turn % 2 else world.receivers[turn % 4 // 2]
            await world.down(process, power=True)
            await asyncio.sleep(1)
            process.start()
            await asyncio.sleep(1)
        verdict = await world.rest()
        events = foreign_events(world.tables.batches)
        assert {event for beat in world.beats for event in beat.sent} == set(events)
        assert (verdict.complete, verdict.dead_letters) == (True, 0)
        pieces = [
            mark
            for batch in world.tables.batches
            if batch.kind == "foreign" and (mark := batch.header.get("mark"))
        ]
        whole = sum(piece["end"] == piece["bytes"] for piece in pieces)
        assert len({piece["event"] for piece in pieces}) > whole, "none was cut short"


@in_virtual_time
async def test_history_20_a_balancer_drops_alpn_for_an_hour() -> None:
    """For an hour what agents and receivers agree on is lost on the way.

    One agent may fall back, but its source was registered under logdrive/1: it waits, and status
    says why. The other may not, and waits with a file that is new. All arrives afterwards, once
    (D8).
    """
    async with scene(agents=2) as world:
        fallible, strict = world.agents
        await world.down(fallible)
        fallible.settings["output"]["dialect"] = "auto"
        fallible.start()
        fallible.applications.append("a", lines(0, 10))
        await world.settled()
        _let_alpn_through(world, False)
        fallible.applications.append("a", lines(10, 10))
        strict.applications.append("new", lines(0, 10))
        await asyncio.sleep(HOUR)
        assert fallible.agent is not None
        assert strict.agent is not None
        assert [one.problem for one in fallible.agent.status().sources] == [WAITS]
        assert "logdrive/1" in strict.agent.connection.problem
        assert [one.bytes for one in (await world.read()).by_source] == [len(lines(0, 10))]
        _let_alpn_through(world, True)
        verdict = await world.rest()
        assert verdict.complete
        assert not [one for one in verdict.by_source if one.foreign]


@in_virtual_time
async def test_history_24_one_source_that_can_never_match_among_many() -> None:
    """A source whose number in the store changes after each P frame is refused for a minute (E 6).

    That comes after three positions. 200 other sources, not 10,000 as in the history, go on
    meanwhile (D3).
    """
    async with scene(delay=0.02) as world:
        for number in range(SOURCES):
            world.append(f"{number:03d}", lines(0, 2))
        world.append("bad", lines(0, 2))
        await world.settled()
        await world.read()
        bad, counters = _source_of(world, "/logs/bad.log"), _counters(world)
        meddling = asyncio.create_task(_meddle(world, bad, counters))
        await asyncio.sleep(0.5)
        world.append("bad", lines(2, 2))
        for second in range(5):
            for number in range(SOURCES):
                world.append(f"{number:03d}", lines(2 + second, 1))
            await asyncio.sleep(1)
        await asyncio.sleep(3)
        assert (counters.positions_corrected, counters.refused) == (3, {RefusalCode.NO_PROGRESS: 1})
        assert (bad.state, bad.registration.problem[:13]) == (SourceState.PAUSED, "refused (E 6)")
        others = [
            one.bytes for one in (await world.read()).by_source if one.path != "/logs/bad.log"
        ]
        assert others == [len(lines(0, 7))] * SOURCES
        assert not meddling.done()
        meddling.cancel()
        verdict = await world.rest()
        assert verdict.complete


@in_virtual_time
async def test_history_25_many_sources_at_a_line_a_second() -> None:
    """Many files with a line a second share windows, so that a second costs few acknowledgements.

    200 files instead of 10,000; they register without breaking a limit (D9).
    """
    async with scene() as world:
        names = [f"{number:03d}" for number in range(SOURCES)]
        for name in names:
            world.append(name, lines(0, 1))
        await world.settled()
        before = _counters(world).windows_acknowledged
        for second in range(1, 6):
            for name in names:
                world.append(name, lines(second, 1))
            await asyncio.sleep(1)
        await asyncio.sleep(4)
        assert _counters(world).windows_acknowledged - before < 9 * 20
        assert _counters(world).protocol_errors == 0
        verdict = await world.rest()
        assert (verdict.complete, verdict.sources) == (True, SOURCES)


@in_virtual_time
async def test_history_25_many_agents_reconnect_at_once() -> None:
    """60 agents, instead of 1,000, reconnect at once after the receiver was killed (D9).

    All lines that they could not send meanwhile arrive, and no source is refused.
    """
    async with scene(agents=AGENTS) as world:
        for agent in world.agents:
            agent.applications.append("a", lines(0, 3))
        await world.settled()
        await world.down(world.receiver)
        for agent in world.agents:
            agent.applications.append("a", lines(3, 3))
        await asyncio.sleep(10)
        world.receiver.start()
        await world.settled()
        counters = _counters(world)
        assert (counters.connections_open, counters.protocol_errors, counters.refused) == (
            AGENTS,
            0,
            {},
        )
        assert counters.sources_registered == AGENTS
        verdict = await world.rest()
        assert (verdict.complete, verdict.sources) == (True, AGENTS)


async def _meddle(world: Scene, source: Source, counters: Counters) -> None:
    """Change a source's number in the store after each P frame: with its check, or the check 0.

    Either fits the file (D4).
    """
    assert source.generation is not None
    name = writer_id(source.origin, world.agent.identity)
    segment = next(batch.segment for batch in world.tables.batches if batch.source == str(name))
    own = source.number
    async with connect_segment_store(
        world.network.host("meddler"), "receiver1", FACE_PORT
    ) as client:
        now, other = own, number_of(position_of(own), None)
        while True:
            assert await client.update_attribute(segment, name, now, other)
            now, other = other, now
            await world.until(_grows(counters))


def _grows(counters: Counters) -> Callable[[], bool]:
    """Return a function that returns whether another P frame went out since."""
    corrected = counters.positions_corrected
    return lambda: counters.positions_corrected > corrected


def _first_header(world: Scene) -> dict[str, Any]:
    data = next(bytes(seen) for seen in world.tables.seen.values() if seen)
    size = int.from_bytes(data[4:8], "big")
    header: dict[str, Any] = orjson.loads(data[8 : 8 + size])["logdrive"]
    return header


def _let_alpn_through(world: Scene, through: bool) -> None:
    for agent in world.agents:
        world.network.link(agent.name, "receiver1").alpn = through
        world.network.cut(agent.name)


def _source_of(world: Scene, path: str) -> Source:
    assert world.agent.agent is not None
    return next(
        one
        for one in world.agent.agent.registry.sources
        if one.generation is not None and one.generation.place.path == path
    )


def _counters(world: Scene) -> Counters:
    assert world.receiver.counters is not None
    return world.receiver.counters
