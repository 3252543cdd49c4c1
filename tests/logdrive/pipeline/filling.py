"""Tables filled as the pipeline fills them, without Spark."""

from pathlib import Path

import pyarrow as pa

from logdrive.clock import SystemClock
from logdrive.disk import SystemDisk
from logdrive.pipeline.bronze import Bronze, Written
from logdrive.pipeline.task import CHUNKS, write_events, written_of
from tests.logdrive.pipeline.segments import STREAM, Segment, file_records


def bronze(directory: Path) -> Bronze:
    return Bronze(str(directory), clock=SystemClock(), disk=SystemDisk())


def task(directory: Path, segment: Segment, start: int, end: int | None = None) -> Written:
    """Do what a Spark task does with a range of *segment*."""
    data = bytes(segment.data[start:end])
    pieces = [(start + at, data[at : at + 1000]) for at in range(0, len(data), 1000)]
    chunks = [pa.record_batch([[STREAM], [segment.name], [at], [piece]], schema=CHUNKS) for at, piece in pieces]
    (message,) = write_events(chunks, str(directory / "bronze" / "events"), "snappy")
    return written_of(message.to_pylist()[0])


def catch_up(directory: Path, *segments: Segment) -> int:
    """Read all that is new, as one micro-batch; return how many rows that was."""
    with bronze(directory) as tables:
        new = [one for one in segments if tables.end(one.name) < len(one.data)]
        return tables.commit([task(directory, one, tables.end(one.name)) for one in new]).events


def send(segment: Segment, source: str, data: bytes, start: int = 0) -> int:
    """Add *data*, which stands at *start* in its file, as one batch; return where it ends."""
    records, count = file_records(data, start)
    segment.data_batch(source, start, start + len(data), records, count)
    return start + len(data)
