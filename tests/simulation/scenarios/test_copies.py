"""Histories of delivery.md §7 about copies and compressed files (6, 7, 14, 27)."""

import asyncio
import gzip

from logdrive.pipeline.audit.audit import Verdict
from tests.receiver.world import in_virtual_time
from tests.simulation.hosts.applications import LOGS, Life
from tests.simulation.scenarios.scene import Scene, gaps_of, lines, scene

HEADER = b"#Version: 1.0, the same in every life\n"


@in_virtual_time
async def test_history_06_the_unread_bytes_of_a_truncated_life_come_from_its_copy() -> None:
    """A file is copied and truncated with half a line in it that was seen and not shipped: the copy
    is read on from there, under the same source, and nothing is lost (G5, G3).
    """
    async with scene() as world:
        life = world.append("a", lines(0, 200))
        await world.settled()
        world.append("a", b"half a line")
        await asyncio.sleep(1)
        world.applications.copytruncate("a", seed=1, to="a.log.1")
        world.append("a", lines(0, 10, "next"))
        verdict = await world.rest()
        (old,) = [one for one in verdict.by_source if one.ended]
        assert (old.bytes, gaps_of(old)) == (len(life.data), [])
        assert verdict.complete


@in_virtual_time
async def test_history_07_two_lives_with_one_first_line_of_which_one_is_left_as_gz() -> None:
    """A life is rotated and compressed, the next one has the same header and is shorter, the
    checkpoint is lost: the compressed one is not read again, and neither is read on from the
    other's position (G5, G3).
    """
    async with scene() as world:
        first = world.append("a", HEADER + lines(0, 2000, "first"))
        await world.settled()
        _compress(world, first)
        second = world.append("a", HEADER + lines(0, 1000, "second"))
        await world.settled()
        world.agent.forget(power=False, down=1.0)
        world.append("a", lines(1000, 3000, "second"))
        verdict = await world.rest()
        assert sorted(one.bytes for one in verdict.by_source) == sorted(
            (0, len(first.data), len(second.data))
        )
        assert _skipped(verdict) == [(0, len(first.data), "not_wanted", True)]


@in_virtual_time
async def test_history_14_the_copy_that_copytruncate_leaves() -> None:
    """The copy has a name that an input asks for: nothing of it is shipped twice (G5)."""
    async with scene() as world:
        life = world.append("a", lines(0, 200))
        await world.settled()
        world.applications.copytruncate("a", seed=1, to="a.log.1")
        world.append("a", lines(0, 10, "next"))
        verdict = await world.rest()
        assert (verdict.sources, max(one.bytes for one in verdict.by_source)) == (2, len(life.data))
        assert verdict.complete


@in_virtual_time
async def test_history_14_a_gz_beside_its_plain_file() -> None:
    """A compressed copy appears, and only later its plain file goes: nothing ships twice (G5)."""
    async with scene() as world:
        life = world.append("a", lines(0, 200))
        await world.settled()
        _compress(world, life, keep=True)
        await asyncio.sleep(20)
        world.applications.remove("a", seed=1)
        world.append("a", lines(0, 10, "next"))
        verdict = await world.rest()
        assert (verdict.sources, max(one.bytes for one in verdict.by_source)) == (2, len(life.data))


@in_virtual_time
async def test_history_14_a_gz_without_a_checkpoint() -> None:
    """The checkpoint is lost, and of what was shipped only the compressed file is left. Nothing
    tells whose it is: it is not sent again, and that is recorded (G5, D4).
    """
    async with scene() as world:
        life = world.append("a", lines(0, 200))
        await world.settled()
        await world.down(world.agent)
        _compress(world, life)
        world.append("a", lines(0, 10, "next"))
        world.agent.forget(power=False, down=0.0)
        world.agent.start()
        verdict = await world.rest()
        assert sorted(one.bytes for one in verdict.by_source) == [0, 132, len(life.data)]
        assert _skipped(verdict) == [(0, len(life.data), "not_wanted", True)]
        assert verdict.complete


@in_virtual_time
async def test_history_27_the_end_of_a_truncated_life_whose_tail_is_only_in_its_copy() -> None:
    """The receiver is away while lines are written, copied and truncated: the end record waits
    until the copy was read (G3, G5).
    """
    async with scene() as world:
        life = world.append("a", lines(0, 200))
        await world.settled()
        await world.down(world.receiver)
        world.append("a", lines(200, 1000))
        await asyncio.sleep(2)
        world.applications.copytruncate("a", seed=1, to="a.log.1")
        world.append("a", lines(0, 10, "next"))
        await asyncio.sleep(2)
        world.receiver.start()
        verdict = await world.rest()
        (old,) = [one for one in verdict.by_source if one.ended]
        assert (old.bytes, gaps_of(old)) == (len(life.data), [])


def _skipped(verdict: Verdict) -> list[tuple[int, int, str, bool]]:
    """Return the gaps of the one source without bytes."""
    (empty,) = [one for one in verdict.by_source if not one.bytes]
    return gaps_of(empty)


def _compress(world: Scene, life: Life, *, keep: bool = False) -> None:
    """Rotate *life* and put its compressed form beside it, or in its place."""
    world.applications.rotate("a", late=0, seed=1)
    world.agent.disk.write(
        f"{LOGS}/a.log.{life.number}.gz", gzip.compress(bytes(life.data), mtime=0)
    )
    if not keep:
        world.applications.remove("a", seed=1)
