"""Histories of delivery.md §7 about what is durable, and whose number counts: commits, failed
writes, backups, sessions that overlap, several stores (1, 3, 8, 11, 13).
"""

import asyncio

import pytest

from agent.sources.registration import SourceState
from agent.sources.source import Source
from tests.receiver.world import in_virtual_time
from tests.simulation.peers.reader import Tables, TakenBackError
from tests.simulation.scenarios.scene import Scene, gaps_of, lines, of_path, scene
from tests.support.memory.transport import Connection

LINE = 12
"""Bytes of each of the `lines` here."""


@pytest.mark.parametrize("point", ["store.commit.before_sync", "store.commit.after_sync"])
@in_virtual_time
async def test_history_01_power_is_cut_while_a_second_connection_asks(point: str) -> None:
    """Power is cut while connection 1's run is in the group commit, and connection 2 registers.

    No P and no acknowledgement may go out before the sync has returned (D2). Each line arrives
    once, whether that run is on the disk or not.
    """
    async with scene() as world:
        life = world.append("a", lines(0, 10))
        await world.settled()
        source = _source(world)
        before = source.number
        world.receiver.executor.delay = 8.0
        world.append("a", lines(10, 10))
        await world.until(lambda: source.unacknowledged.sent == 1)
        await asyncio.sleep(1)
        world.network.cut("agent1")
        await world.until(lambda: source.state is SourceState.ASKING)
        assert _source(world).acknowledged.bytes == len(lines(0, 10))
        world.receiver.arm(point, 1, power=True, down=1.0)
        await world.until(lambda: not world.receiver.running)
        assert (source.state, source.number) == (SourceState.ASKING, before)
        verdict = await world.rest()
        assert verdict.complete
        assert [one.bytes for one in verdict.by_source] == [len(life.data)]


@in_virtual_time
async def test_history_03_the_first_of_many_first_runs_fails_in_the_sink() -> None:
    """A new source's first runs are on their way, the disk has no room for the first of them: those
    that followed are refused, not stored, and all are sent again (P2, D3).
    """
    async with scene(delay=0.05) as world:
        await asyncio.sleep(3)
        life = world.append("a", lines(0, 200_000))
        world.receiver.fail_write("ENOSPC", after=100, times=1)
        await world.settled()
        counters = world.receiver.counters
        assert counters is not None
        assert counters.sink_failures >= 1
        assert counters.runs_refused >= 2, "runs that followed the failed one were on their way"
        assert counters.positions_corrected >= 1
        verdict = await world.rest()
        assert [one.bytes for one in verdict.by_source] == [len(life.data)]


@pytest.mark.parametrize("restart", [False, True])
@in_virtual_time
async def test_history_08_the_store_restored_from_a_backup_after_a_life_had_ended(
    restart: bool,
) -> None:
    """A file is shipped, removed, its end stored; then the store is set back to a backup of before.

    A reader finds that what it has read is void (R5), the audit does not show the life as ended,
    and once its agent connects, started anew or not, lists what is gone with it (D9, G6, A3); a
    file that is still there is sent again (D5).
    """
    async with scene() as world:
        went = world.append("gone", lines(0, 100))
        stays = world.append("stays", lines(0, 10))
        await world.settled()
        backup = world.receiver.disk.killed()
        world.append("gone", lines(100, 100))
        world.append("stays", lines(10, 10))
        await world.settled()
        world.applications.unlink("gone", late=0, seed=1)
        await asyncio.sleep(10)
        # so that the ended one is not the one acknowledged last
        world.append("stays", lines(20, 10))
        await world.settled()
        assert [one.state for one in of_path(await world.read(), "/logs/gone.log")] == ["ended"]

        assert went.witness is not None
        # the file is closed, so what the store will have lost can't be sent again
        world.set_back, went.witness.held = True, False
        if restart:
            await world.down(world.agent)
        world.network.partition("agent1", "receiver1")
        world.receiver.set_back(backup)
        await asyncio.sleep(5)
        with pytest.raises(TakenBackError):
            await world.read()
        world.tables = Tables()
        (ended,) = of_path(await world.read(), "/logs/gone.log")
        assert (ended.state, ended.gaps) == ("open", [])

        world.agent.start()
        world.network.heal("agent1", "receiver1")
        await asyncio.sleep(60)  # nothing is written meanwhile: connecting is enough
        for verdict in await world.read(), await world.rest():
            (ended,), (kept,) = (
                of_path(verdict, "/logs/gone.log"),
                of_path(verdict, "/logs/stays.log"),
            )
            assert (ended.state, gaps_of(ended)) == (
                "ended",
                [(100 * LINE, 200 * LINE, "removed", True)],
            )
            assert kept.gaps == []
        assert kept.bytes == len(stays.data)


