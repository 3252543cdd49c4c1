"""Streams scaled by their rates: what is split, what is joined, and what is left as it is."""

import asyncio
from itertools import pairwise

import pytest

from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.scaling import EVERY_SECONDS, Scaling, plan_scaling
from logdrive.store.streams.state import Segment, StreamConfig
from logdrive.wire.pravega.names import segment_name
from tests.logdrive.store.streams.harness import SCOPE, STREAM, Rig, rig
from tests.support.virtual_time import run

HALVES = [Segment(0, 0.0, 0.5), Segment(1, 0.5, 1.0)]
EVENTS = StreamConfig(scale_type=2, target_rate=10, scale_factor=2, min_segments=1)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        (([11, 11], [5, 5]), ([0], [(0.0, 0.25), (0.25, 0.5)])),
        (([11, 11], [100, 100]), ([0, 1], [(0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0)])),
        (([9, 11], [5, 5]), ([], [])),
        (([11], [11]), ([], [])),
        (([2.4] * 10, [2.4] * 10), ([0, 1], [(0.0, 1.0)])),
        (([2.5] * 10, [2.5] * 10), ([], [])),
        (([1] * 9, [1] * 9), ([], [])),
        (([0] * 10, [0] * 9), ([], [])),
        (([0] * 9 + [5], [0] * 10), ([], [])),
        (((), ()), ([], [])),
    ],
)
def test_what_was_hot_for_two_minutes_is_split_and_what_was_cold_for_ten_joined(
    rates: tuple[list[float], list[float]], expected: tuple[list[int], list[tuple[float, float]]]
) -> None:
    assert plan_scaling(HALVES, dict(enumerate(rates)), EVENTS) == expected


def test_a_segment_is_split_into_as_many_as_its_rate_needs_and_the_policy_allows() -> None:
    for factor, rate, parts in ((4, 35, 4), (4, 25, 3), (1, 35, 2), (1000, 100_000, 16)):
        config = StreamConfig(scale_type=2, target_rate=10, scale_factor=factor)
        _, ranges = plan_scaling(HALVES, {0: [rate, rate], 1: []}, config)
        assert len(ranges) == parts
        assert (ranges[0][0], ranges[-1][1]) == (0.0, 0.5)
        assert all(before[1] == after[0] for before, after in pairwise(ranges))


def test_never_fewer_segments_are_left_than_the_policy_wants() -> None:
    assert plan_scaling(
        HALVES,
        {0: [0] * 10, 1: [0] * 10},
        StreamConfig(scale_type=2, target_rate=10, min_segments=2),
    ) == ([], [])


async def written(there: Rig, per_second: int, minutes: int) -> None:
    """Write small events of one key for some seconds."""
    for _ in range(minutes):
        (segment,) = [
            s
            for s in layout.current_segments(await there.streams.stream(SCOPE, STREAM))
            if s.low == 0.0
        ]
        for _ in range(per_second * int(EVERY_SECONDS)):
            await there.write(segment_name(SCOPE, STREAM, segment.id), b"x" * 1000)
        await asyncio.sleep(EVERY_SECONDS - per_second * EVERY_SECONDS * 0.002)


@pytest.mark.parametrize(
    ("scale_type", "target_rate", "epochs"),
    [(2, 3, 2), (2, 5, 1), (1, 3, 2), (1, 4, 1), (0, 1, 1)],
)
def test_streams_are_scaled_by_events_or_bytes_and_fixed_ones_never(
    scale_type: int, target_rate: int, epochs: int
) -> None:
    async def main() -> None:
        async with rig() as there:
            await there.streams.create_scope(SCOPE)
            config = StreamConfig(
                scale_type=scale_type, target_rate=target_rate, scale_factor=2, min_segments=1
            )
            await there.streams.create(SCOPE, STREAM, config)
            running = asyncio.create_task(Scaling(there.catalog, there.streams).run())
            await written(there, 4, 4)
            assert len((await there.streams.stream(SCOPE, STREAM)).epochs) == epochs
            running.cancel()

    run(main())


def test_a_stream_that_got_quiet_is_joined_again_down_to_what_its_maker_wants() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.streams.create_scope(SCOPE)
            await there.streams.create(
                SCOPE,
                STREAM,
                StreamConfig(scale_type=1, target_rate=1, scale_factor=2, min_segments=2),
            )
            await there.streams.scale(SCOPE, STREAM, [0], [(0.0, 0.25), (0.25, 0.5)])
            running = asyncio.create_task(Scaling(there.catalog, there.streams).run())
            await asyncio.sleep(EVERY_SECONDS * 40)
            now = await there.streams.stream(SCOPE, STREAM)
            assert len(layout.current_segments(now)) == 2
            assert len(now.epochs) == 3
            running.cancel()

    run(main())
