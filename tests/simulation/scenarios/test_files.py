"""Histories of delivery.md §7 about what becomes of files: truncated, renamed, unlinked, moved,
damaged (6, 9, 16, 17, 23, 26, 27).
"""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from agent.config.output import OutputTable
from agent.ship import Shipped, ship
from logdrive.host.host import Host
from logdrive.model.limits import RECORD_BYTES, RUN_BYTES
from logdrive.model.units import KIB
from tests.receiver.world import in_virtual_time
from tests.simulation.hosts.programs import AgentHost
from tests.simulation.scenarios.scene import Scene, gaps_of, lines, of_path, scene

HEADER = b"#Version: 1.0, the same in every life\n"
LINE = 12
"""Bytes of each of the `lines` here, unless they say something else."""


@in_virtual_time
async def test_history_06_truncated_and_regrown_past_the_position_between_two_polls() -> None:
    """A file that was truncated and outgrew its old length between two looks is two lives (G4).

    Its first line is the same, or not. All bytes of both lives arrive.
    """
    async with scene(agents=2) as world:
        for agent, header in zip(world.agents, (HEADER, b""), strict=True):
            agent.applications.append("a", HEADER + lines(0, 100, "first"))
            await world.settled()
            agent.applications.truncate("a", seed=1)
            agent.applications.append("a", header + lines(0, 1000, "second"))
        verdict = await world.rest()
        for agent in world.agents:
            first, second = agent.applications.lives
            sources = [
                (one.bytes, one.ended) for one in verdict.by_source if one.host == agent.name
            ]
            assert sorted(sources) == [(len(first.data), "truncated"), (len(second.data), None)]


@in_virtual_time
async def test_history_06_rewritten_at_the_same_length() -> None:
    """A file is rewritten in one moment, to the very same length (G4)."""
    async with scene() as world:
        world.append("a", HEADER + lines(0, 100, "one"))
        await world.settled()
        world.applications.truncate("a", seed=1)
        world.append("a", HEADER + lines(0, 100, "two"))
        await world.settled()
        verdict = await world.rest()
        assert sorted((one.state, one.lost_bytes) for one in verdict.by_source) == [
            ("ended", 0),
            ("open", 0),
        ]


@in_virtual_time
async def test_history_06_the_unread_bytes_of_a_truncated_life_are_a_gap() -> None:
    """Half a line that was seen, not shipped, and truncated is a gap with an unknown end (P4)."""
    async with scene() as world:
        world.append("a", lines(0, 100))
        await world.settled()
        world.append("a", b"half a line")
        await asyncio.sleep(1)
        world.applications.truncate("a", seed=1)
        world.append("a", lines(0, 10, "next"))
        verdict = await world.rest()
        (old,) = [one for one in verdict.by_source if one.ended]
        assert gaps_of(old) == [(100 * LINE, 100 * LINE + 11, "truncated", False)]
        assert (verdict.lost_bytes, verdict.lost_at_least) == (11, True)


@in_virtual_time
async def test_history_06_truncated_while_the_agent_was_away() -> None:
    """Lines in the checkpoint that were truncated while the agent was away are a gap (G4, P4).

    They were seen and could not be sent; the file grows again past the position.
    """
    async with scene() as world:
        world.append("a", lines(0, 100))
        await world.settled()
        await world.down(world.receiver)
        world.append("a", lines(100, 50))
        await asyncio.sleep(5)
        await world.down(world.agent)
        world.applications.truncate("a", seed=1)
        world.append("a", lines(0, 400, "next"))
        world.receiver.start()
        world.agent.start()
        verdict = await world.rest()
        (old,) = [one for one in verdict.by_source if one.ended]
        assert (old.bytes, gaps_of(old)) == (
            100 * LINE,
            [(100 * LINE, 150 * LINE, "truncated", False)],
        )


@in_virtual_time
async def test_an_end_that_is_found_late_is_told_on_the_connection_that_stands() -> None:
    """A truncation that the agent notices late is reported on the open connection (G3, G4).

    The file is truncated while the agent is away, and can't be read when it starts.
    """
    async with scene() as world:
        world.append("a", lines(0, 100))
        await world.settled()
        await world.down(world.agent)
        world.applications.truncate("a", seed=1)
        world.agent.fail_read("EIO", ["stat"], 3)
        world.agent.start()
        await asyncio.sleep(60)
        assert [one.ended for one in (await world.read()).by_source] == ["truncated"]


@in_virtual_time
async def test_a_file_that_could_not_be_read_at_the_start_holds_no_handle() -> None:
    """Each look for a file whose first line can't be read gives its handle back: otherwise none is
    left when it can (G1).
    """
    async with scene() as world:
        life = world.append("a", lines(0, 100))
        await world.settled()
        await world.down(world.agent)
        world.agent.plan = replace(world.agent.plan, handles=8)  # of which files get four
        world.agent.fail_read("EIO", ["pread"], 10)
        world.agent.start()
        await asyncio.sleep(80)
        world.append("a", lines(100, 10))
        verdict = await world.rest()
        assert [one.bytes for one in verdict.by_source] == [len(life.data)]


