"""The embedded sink on a stream that is scaled while it appends.

Writers' numbers are carried over (rule S3), and no batch is stored twice.
"""

from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT, LOST
from logdrive.services.embedded.sink import EmbeddedSink
from logdrive.services.sink import SegmentMovedError
from logdrive.store.streams import key_ranges as layout
from logdrive.wire.pravega.names import segment_id
from tests.logdrive.store.streams.harness import SCOPE, STREAM, Rig, rig
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

SOURCES = [UUID(int=n << 64 | n) for n in range(1, 20)]


async def sink_of(there: Rig, segments: int = 2) -> EmbeddedSink:
    return await EmbeddedSink.open_scaling_stream(
        there.store, there.streams, SCOPE, STREAM, segments
    )


async def scale(there: Rig, ranges: list[tuple[float, float]]) -> None:
    stream = await there.streams.stream(SCOPE, STREAM)
    await there.streams.scale(
        SCOPE, STREAM, [found.id for found in layout.current_segments(stream)], ranges
    )


def test_a_stream_is_made_and_found_again_and_keys_go_where_the_plain_sink_sends_them() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk) as there:
            sink = await sink_of(there, 4)
            plain = await EmbeddedSink.open_stream(there.store, SCOPE, STREAM, 4)
            assert sink.segments == plain.segments
            assert [sink.segment_for(source.hex) for source in SOURCES] == [
                plain.segment_for(source.hex) for source in SOURCES
            ]
        async with rig(disk) as there:
            assert (await sink_of(there, 7)).segments == plain.segments

    run(main())


def test_numbers_go_along_through_scalings_and_a_start__S3() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk) as there:
            sink = await sink_of(there)
            for number, source in enumerate(SOURCES, 1):
                segment = sink.segment_for(source.hex)
                assert await sink.open_writer(segment, source) == ABSENT
                await sink.append_batch(segment, source, [b"run"], 1, ABSENT, number)
            await scale(there, [(0.0, 0.3), (0.3, 0.7), (0.7, 1.0)])
            await scale(there, [(0.0, 1.0)])
            segment = sink.segment_for(SOURCES[0].hex)
            with pytest.raises(TransientError, match="sealed"):
                await sink.append_batch(segment, SOURCES[0], [b"more"], 1, 1, 100)
            with pytest.raises(SegmentMovedError):
                await sink.open_writer(segment, SOURCES[0])
            assert sink.segments == (f"{SCOPE}/{STREAM}/5.#epoch.2",)
        async with rig(disk) as there:
            sink = await sink_of(there)
            for number, source in enumerate(SOURCES, 1):
                segment = sink.segment_for(source.hex)
                assert await sink.open_writer(segment, source) == number
                await sink.append_batch(segment, source, [b"next"], 1, number, number + 1)
                assert await sink.open_writer(segment, source) == number + 1

    run(main())


def test_what_was_cut_off_can_no_longer_tell_a_number__S3() -> None:
    async def main() -> None:
        async with rig() as there:
            sink = await sink_of(there)
            await scale(there, [(0.0, 1.0)])
            await there.streams.truncate(SCOPE, STREAM, {segment_id(2, 1): 0})
            again = await sink_of(there)
            (segment,) = again.segments
            assert await again.open_writer(segment, SOURCES[0]) == LOST
            await again.append_batch(segment, SOURCES[0], [b"run"], 1, LOST, 7)
            assert await again.open_writer(segment, SOURCES[0]) == 7
            assert sink.segments != again.segments

    run(main())


def test_a_sealed_stream_takes_nothing_and_says_so() -> None:
    async def main() -> None:
        async with rig() as there:
            sink = await sink_of(there)
            await there.streams.seal(SCOPE, STREAM)
            segment = sink.segment_for(SOURCES[0].hex)
            with pytest.raises(TransientError):
                await sink.append_batch(segment, SOURCES[0], [b"run"], 1, ABSENT, 1)
            with pytest.raises(TransientError, match="let the sink's uri name another"):
                await sink_of(there)

    run(main())
