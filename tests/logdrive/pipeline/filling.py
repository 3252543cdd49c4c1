"""Tables filled as the pipeline fills them, without Spark."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.model.pieces import UnfinishedEvents
from logdrive.model.units import OffsetUnit
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.bronze.written_range import WrittenRange
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.range_task import RangeTask, write_range
from logdrive.pipeline.read.planner import BatchRange, find_whole_events
from logdrive.services.reader import ServiceReader
from tests.logdrive.pipeline.segments import STREAM, Segment, file_records


def bronze(directory: Path) -> Bronze:
    return Bronze(str(directory), clock=SystemClock(), disk=SystemDisk())


def planned(segment: Segment, start: int, end: int | None = None) -> BatchRange:
    """Return the range as a planner that has been everywhere before would."""
    data, unfinished = bytes(segment.data[:end]), UnfinishedEvents()
    find_whole_events(
        [hop for hop in walk_batches(segment.name, 0, data) if hop.offset < start], unfinished
    )
    events = find_whole_events(list(walk_batches(segment.name, start, data[start:])), unfinished)
    return BatchRange(segment.name, start, len(data), tuple(events))


@dataclass(frozen=True)
class SegmentReader:
    """As much of a `ServiceReader` as a task needs: *segment*, in chunks of *size* bytes."""

    segment: Segment
    size: int
    name: str = STREAM
    offset_unit: OffsetUnit = "bytes"

    def read_chunks(self, segment: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        assert segment == self.segment.name
        for at in range(start, end, self.size):
            yield at, bytes(self.segment.data[at : min(at + self.size, end)])


def task(
    directory: Path, segment: Segment, start: int, end: int | None = None, size: int = 1000
) -> WrittenRange:
    """Do what a task does with a range of *segment*."""
    stream = cast(ServiceReader, SegmentReader(segment, size))
    events = str(directory / "bronze" / "events")
    return write_range(RangeTask(stream, planned(segment, start, end), events, "snappy"))


def catch_up(directory: Path, *segments: Segment) -> int:
    """Read all that is new, as one micro-batch; return how many rows that was."""
    with bronze(directory) as tables:
        new = [one for one in segments if tables.next_offset(one.name) < len(one.data)]
        return tables.commit_ranges(
            [task(directory, one, tables.next_offset(one.name)) for one in new]
        ).events


def send(segment: Segment, source: str, data: bytes, start: int = 0) -> int:
    """Add *data*, which is at *start* in its file, as one batch; return its end there."""
    records, count = file_records(data, start)
    segment.data_batch(source, start, start + len(data), records, count)
    return start + len(data)