@pytest.mark.parametrize("paths", ["/logs/a.log", "/logs/a.log*"])
@in_virtual_time
async def test_history_09_renamed_and_written_to_for_a_minute_with_the_agent_killed_in_it(
    paths: str,
) -> None:
    """After rename-and-create both files are read to their ends, though the agent is killed (G1).

    The application writes to the old file for a minute, under a name that an input matches or not.
    The agent finds it by its inode.
    """
    async with scene() as world:
        await world.down(world.agent)
        world.agent.settings["input"][0]["paths"] = [paths]
        world.agent.start()
        old = world.append("a", lines(0, 10, "old"))
        await world.settled()
        world.applications.rotate("a", late=0, seed=1)
        for second in range(60):
            new = world.append("a", lines(second, 1, "new"))
            world.applications.append_to(old, lines(10 + second, 1, "old"))
            await asyncio.sleep(1)
            if second == 30:
                world.agent.kill(down=5.0)
        verdict = await world.rest()
        assert verdict.complete
        assert sorted((one.bytes, one.state) for one in verdict.by_source) == [
            (len(new.data), "open"),
            (len(old.data), "open"),
        ]


@pytest.mark.parametrize("away", [False, True])
@in_virtual_time
async def test_history_09_an_unlinked_log_that_is_written_on_to(away: bool) -> None:
    """A removed log is read for as long as its application writes to it, then ended (G1, G3).

    It is not ended before all of it is stored, also if the receiver is *away* meanwhile.
    """
    async with scene() as world:
        life = world.append("a", lines(0, 10))
        await world.settled()
        if away:
            await world.down(world.receiver)
        world.applications.unlink("a", late=20, seed=1)
        for turn in range(20):
            world.applications.write("a", 1, "plain", turn)
            await asyncio.sleep(2)
        if away:
            await asyncio.sleep(30)
            world.receiver.start()
        else:
            assert [one.state for one in (await world.read()).by_source] == ["open"]
        verdict = await world.rest()
        (source,) = verdict.by_source
        assert (source.bytes, source.ended, verdict.complete) == (len(life.data), "removed", True)


@pytest.mark.parametrize("bound", [{"keep_removed_bytes": 200 * LINE}, {"keep_removed_days": 0.02}])
@in_virtual_time
async def test_history_26_deleted_files_that_nobody_takes_are_held_within_bounds(
    bound: dict[str, float],
) -> None:
    """Two logs are deleted while no receiver runs; the limits on deleted files hold.

    Beyond the limit on bytes the first is closed, beyond the limit on days both are. What was not
    read is a gap. A deleted file that was read to its end does not count.
    """
    async with scene() as world:
        await world.down(world.agent)
        world.agent.settings["agent"] |= bound
        world.agent.start()
        for name in ("a", "b"):
            world.append(name, lines(0, 10, name * 4))
        await world.settled()
        await world.down(world.receiver)
        for name in ("a", "b"):
            world.append(name, lines(10, 150, name * 4))
            await asyncio.sleep(5)
            world.applications.unlink(name, late=0, seed=1)
            await asyncio.sleep(120)
        await asyncio.sleep(1800 if "keep_removed_days" in bound else 0)
        let_go = ("a.log", "b.log") if "keep_removed_days" in bound else ("a.log",)
        for life in world.applications.lives:
            if life.name in let_go and life.witness is not None:
                # the one way in which a file that is open need not be read to its end
                life.witness = replace(life.witness, held=False)
        world.receiver.start()
        verdict = await world.rest()
        for source in verdict.by_source:
            gaps = (
                [(10 * LINE, 160 * LINE, "removed", True)]
                if source.path is not None and source.path.endswith(let_go)
                else []
            )
            assert (source.ended, gaps_of(source)) == ("removed", gaps)


@in_virtual_time
async def test_history_16_a_first_line_without_newline_that_grows_later() -> None:
    """A file without a whole first line is no source, however long it rests (G2, P3).

    Once it has one, its unfinished last line is shipped after a quiet time, and the rest of that
    line follows.
    """
    async with scene() as world:
        life = world.append("a", b"the beginning")
        await asyncio.sleep(60)
        assert world.receiver.counters is not None
        assert world.receiver.counters.sources_registered == 0
        world.append("a", b" and the end\nmore")
        await world.settled()
        world.append("a", b" of it\n")
        await world.settled()
        (source,) = (await world.read()).by_source
        assert (source.bytes, source.events) == (len(life.data), 3)
        assert (await world.rest()).complete