@pytest.mark.parametrize("first", ["new", "late"])
@in_virtual_time
async def test_history_11_a_half_open_session_and_its_successor_on_one_receiver(first: str) -> None:
    """The agent's host loses power while a run is on its way, and comes back with more lines: the
    new session cuts them otherwise. The old session's run arrives after the new one is registered,
    before its first run or after it, and is refused (S2).
    """
    async with scene(delay=0.2) as world:
        life = world.append("a", lines(0, 10))
        await world.settled()
        old = await _left_half_open(world, first=10)
        world.receiver.executor.delay = 3.0
        world.append("a", lines(11, 5))
        await world.until(
            lambda: (
                world.agent.running
                and any(source.unacknowledged.sent for source in _sources(world))
            )
        )
        await asyncio.sleep(1 if first == "new" else 0)
        old.resume()
        await asyncio.sleep(1)
        assert world.receiver.counters is not None
        assert world.receiver.counters.sources_fenced == 1
        verdict = await world.rest()
        assert verdict.complete
        assert [one.bytes for one in verdict.by_source] == [len(life.data)]


@pytest.mark.parametrize("first", ["new", "late"])
@in_virtual_time
async def test_history_11_a_half_open_session_and_its_successor_on_two_receivers_and_back(
    first: str,
) -> None:
    """The same with two receivers that share a store: the agent leaves a run on its way to the
    first, goes on at the second, leaves one there and goes back. Neither late run is stored, though
    each receiver takes it for the next (S2).
    """
    async with scene(delay=0.2, receivers=2, balanced=True, shared=True) as world:
        world.balance("receiver1")
        life = world.append("a", lines(0, 10))
        await world.settled()
        for number, (before, after) in enumerate(
            (("receiver1", "receiver2"), ("receiver2", "receiver1"))
        ):
            old = await _left_half_open(world, first=100 + 10 * number)
            assert before in old.hosts
            world.balance(after)
            world.append("a", lines(101 + 10 * number, 5))
            await world.until(
                lambda: (
                    world.agent.running
                    and any(source.unacknowledged.sent for source in _sources(world))
                )
            )
            if first == "new":
                await world.settled()
            old.resume()
            await asyncio.sleep(2)
            await world.settled()
        for receiver in world.receivers:
            assert receiver.counters is not None
            assert receiver.counters.positions_corrected == 1, (
                "the late run met a later one's number"
            )
        verdict = await world.rest()
        assert verdict.complete
        assert [one.bytes for one in verdict.by_source] == [len(life.data)]


@in_virtual_time
async def test_history_11_to_the_other_receiver_and_back_again_and_again() -> None:
    """Two receivers share a store, the agent's connection is passed to and fro, now at rest, now in
    the midst of it: each time the number is read anew from the store, for what a receiver remembers
    of a source is old by then (S2).
    """
    async with scene(delay=0.02, receivers=2, balanced=True, shared=True) as world:
        life = world.append("a", lines(0, 10))
        for turn in range(12):
            world.balance(f"receiver{turn % 2 + 1}")
            world.network.cut("agent1")
            world.append("a", lines(1000 * turn, 500))
            await asyncio.sleep(0.1 if turn % 3 else 5.0)
        verdict = await world.rest()
        assert verdict.complete
        assert [one.bytes for one in verdict.by_source] == [len(life.data)]


@in_virtual_time
async def test_history_13_to_another_embedded_store_and_back() -> None:
    """Two receivers with a store each; every few seconds, in the midst of it, the agent's
    connection is passed to the other one: it goes on there at once, nothing is doubled, and neither
    says more of the other's bytes than that they are elsewhere (D3, D5).
    """
    async with scene(delay=0.02, receivers=2, balanced=True) as world:
        life = world.append("a", lines(0, 10))
        for turn in range(8):
            world.balance(f"receiver{turn % 2 + 1}")
            world.network.cut("agent1")
            world.append("a", lines(1000 * turn, 3000))
            await asyncio.sleep(0.3)
            world.append("a", lines(1000 * turn + 500, 3000))
            await asyncio.sleep(2)
        registered = sum(
            receiver.counters.sources_registered
            for receiver in world.receivers
            if receiver.counters is not None
        )
        assert registered < 8 + 8 * 3, (
            "eight counts at first, and then one question a connection, or few more"
        )
        verdict = await world.rest()
        assert verdict.complete
        assert {gap.reason for gap in verdict.gaps} == {"elsewhere"}
        assert {batch.store for batch in world.tables.batches} == {"receiver1", "receiver2"}
        assert [one.bytes for one in verdict.by_source] == [len(life.data)]


def _sources(world: Scene) -> list[Source]:
    assert world.agent.agent is not None
    return list(world.agent.agent.registry.sources)


def _source(world: Scene) -> Source:
    (source,) = _sources(world)
    return source


async def _left_half_open(world: Scene, first: int) -> Connection:
    """Cut the agent's power with a run of one line on its way; return the half-open connection."""
    connection = world.network.connections("agent1")[-1]
    world.agent.arm("agent.window.after_send", 1, power=True, down=0.5)
    world.append("a", lines(first, 1))
    await world.until(lambda: not world.agent.running)
    return connection
