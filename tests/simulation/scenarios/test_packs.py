"""Histories of packs: those that lie, upgrades and downgrades of either end, plain TCP (R8)."""

import asyncio

import pytest

from logdrive.pipeline.audit.audit import Verdict
from tests.receiver.world import in_virtual_time
from tests.simulation.peers.lies import QUIET
from tests.simulation.plan import Unpack
from tests.simulation.scenarios.scene import Scene, lines, of_path, scene

OLD, NEW = True, False


def _forms(world: Scene) -> list[str]:
    """Return the forms of the data batches in the stores, "" for JSON, each once."""
    data = [batch.header for batch in world.tables.batches if batch.kind == "data"]
    return sorted({str(header.get("form", "")) for header in data})


async def _install(world: Scene, host: str, *, old: bool) -> None:
    """Install another version on *host*, and wait until it runs."""
    process = world.processes[host]
    process.install(old=old, killed=False, down=0.1)
    before = process.incarnation
    await world.until(lambda: process.running and process.incarnation > before)


def _whole(world: Scene, verdict: Verdict, data: bytes) -> None:
    """Require that *data* arrived as one source, in events without a gap."""
    (source,) = verdict.by_source
    assert (source.bytes, verdict.complete) == (len(data), True)
    assert world.content(source) == data


# Versions ---------------------------------------------------------------------------------------


@in_virtual_time
async def test_this_version_sends_packs_and_the_one_before_gets_blocks() -> None:
    for old, form in ((("receiver1",), ""), (("agent1",), ""), ((), "text")):
        async with scene(old=old, records="packed") as world:
            life = world.append("a", lines(0, 1000))
            verdict = await world.rest()
            _whole(world, verdict, bytes(life.data))
            assert _forms(world) == [form]


@pytest.mark.parametrize("tls", [True, False])
@in_virtual_time
async def test_packs_become_blocks_though_their_file_is_gone(tls: bool) -> None:
    """A receiver that stored nothing is downgraded, with packs unacknowledged (R8, D8).

    Their file was truncated meanwhile, so the packs are all there is of its bytes.
    """
    before, data = lines(0, 100), b"\xff\xfe no UTF-8, \0\n" + lines(0, 300) + b"\r\nno newline"
    async with scene(records="packed", tls=tls, compression="zlib") as world:
        world.append("a", before)
        await world.settled()
        await _unanswered(world, data)
        world.applications.truncate("a", seed=1)
        world.append("a", lines(0, 10, "next life"))
        await asyncio.sleep(10)
        await _replace_receiver(world, old=OLD)
        verdict = await world.rest()
        (gone,) = [one for one in verdict.by_source if one.ended == "truncated"]
        assert world.content(gone) == before + data
        assert not verdict.lost_bytes
        assert _forms(world) == ["", "text"]


@in_virtual_time
async def test_blocks_are_sent_on_by_an_agent_whose_receiver_takes_packs_by_now() -> None:
    """A receiver is upgraded while blocks are unacknowledged and their file is gone (R8)."""
    before, data = lines(0, 100), b"\xff\xfe no UTF-8, \0\n" + lines(0, 300)
    async with scene(records="packed", old=("receiver1",)) as world:
        world.append("a", before)
        await world.settled()
        await _unanswered(world, data)
        world.applications.truncate("a", seed=1)
        await asyncio.sleep(10)
        await _replace_receiver(world, old=NEW)
        world.append("a", lines(0, 10, "next life"))
        verdict = await world.rest()
        (gone,) = [one for one in verdict.by_source if one.ended == "truncated"]
        assert world.content(gone) == before + data
        assert not verdict.lost_bytes
        assert _forms(world) == ["", "text"]


@in_virtual_time
async def test_an_agent_is_upgraded_and_downgraded_in_the_middle_of_a_file() -> None:
    async with scene(records="packed", old=("agent1",)) as world:
        for number, old in enumerate((OLD, NEW, OLD, NEW)):
            await _install(world, "agent1", old=old)
            life = world.append("a", lines(number * 100, 100))
            await world.settled()
        verdict = await world.rest()
        _whole(world, verdict, bytes(life.data))
        assert _forms(world) == ["", "text"]


async def _unanswered(world: Scene, data: bytes) -> None:
    """Append *data*, of which nothing becomes durable after it was received."""
    world.receiver.executor.delay = 30.0
    world.append("a", data)
    await asyncio.sleep(4)
    assert world.agent.in_flight


async def _replace_receiver(world: Scene, *, old: bool) -> None:
    """Cut the receiver's power, and start another version."""
    await world.down(world.receiver, power=True)
    world.receiver.installed_old = old
    world.receiver.start()


# Lies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unpack", ["no", "blocks", "full"])
@pytest.mark.parametrize("lie", QUIET)
@in_virtual_time
async def test_a_pack_that_lies_is_quarantined_and_harms_nobody_else(
    lie: str, unpack: Unpack
) -> None:
    """The judge looks at each pack and its rows; the audit names source and interval (R8)."""
    async with scene(records="packed", liars=1, unpack=unpack) as world:
        life = world.append("a", lines(0, 500))
        (liar,) = world.liars
        told = liar.tell(lie)
        verdict = await world.rest()
        named = {(fault.source, fault.previous, fault.position) for fault in verdict.faults}
        assert named == {(liar.sources[0].source, told.previous, told.position)}
        (source,) = of_path(verdict, "/logs/a.log")
        assert (source.bytes, source.lost_bytes) == (len(life.data), 0)
        assert not verdict.complete


@in_virtual_time
async def test_a_receiver_that_dies_amid_a_pack_that_it_unpacks_stores_the_rest_once() -> None:
    """A pack becomes several batches; power is cut between any two of them (D2, D3, R8)."""
    async with scene(records="packed", unpack="blocks", sync_seconds=0.01) as world:
        for turn in range(12):
            life = world.append("a", lines(turn * 40_000, 40_000))
            world.receiver.arm("store.commit.after_sync", turn % 4 + 1, power=True, down=0.5)
            await asyncio.sleep(8)
        verdict = await world.rest()
        _whole(world, verdict, bytes(life.data))
        assert _forms(world) == [""]
