"""Streams whose writers note times, and what stands in their marks."""

import struct
from typing import NamedTuple

from logdrive.record import EVENT_HEAD, event_length
from logdrive.store.streams import layout
from logdrive.store.streams.names import mark_of, name_of
from logdrive.store.streams.state import StreamConfig
from logdrive.store.streams.watermarks import Watermarks
from logdrive.store.streams.writers import Writers
from tests.logdrive.store.streams.harness import SCOPE, STREAM, Rig


class Mark(NamedTuple):
    """One watermark: times, and segment to offset."""

    low: int
    high: int
    cut: dict[int, int]


class Timed:
    """One stream of a rig, with 1,000 bytes in each segment that was current when it was filled."""

    def __init__(self, there: Rig) -> None:
        self.there, self.writers, self.watermarks = there, Writers(there.catalogue), Watermarks(there.catalogue)

    async def made(self, segments: int = 2, patience_ms: int = 0) -> None:
        await self.there.streams.create_scope(SCOPE)
        await self.there.streams.create(SCOPE, STREAM, StreamConfig(min_segments=segments, timestamp_aggregation_ms=patience_ms))
        await self.fill()

    async def fill(self) -> None:
        for segment in layout.current(await self.there.streams.stream(SCOPE, STREAM)):
            await self.there.write(name_of(SCOPE, STREAM, segment.id), bytes(1000))

    async def note(self, writer: str, time: int, position: dict[int, int]) -> None:
        await self.writers.note(SCOPE, STREAM, writer, time, position)

    async def remove(self, writer: str) -> None:
        await self.writers.remove(SCOPE, STREAM, writer)

    async def noting(self) -> list[str]:
        """Return the writers that are not forgotten."""
        async with self.there.catalogue.turn() as state:
            place = state.place(SCOPE, STREAM)
            return sorted(place.writers) if place is not None else []

    async def split(self, segment: int) -> None:
        """Scale the stream: two segments in the place of one."""
        now = await self.there.streams.stream(SCOPE, STREAM)
        gone = layout.segment_of(now, segment)
        middle = (gone.low + gone.high) / 2
        await self.there.streams.scale(SCOPE, STREAM, [segment], [(gone.low, middle), (middle, gone.high)])

    def marks(self, segment: int = 0) -> list[Mark]:
        """Return the watermarks in the stream's mark."""
        name = name_of(SCOPE, mark_of(STREAM), segment)
        if self.there.store.info(name) is None:
            return []
        data, found = self.there.content(name), []
        while data:
            end = EVENT_HEAD + event_length(data[:EVENT_HEAD])
            found.append(_decoded(data[EVENT_HEAD:end]))
            data = data[end:]
        return found


def _decoded(event: bytes) -> Mark:
    low, high, count = struct.unpack_from(">qqB", event, 8)
    assert count < 1 << 7
    parts = sorted((struct.unpack_from(">8xqddq", event, 25 + 40 * n) for n in range(count)), key=lambda part: part[1])
    assert len(event) == 25 + 40 * count
    bounds = [0.0, *(b for _, _, b, _ in parts)]
    assert [a for _, a, _, _ in parts] == bounds[:-1]
    assert bounds[-1] == 1.0
    return Mark(low, high, {segment: offset for segment, _, _, offset in parts})
