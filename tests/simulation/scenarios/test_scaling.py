"""History 12 of delivery.md §7, with an embedded store and with one over the network: a stream is
scaled between two runs of a source, and the segment before, with the source's number in it, may be
gone by then (S3).
"""

import asyncio

import pytest

from tests.receiver.world import in_virtual_time
from tests.simulation.scenarios.scene import Scene, gaps_of, lines, scene

LINE = 12
"""Bytes of each of the `lines` here."""

at_both = pytest.mark.parametrize("shared", [False, True], ids=["embedded", "service"])


@at_both
@in_virtual_time
async def test_history_12_a_scale_between_old_sessions_append_and_the_new_sessions_run(
    shared: bool,
) -> None:
    """The stream is scaled and the connection cut, several times: nothing is doubled or lost.

    Each new session gets the number that the old one left in a segment that is sealed by now.
    """
    async with scene(shared=shared, controlled=True, delay=0.02) as world:
        life = world.append("a", lines(0, 10))
        await world.settled()
        for turn, how in enumerate(("all", "merge", "split", "all", "merge")):
            await world.scaled(how)
            world.network.cut("agent1")
            world.append("a", lines(1000 * (turn + 1), 500))
            await world.settled()
        verdict = await world.rest()
        assert verdict.complete
        assert [(one.bytes, gaps_of(one)) for one in verdict.by_source] == [(len(life.data), [])]
        assert len(_segments(world)) >= 4, (
            "each scaling of all segments, and each merging, moves the source"
        )


@at_both
@in_virtual_time
async def test_history_12_a_run_on_its_way_into_a_segment_that_is_sealed_meanwhile(
    shared: bool,
) -> None:
    """A session goes on in the new segment.

    The receiver learns of the scaling from a refused run. It reads the number in the segment of the
    source now, and sends it in a P frame.
    """
    async with scene(shared=shared, controlled=True, delay=0.05, sync_seconds=0.05) as world:
        life = world.append("a", lines(0, 10))
        await world.settled()
        for turn in range(1, 4):
            world.append("a", lines(100_000 * turn, 50_000))
            await world.until(lambda: world.agent.in_flight > 0)
            await asyncio.sleep(0.05)
            await world.scaled()
            await world.settled()
        assert world.receiver.counters is not None
        assert world.receiver.counters.sink_failures + world.receiver.counters.runs_refused >= 1, (
            "some run was on its way"
        )
        verdict = await world.rest()
        assert verdict.complete
        assert [one.bytes for one in verdict.by_source] == [len(life.data)]
        assert len(_segments(world)) >= 2


@at_both
@pytest.mark.parametrize("read", [True, False], ids=["read", "unread"])
@in_virtual_time
async def test_history_12_the_predecessor_deleted_by_retention(shared: bool, read: bool) -> None:
    """A segment is deleted with the source's number before the source uses the next one.

    The agent then begins as at another store, with a gap for what went before (D5). The audit
    counts the gap as lost only if the reader had not read those bytes.
    """
    async with scene(shared=shared, controlled=True, delay=0.02) as world:
        world.append("a", lines(0, 10))
        await world.settled()
        if read:
            await world.read()
        await world.scaled()
        await world.given_up()
        world.network.cut("agent1")
        world.append("a", lines(10, 10))
        await world.settled()
        (source,) = (await world.read()).by_source
        assert gaps_of(source) == [(0, 10 * LINE, "elsewhere", True)]
        assert (source.bytes, source.lost_bytes) == (
            (20 * LINE, 0) if read else (10 * LINE, 10 * LINE)
        )
        world.append("a", lines(20, 10))
        await world.settled()
        (source,) = (await world.read()).by_source
        assert source.bytes == (30 if read else 20) * LINE, "from then on its number is known again"


@at_both
@in_virtual_time
async def test_history_12_the_segment_is_deleted_under_a_session_that_stays(shared: bool) -> None:
    """A session sends a run to a segment that was deleted: it is refused, and no program ends."""
    async with scene(shared=shared, controlled=True, delay=0.02) as world:
        life = world.append("a", lines(0, 10))
        await world.settled()
        await world.read()
        await world.scaled()
        await world.given_up()
        world.append("a", lines(10, 10))
        await world.settled()
        (source,) = (await world.read()).by_source
        assert (source.bytes, source.lost_bytes) == (len(life.data), 0)


@at_both
@in_virtual_time
async def test_a_foreign_writer_goes_on_in_the_segments_that_follow(shared: bool) -> None:
    """A receiver whose peers register no source learns of a scaling from refused appends (S3)."""
    async with scene(shared=shared, controlled=True, beats=1, delay=0.02) as world:
        for how in ("all", "split", "all", "merge"):
            world.beats[0].burst(10)
            await world.settled()
            await world.scaled(how)
        world.beats[0].burst(10)
        await world.settled()
        await world.rest()
        assert len({batch.segment for batch in world.tables.batches}) >= 3


def _segments(world: Scene) -> list[str]:
    """Return the segments in which the one source has batches."""
    return list(
        dict.fromkeys(batch.segment for batch in world.tables.batches if batch.kind == "data")
    )
