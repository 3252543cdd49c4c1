"""Histories of files that the agent could not see for a while: without a handle, or while it was
away (rules G1, G2, G4, P4).
"""

import asyncio
from dataclasses import replace

import pytest

from tests.receiver.world import in_virtual_time
from tests.simulation.scenarios.scene import Scene, gaps_of, lines, of_path, scene

HEADER = b"#Version: 1.0, the same in every life\n"
LINE = 12


@in_virtual_time
async def test_history_09_files_without_handles_move_to_another_watched_directory() -> None:
    """With logrotate's `olddir`, and more files than may be open, nothing is sent twice (G1)."""
    async with scene() as world:
        await world.down(world.agent)
        world.agent.plan = replace(world.agent.plan, max_open_files=2)
        world.agent.settings["agent"] |= {"close_idle_seconds": 1}
        world.agent.settings["input"][0]["paths"] = ["/logs/*.log", "/logs/old/*"]
        world.agent.disk.make_directory("/logs/old")
        world.agent.start()
        names = [f"file{number}" for number in range(6)]
        lives = [world.append(name, lines(0, 20, name)) for name in names]
        await world.settled()
        await asyncio.sleep(30)
        for name, life in zip(names, lives, strict=True):
            assert life.path is not None
            moved = f"/logs/old/{name}.1"
            world.agent.disk.replace(life.path, moved)
            life.path = moved
            world.applications.append_to(life, lines(20, 5, name))
        await asyncio.sleep(60)
        verdict = await world.rest()
        assert verdict.complete
        assert sorted(source.bytes for source in verdict.by_source) == sorted(
            len(life.data) for life in lives
        )


async def _away(world: Scene, *, unlink: bool) -> int:
    """Let the agent see lines and not send them, and find another life in their place at its start.

    Both lives have the same first line. Return how many bytes were seen.
    """
    await world.down(world.receiver)
    life = world.append("a", HEADER + lines(0, 50))
    await asyncio.sleep(10)
    await world.down(world.agent)
    disk = world.agent.disk
    inode, later = disk.stat("/logs/a.log").inode, disk.next_inode
    if unlink:
        world.applications.unlink("a", late=0, seed=1)
        disk.next_inode = inode
    else:
        world.applications.truncate("a", seed=1)
    world.append("a", HEADER + lines(0, 80, "new"))
    assert disk.stat("/logs/a.log").inode == inode
    disk.next_inode = max(later, inode + 1)
    world.receiver.start()
    world.agent.start()
    return len(life.data)


@pytest.mark.parametrize("unlink", [False, True])
@in_virtual_time
async def test_history_06_another_life_with_same_first_line_took_place_of_unsent_lines(
    unlink: bool,
) -> None:
    """Another life begins under the same inode while the agent is away.

    The agent notices by the birth time, or by the bytes before the end seen last (G2, G4).
    """
    async with scene() as world:
        seen = await _away(world, unlink=unlink)
        verdict = await world.rest()
        assert verdict.lost_bytes == seen
        (old,) = [source for source in verdict.by_source if source.ended]
        assert gaps_of(old) == [(0, seen, "removed" if unlink else "truncated", False)]
        (new,) = [source for source in of_path(verdict, "/logs/a.log") if not source.ended]
        assert new.bytes == len(HEADER) + 80 * (LINE - 1) + len(b"last line 1\n")


@in_virtual_time
async def test_history_06_another_life_with_same_first_line_of_which_nothing_else_known() -> None:
    """Only the first line was ever read, so no byte tells the lives apart: an unknown end (P4)."""
    async with scene() as world:
        world.append("a", HEADER)
        await world.settled()
        await world.down(world.agent)
        world.append("a", lines(0, 50))
        world.applications.truncate("a", seed=1)
        world.append("a", HEADER + lines(0, 80, "new"))
        world.agent.start()
        verdict = await world.rest()
        assert verdict.complete_but_for_ends
        assert [(end.position, end.reason) for end in verdict.unknown_ends] == [(0, "unsure")]
