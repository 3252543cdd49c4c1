"""Streams whose writers note times, and the watermarks in their mark streams."""

from typing import NamedTuple

from logdrive.services.pravega.server.streams.watermarks import Watermarks
from logdrive.services.pravega.server.streams.writer_times import WriterTimes
from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.names import mark_stream
from logdrive.store.streams.state import StreamConfig
from logdrive.wire.pravega.names import segment_name
from tests.logdrive.store.streams.harness import SCOPE, STREAM, Rig
from tests.support.watermarks import Watermark, watermarks_in


class Mark(NamedTuple):
    """One watermark: times, and segment to offset."""

    low: int
    high: int
    cut: dict[int, int]


class Timed:
    """One stream of a rig, with 1,000 bytes in each segment that was current when it was filled."""

    def __init__(self, there: Rig) -> None:
        self.there, self.writers, self.watermarks = (
            there,
            WriterTimes(there.catalog),
            Watermarks(there.catalog),
        )

    async def made(self, segments: int = 2, patience_ms: int = 0) -> None:
        await self.there.streams.create_scope(SCOPE)
        await self.there.streams.create(
            SCOPE, STREAM, StreamConfig(min_segments=segments, timestamp_aggregation_ms=patience_ms)
        )
        await self.fill()

    async def fill(self) -> None:
        for segment in layout.current_segments(await self.there.streams.stream(SCOPE, STREAM)):
            await self.there.write(segment_name(SCOPE, STREAM, segment.id), bytes(1000))

    async def note(self, writer: str, time: int, position: dict[int, int]) -> None:
        await self.writers.note_time(SCOPE, STREAM, writer, time, position)

    async def remove(self, writer: str) -> None:
        await self.writers.remove_writer(SCOPE, STREAM, writer)

    async def noting(self) -> list[str]:
        """Return the writers that are not forgotten."""
        async with self.there.catalog.turn() as state:
            place = state.stream_state(SCOPE, STREAM)
            return sorted(place.writers) if place is not None else []

    async def split(self, segment: int) -> None:
        """Scale the stream: two segments in the place of one."""
        now = await self.there.streams.stream(SCOPE, STREAM)
        gone = layout.segment_of(now, segment)
        middle = (gone.low + gone.high) / 2
        await self.there.streams.scale(
            SCOPE, STREAM, [segment], [(gone.low, middle), (middle, gone.high)]
        )

    def marks(self, segment: int = 0) -> list[Mark]:
        """Return the watermarks in the stream's mark."""
        name = segment_name(SCOPE, mark_stream(STREAM), segment)
        if self.there.store.info(name) is None:
            return []
        return [_marked(found) for found in watermarks_in(self.there.content(name))]


def _marked(found: Watermark) -> Mark:
    assert [part.low for part in found.place] == [0.0, *(part.high for part in found.place[:-1])]
    assert found.place[-1].high == 1.0
    return Mark(found.low, found.high, {part.segment: part.offset for part in found.place})
