"""Watermarks, computed from writers' times, as Pravega's readers rely on them.

Specification, section 6.
"""

import asyncio
from itertools import pairwise
from random import Random

import pytest
from msgspec.structs import replace

from logdrive.services.pravega.server.streams import watermarks
from logdrive.services.pravega.server.streams.watermarks import EVERY_SECONDS, next_watermark
from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.errors import NoSuchStreamError
from logdrive.store.streams.journal import Journal
from logdrive.store.streams.names import mark_stream
from logdrive.store.streams.state import (
    Passed,
    Stream,
    StreamConfig,
    StreamState,
    Watermark,
    WatermarkPut,
    WriterMark,
)
from logdrive.wire.pravega.names import segment_id
from tests.logdrive.services.pravega.server.streams.marks import Mark, Timed
from tests.logdrive.store.streams.harness import SCOPE, STREAM, rig
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


def test_a_watermark_has_earliest_and_latest_time_and_the_furthest_position() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            await timed.watermarks.advance_all()
            assert timed.marks() == []
            await timed.note("a", 100, {0: 10, 1: 300})
            await timed.note("b", 200, {0: 500})
            await timed.watermarks.advance_all()
            assert timed.marks() == [Mark(100, 200, {0: 500, 1: 300})]

    run(main())


def test_a_new_watermark_needs_progress_of_every_writer_and_never_goes_back() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made(patience_ms=3_600_000)
            await timed.note("a", 100, {0: 600, 1: 300})
            await timed.note("b", 200, {0: 500})
            for _ in range(3):
                await timed.watermarks.advance_all()
            await timed.note("b", 300, {0: 510})
            await timed.watermarks.advance_all()
            assert len(timed.marks()) == 1
            await timed.note("a", 250, {1: 310})
            await timed.watermarks.advance_all()
            assert timed.marks()[1:] == [Mark(250, 300, {0: 600, 1: 310})]

    run(main())


def test_a_silent_writer_is_waited_for_as_long_as_configured() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made(patience_ms=60_000)
            running = asyncio.create_task(timed.watermarks.run())
            await timed.note("a", 100, {0: 10})
            await timed.note("b", 200, {0: 500})
            await asyncio.sleep(1.5 * EVERY_SECONDS)
            assert timed.marks() == [Mark(100, 200, {0: 500, 1: 0})]
            await asyncio.sleep(50)
            assert (len(timed.marks()), await timed.noting()) == (1, ["a", "b"])
            await asyncio.sleep(2 * EVERY_SECONDS)
            assert (timed.marks()[1:], await timed.noting()) == (
                [Mark(200, 200, {0: 500, 1: 0})],
                ["b"],
            )
            await asyncio.sleep(2 * 60)
            assert (
                len(timed.marks()),
                await timed.noting(),
                there.catalog.streams_with_times(),
            ) == (
                2,
                [],
                [],
            )
            running.cancel()

    run(main())


def test_by_default_a_silent_writer_is_forgotten_at_once() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            await timed.note("a", 100, {0: 10})
            await timed.note("b", 200, {0: 500})
            await timed.watermarks.advance_all()
            await timed.watermarks.advance_all()
            assert ([mark.low for mark in timed.marks()], await timed.noting()) == (
                [100, 200],
                ["b"],
            )

    run(main())


def test_a_removed_writer_counts_once_and_is_not_waited_for() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made(patience_ms=3_600_000)
            await timed.note("a", 100, {0: 10})
            await timed.note("b", 200, {0: 500})
            await timed.remove("a")
            await timed.watermarks.advance_all()
            assert timed.marks() == [Mark(100, 200, {0: 500, 1: 0})]
            await timed.note("b", 300, {0: 600})
            await timed.watermarks.advance_all()
            assert (timed.marks()[1:], await timed.noting()) == (
                [Mark(300, 300, {0: 600, 1: 0})],
                ["b"],
            )

    run(main())


def test_positions_in_several_epochs_make_one_cut_before_none_of_them() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            await timed.split(0)
            await timed.split(1)
            await timed.fill()
            two, three, four = segment_id(2, 1), segment_id(3, 1), segment_id(4, 2)
            await timed.note("a", 100, {0: 10, 1: 20})
            await timed.note("b", 200, {two: 30, three: 40, 1: 50})
            await timed.watermarks.advance_all()
            assert timed.marks() == [Mark(100, 200, {two: 30, three: 40, 1: 50})]
            await timed.note("a", 300, {two: 20, 1: 60})
            await timed.note("b", 300, {four: 70})
            await timed.watermarks.advance_all()
            assert timed.marks()[1:] == [
                Mark(300, 300, {two: 30, three: 40, four: 70, segment_id(5, 2): 0})
            ]

    run(main())


