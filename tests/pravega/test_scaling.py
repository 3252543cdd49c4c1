"""Segments sealed by scaling, and the numbers of writers that go along with them (rule S3), at our
store and at a real Pravega.
"""

import asyncio
from random import Random
from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.pravega.client.controller import StreamSegment
from logdrive.services.pravega.sink import PravegaSink
from logdrive.services.sink import SegmentMovedError
from logdrive.wire.pravega.routing import key_fraction
from receiver.writers import CountingWriters
from tests.pravega.sites import Site, client, contents, service
from tests.pravega.test_sink import SOURCE, at_a_site, fresh, of_stream

WHOLE = (0.0, 1.0)


def source_in(low: float, high: float, seed: int = 0) -> UUID:
    """Return a source whose key is in (low, high)."""
    random = Random(seed)
    while not low < key_fraction((found := UUID(int=random.getrandbits(128))).hex) < high:
        pass
    return found


async def moved(sink: PravegaSink, segment: str, source: UUID) -> str:
    """Return where *source* goes once *segment* was found to be sealed."""
    with pytest.raises(SegmentMovedError):
        await sink.open_writer(segment, source)
    with pytest.raises(SegmentMovedError):
        await sink.open_writer(segment, source)  # which waits until the successors are known
    return sink.segment_for(source.hex)


async def split(site: Site, stream: str) -> None:
    """Halve every segment of *stream*."""
    current = await site.controller.current_segments("logs", stream)
    keys = [
        pair
        for s in current
        for pair in ((s.low, (s.low + s.high) / 2), ((s.low + s.high) / 2, s.high))
    ]
    await site.scale("logs", stream, current, keys)


async def merge(site: Site, stream: str) -> None:
    """Make one segment of all."""
    await site.scale(
        "logs", stream, await site.controller.current_segments("logs", stream), [WHOLE]
    )


async def whole(site: Site, segments: list[StreamSegment]) -> bytes:
    return b"".join([await contents(site, segment) for segment in segments])


@at_a_site
async def test_numbers_go_along_when_segments_are_split_and_merged__S3(site: Site) -> None:
    stream = fresh()
    sources = [source_in(n / 8, (n + 1) / 8, seed=n) for n in range(8)]
    passed: list[StreamSegment] = []
    async with service(site) as at:
        sink = await of_stream(at, stream)
        places = {source: sink.segment_for(source.hex) for source in sources}
        numbers = dict.fromkeys(sources, 0)
        for change in (split, split, merge, split):
            for source in sources:
                number = await sink.open_writer(places[source], source)
                assert max(number, 0) == numbers[source]
                text = frame_event(b"%d of %d " % (numbers[source], source.int))
                await sink.append_batch(
                    places[source], source, [text], 1, number, numbers[source] + 1
                )
                numbers[source] += 1
            passed += await site.controller.current_segments("logs", stream)
            await change(site, stream)
            places = {source: await moved(sink, places[source], source) for source in sources}
        for source in sources:
            assert await sink.open_writer(places[source], source) == 4
    stored = await whole(site, passed)
    for source in sources:
        places_of = [stored.index(frame_event(b"%d of %d " % (n, source.int))) for n in range(4)]
        assert places_of == sorted(places_of)
        assert all(stored.count(frame_event(b"%d of %d " % (n, source.int))) == 1 for n in range(4))


@at_a_site
async def test_a_receiver_that_starts_after_several_scalings_finds_number_up_chain__S3(
    site: Site,
) -> None:
    stream = fresh()
    async with service(site) as at:
        sink = await of_stream(at, stream)
        await sink.append_batch(
            sink.segment_for(SOURCE.hex), SOURCE, [frame_event(b"x")], 1, ABSENT, 77
        )
    for change in (split, merge, split):
        await change(site, stream)
    async with service(site) as at:
        sink = await of_stream(at, stream)
        assert await sink.open_writer(sink.segment_for(SOURCE.hex), SOURCE) == 77
        never = source_in(0.0, 1.0, seed=99)
        assert await sink.open_writer(sink.segment_for(never.hex), never) == ABSENT


@at_a_site
async def test_two_receivers_that_carry_one_number_at_once_agree__S3_S2(site: Site) -> None:
    stream = fresh()
    sources = [SOURCE, *(source_in(*WHOLE, seed=seed) for seed in range(20))]
    async with service(site) as first, service(site) as second:
        one = await of_stream(first, stream)
        (before,) = one.segments
        for source in sources:
            await one.append_batch(before, source, [frame_event(b"x")], 1, ABSENT, 5)
        await split(site, stream)
        two = await of_stream(second, stream)
        after = await moved(one, before, SOURCE)
        for source in sources:
            place = one.segment_for(source.hex)
            numbers = await asyncio.gather(
                one.open_writer(place, source), two.open_writer(place, source)
            )
            assert set(numbers) == {5}
        newer = await two.open_writer(after, SOURCE)
        await two.append_batch(after, SOURCE, [frame_event(b"y")], 1, newer, 6)
        with pytest.raises(TransientError):
            await one.append_batch(after, SOURCE, [frame_event(b"z")], 1, 5, 7)
        assert await one.open_writer(after, SOURCE) == 6


