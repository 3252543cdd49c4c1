"""The work of one task: reads a range of a segment, and decodes it into files of events.

Only the range goes to the task, and the headers and the files' names come back: bytes of the
segment and rows never travel between the driver and its tasks. The driver commits what tasks have
written.
"""

import time
from dataclasses import dataclass, field
from functools import partial

from logdrive.errors import StorageError
from logdrive.pipeline.bronze.written_range import WrittenRange
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.headers import BatchRow
from logdrive.pipeline.decode.schema import EVENTS
from logdrive.pipeline.read.chunks import read_chunks
from logdrive.pipeline.read.planner import BatchRange
from logdrive.pipeline.tables.day_files import DayFiles
from logdrive.pipeline.tasks import check_stop
from logdrive.services.reader import ServiceReader


@dataclass(frozen=True, slots=True)
class RangeTask:
    """What a task needs to write one range. It pickles."""

    stream: ServiceReader = field(repr=False)  # it may hold a password
    range: BatchRange
    directory: str  # of the table `events`
    compression: str  # of the files
    label: str = ""  # in their names


def write_range(task: RangeTask) -> WrittenRange:
    """Decode the range of *task* into files of its directory, which are durable then.

    Raises `StorageError` if the range is not whole batches, `TransientError` if the service stays
    away, OSError if a file can't be written, and `StoppedError`.
    """
    began = time.monotonic()
    stream, segment = task.stream, task.range.segment
    decoder = Decoder(stream.name, stream.offset_unit)
    at, size, rest = task.range.start, 0, b""
    headers: list[BatchRow] = []
    with DayFiles(task.directory, EVENTS, task.compression, task.label) as files:
        for chunk in read_chunks(task.range, partial(stream.read_chunks, segment)):
            check_stop()
            if chunk.recalled:  # batches from before: not a part of the range
                decoder.recall_pieces(segment, chunk.offset, chunk.data)
                continue
            # a chunk may end inside a batch: that part is decoded with the next chunk
            rest += chunk.data
            while True:
                at, used = decoder.decode_batches(segment, at, rest)
                rest, size = rest[used:], size + used
                if not decoder.is_full:
                    break
                headers += _flush(decoder, files)
        if rest or at != task.range.end:
            raise StorageError(
                f"{segment}: {len(rest)} bytes at {at} are no whole batch, but the range ends at "
                f"{task.range.end}"
            )
        headers += _flush(decoder, files)

    # behind the context: the files are durable now
    seconds = time.monotonic() - began
    return WrittenRange(segment, task.range.start, at, size, files.added_files, headers, seconds)


def _flush(decoder: Decoder, files: DayFiles) -> list[BatchRow]:
    table, headers = decoder.take_tables()
    files.write_row_group(table)
    return headers