def scaled_at_random(random: Random) -> Stream:
    """Return a stream with a past, which it may have lost some of."""
    stream = layout.new_stream(StreamConfig(), random.randrange(1, 5), 0, 0)
    for now_ms in range(random.randrange(12)):
        there = sorted(layout.current_segments(stream), key=lambda segment: segment.low)
        begin = random.randrange(len(there))
        gone = there[begin : begin + random.randrange(1, 4)]
        low, high = gone[0].low, gone[-1].high
        bounds = [
            low,
            *sorted(low + (high - low) * random.random() for _ in range(random.randrange(3))),
            high,
        ]
        stream = layout.scale_stream(
            stream, [segment.id for segment in gone], list(pairwise(bounds)), now_ms
        )
    if random.random() < 0.5:
        head = {
            segment.id: 0
            for segment in layout.segments_in_epoch(stream, random.randrange(len(stream.epochs)))
        }
        gone_ids = {segment.id for segment in layout.segments_before(stream, head)}
        left = tuple(segment for segment in stream.segments if segment.id not in gone_ids)
        stream = replace(stream, cut=head, segments=left)
    return stream


@pytest.mark.parametrize("seed", range(100))
def test_after_any_scaling_a_watermarks_cut_is_whole_and_before_no_position(
    seed: int,
) -> None:
    random = Random(seed)
    place = StreamState(scaled_at_random(random))
    stream = place.stream
    for time in range(6):
        samples = [
            random.sample(stream.segments, random.randrange(min(4, len(stream.segments))))
            for _ in range(2)
        ]
        positions = [
            {segment.id: random.randrange(1000) for segment in sample} for sample in samples
        ]
        last = (
            {passed.segment: passed.offset for passed in place.watermark.cut}
            if place.watermark is not None
            else {}
        )
        place.watermark = next_watermark(
            place, [WriterMark(time, position) for position in positions]
        )
        cut = {passed.segment: passed.offset for passed in place.watermark.cut}
        layout.check_cut(replace(stream, cut={}), cut)
        for number, offset in [
            found for position in (*positions, last) for found in position.items()
        ]:
            written = layout.segment_of(stream, number)
            if number in cut:
                assert cut[number] >= offset
            else:
                assert written in layout.segments_before(stream, cut)


@pytest.mark.parametrize("used", [False, True], ids=["gone", "used by an open transaction"])
def test_the_cut_is_in_the_present_epoch_if_the_older_one_is_truncated(used: bool) -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            await timed.note("a", 100, {0: 10, 1: 20})
            if used:
                await there.transactions.begin_transaction(SCOPE, STREAM, 1000)
            await timed.split(0)
            two, three = segment_id(2, 1), segment_id(3, 1)
            await there.streams.truncate(SCOPE, STREAM, {two: 0, three: 0, 1: 0})
            await timed.note("b", 100, {0: 11})
            await timed.watermarks.advance_all()
            assert timed.marks() == [Mark(100, 100, {two: 0, three: 0, 1: 20})]

    run(main())


def test_noted_times_and_watermarks_survive_a_restart_and_are_written_once() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk) as there:
            timed = Timed(there)
            await timed.made()
            await timed.note("a", 100, {0: 10})
            await timed.note("b", 200, {0: 20})
            await timed.watermarks.advance_all()
        async with rig(disk, slack=1) as there:
            timed = Timed(there)
            assert await timed.noting() == ["a", "b"]
            await timed.watermarks.advance_all()
            assert [mark.low for mark in timed.marks()] == [100, 200]
        async with rig(disk) as there:
            timed = Timed(there)
            assert await timed.noting() == ["b"]
            await timed.watermarks.advance_all()
            assert [mark.low for mark in timed.marks()] == [100, 200]

    run(main())


def test_a_watermark_lost_in_a_crash_is_written_at_the_next_start() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk) as there:
            timed = Timed(there)
            await timed.made()
            await timed.note("a", 100, {0: 10})
            await timed.watermarks.advance_all()
            journal = Journal(there.store)
            await journal.replay()
            await journal.append_puts(
                [WatermarkPut(SCOPE, STREAM, Watermark(2, 150, 160, (Passed(0, 0.0, 1.0, 20),)))]
            )
        for _ in range(2):
            async with rig(disk) as there:
                await there.streams.scopes()
                assert Timed(there).marks() == [
                    Mark(100, 100, {0: 10, 1: 0}),
                    Mark(150, 160, {0: 20}),
                ]

    run(main())


def test_deleting_a_stream_deletes_its_times_and_a_deleted_mark_is_created_again() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            await timed.note("a", 100, {0: 10})
            await timed.watermarks.advance_all()
            await there.streams.seal(SCOPE, mark_stream(STREAM))
            await there.streams.delete(SCOPE, mark_stream(STREAM))
            await timed.note("a", 200, {0: 10})
            await timed.watermarks.advance_all()
            assert [mark.low for mark in timed.marks(1)] == [200]
            await there.streams.seal(SCOPE, STREAM)
            await there.streams.delete(SCOPE, STREAM)
            with pytest.raises(NoSuchStreamError):
                await timed.note("a", 300, {0: 10})
            await there.streams.create(SCOPE, STREAM, StreamConfig(min_segments=2))
            await timed.fill()
            assert await timed.noting() == []
            await timed.note("a", 1, {2: 10})
            await timed.watermarks.advance_all()
            assert [mark.low for mark in timed.marks(2)] == [1]

    run(main())


def test_a_mark_stream_keeps_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermarks, "MARK_BYTES", 5 * 113)

    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            for time in range(20):
                await timed.note("a", time, {0: 10 * time})
                await timed.watermarks.advance_all()
            assert [mark.low for mark in timed.marks()] == list(range(15, 20))

    run(main())