@at_a_site
async def test_history_12_source_whose_former_segment_gone_is_told_its_number_is_lost__S3(
    site: Site,
) -> None:
    stream = fresh()
    carried, left = source_in(0.0, 0.5, seed=1), source_in(0.0, 0.5, seed=2)
    async with service(site) as at:
        sink = await of_stream(at, stream)
        (before,) = sink.segments
        for source in (carried, left):
            await sink.append_batch(before, source, [frame_event(b"x")], 1, ABSENT, 5)
        await split(site, stream)
        after = await moved(sink, before, carried)
        assert await sink.open_writer(after, carried) == 5
        await site.give_up("logs", stream)
    async with service(site) as at:
        sink = await of_stream(at, stream)
        assert await sink.open_writer(after, carried) == 5
        assert await sink.open_writer(after, left) == LOST
        # as from another store, from nothing
        await sink.append_batch(after, left, [frame_event(b"y")], 1, LOST, 9)
        assert await sink.open_writer(after, left) == 9


@at_a_site
async def test_batches_without_a_source_go_on_in_the_segments_that_follow__S4(site: Site) -> None:
    stream = fresh()
    async with service(site) as at:
        sink = await of_stream(at, stream)
        writers = CountingWriters(sink, Random(1))
        await writers.writer_for("peer").append_batch([frame_event(b"before")], 1)
        await split(site, stream)
        async with asyncio.timeout(30):
            while True:
                try:
                    await writers.writer_for("peer").append_batch([frame_event(b"after")], 1)
                    break
                except TransientError:
                    await asyncio.sleep(0.05)
        after = sink.segment_for("peer")
    (where,) = [
        s for s in await site.controller.current_segments("logs", stream) if s.name == after
    ]
    assert await contents(site, where) == frame_event(b"after")


@at_a_site
async def test_a_burst_into_a_segment_that_is_sealed_meanwhile_is_there_once__S3(
    site: Site,
) -> None:
    stream = fresh()
    texts = [frame_event(b"%05d" % n) for n in range(1, 401)]
    async with service(site) as at:
        sink = await of_stream(at, stream)
        (before,) = sink.segments
        scaling = asyncio.create_task(split(site, stream))
        number, place = await sink.open_writer(before, SOURCE), before
        while max(number, 0) < len(texts):
            pending = []
            try:
                for following in range(
                    max(number, 0) + 1, min(max(number, 0) + 10, len(texts)) + 1
                ):
                    pending.append(
                        sink.append_batch(
                            place, SOURCE, [texts[following - 1]], 1, number, following
                        )
                    )
                    number = following
            except TransientError:
                pass
            await asyncio.gather(*pending, return_exceptions=True)
            await asyncio.sleep(0.02)
            number, place = await reopened(sink, SOURCE)
        await scaling
        assert place != before
    later = [
        segment
        for segment in await site.controller.current_segments("logs", stream)
        if segment.name == place
    ]
    assert await whole(site, [StreamSegment("logs", stream, 0, *WHOLE), *later]) == b"".join(texts)


async def reopened(sink: PravegaSink, source: UUID) -> tuple[int, str]:
    """Return the durable number, and where it goes on, as a session finds them."""
    while True:
        place = sink.segment_for(source.hex)
        try:
            return await sink.open_writer(place, source), place
        except (SegmentMovedError, TransientError):
            await asyncio.sleep(0.05)


@at_a_site
async def test_the_final_number_is_that_of_a_sealed_segment_only__S3(site: Site) -> None:
    stream = fresh()
    async with service(site) as at:
        sink = await of_stream(at, stream)
        (before,) = sink.segments
        await sink.append_batch(before, SOURCE, [frame_event(b"x")], 1, ABSENT, 5)
        await split(site, stream)
        after = await moved(sink, before, SOURCE)
        await sink.open_writer(after, SOURCE)
    (where,) = [
        s for s in await site.controller.current_segments("logs", stream) if s.name == after
    ]
    async with client(site, where) as found:
        assert await found.get_attribute(before, SOURCE) == 5
        assert await found.get_attribute(after, SOURCE) == 5
        state = await found.segment_info(before)
        assert state is not None
        assert state.sealed