@in_virtual_time
async def test_history_16_ship_of_a_file_without_a_first_line() -> None:
    """`ship` takes end of file as the end of the line, and ends the source (P3).

    A second run sends nothing. Once the line has grown it is another first line, so another source
    (G2).
    """
    async with scene() as world:
        await world.retire(world.agent)
        host = world.agent
        world.append("a", b"no line yet")
        assert (await _shipped(world, host)).bytes == len(b"no line yet")
        again = await _shipped(world, host)
        assert (again.bytes, again.complete) == (0, True)
        world.append("a", b", but now\n")
        await _shipped(world, host)
        assert (await _shipped(world, host)).bytes == 0
        sources = of_path(await world.read(), "/logs/a.log")
        assert sorted(world.content(one) for one in sources) == [
            b"no line yet",
            b"no line yet, but now\n",
        ]
        assert sorted((one.bytes, one.ended) for one in sources) == [(11, "shipped"), (21, None)]


@in_virtual_time
async def test_history_17_a_reboot_that_changes_device_numbers() -> None:
    """Sources stay the same though devices have other numbers after a power cut (G2).

    The host has another name, too. The checkpoint tells which files they are.
    """
    async with scene() as world:
        life = world.append("a", lines(0, 10))
        await world.settled()
        await asyncio.sleep(3)
        await world.down(world.agent, power=True)
        world.agent.disk.device = 77
        world.agent.settings["agent"]["host"] = "renamed"
        world.append("a", lines(10, 10))
        world.agent.start()
        verdict = await world.rest()
        (source,) = verdict.by_source
        assert (source.bytes, verdict.complete) == (len(life.data), True)


@in_virtual_time
async def test_history_23_a_block_of_nuls_after_a_crash() -> None:
    """400 KiB of NULs without a line end are cut to records and runs within their limits (R3).

    They are six times as long in JSON. None of them is missing.
    """
    async with scene() as world:
        life = world.append("a", lines(0, 100))
        await world.settled()
        await world.down(world.agent, power=True)
        world.append("a", bytes(400 * KIB) + lines(100, 100))
        world.agent.start()
        verdict = await world.rest()
        (source,) = verdict.by_source
        assert (source.bytes, verdict.complete) == (len(life.data), True)
        sizes = [batch.header["bytes"] for batch in world.tables.batches]
        assert max(sizes) <= RUN_BYTES
        assert max(sizes) > RECORD_BYTES // 2, "few large records, not many small ones"


@in_virtual_time
async def test_history_27_the_end_of_a_truncated_life_whose_tail_is_in_memory() -> None:
    """A life is truncated while its last lines are on their way: they are sent, then its end, and
    no gap (G3).
    """
    async with scene(sync_seconds=3.0) as world:
        first = world.append("a", HEADER + lines(0, 1000))
        await world.until(lambda: world.agent.in_flight > 0)
        world.applications.truncate("a", seed=1)
        second = world.append("a", HEADER + lines(0, 2000, "next"))
        verdict = await world.rest()
        assert sorted((one.bytes, one.ended, gaps_of(one)) for one in verdict.by_source) == [
            (len(first.data), "truncated", []),
            (len(second.data), None, []),
        ]


@in_virtual_time
async def test_history_27_lives_that_come_and_go_while_the_receiver_is_away() -> None:
    """Each of three lives stays open until its bytes or its gap are stored, then ends (G3, P4).

    The receiver is away while they are written and truncated. The next life runs beside as the next
    count.
    """
    async with scene() as world:
        lives = [world.append("a", HEADER + lines(0, 10))]
        await world.settled()
        await world.down(world.receiver)
        for number in range(1, 4):
            world.applications.truncate("a", seed=1)
            lives.append(world.append("a", HEADER + lines(0, 80 - 20 * number, f"life {number}")))
            await asyncio.sleep(2)
        world.receiver.start()
        await world.settled()
        verdict = await world.rest()
        sizes = [len(life.data) for life in lives]
        assert sorted((one.state, one.bytes, gaps_of(one)) for one in verdict.by_source) == sorted(
            [
                ("ended", sizes[0], []),
                ("ended", 0, [(0, sizes[1], "truncated", False)]),
                ("ended", 0, [(0, sizes[2], "truncated", False)]),
                ("open", sizes[3], []),
            ]
        )


async def _shipped(world: Scene, host: AgentHost) -> Shipped:
    output = msgspec.convert(host.settings["output"], OutputTable)
    return await ship(
        ["/logs/a.log"],
        output,
        host=Host(
            clock=host.clock,
            disk=host.disk,
            transport=world.network.host("agent1", host.identity),
            executor=host.executor,
            random=host.random,
        ),
        agent="agent1",
        host_name="agent1",
    )
