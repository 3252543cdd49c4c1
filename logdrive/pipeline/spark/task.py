"""The work of a Spark task: decodes a range of a segment into files of events.

The headers and the files' names go back to the driver, which commits them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

import orjson
import pyarrow as pa

from logdrive.errors import StorageError
from logdrive.model.units import OffsetUnit
from logdrive.pipeline.bronze.written_range import WrittenRange
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.headers import BatchRow, batches_table, rows_from_table
from logdrive.pipeline.decode.schema import EVENTS
from logdrive.pipeline.tables.day_files import DayFiles
from logdrive.pipeline.tables.files import AddedFile

CHUNKS = pa.schema(
    [
        pa.field("stream", pa.string(), nullable=False),
        pa.field("segment", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("recalled", pa.bool_(), nullable=False),
    ]
)
"""Columns in which `SegmentChunk`s travel from the data source to the sink."""


@dataclass(frozen=True, slots=True)
class SegmentChunk:
    """Stored bytes of a segment, cut anywhere; whole batches if offsets count records."""

    offset: int  # of the first byte or record, in the segment
    data: bytes
    recalled: bool = False
    """True: whole batches from before, with pieces of the event that ends next (rule R6)."""


MESSAGES = pa.schema(
    [
        pa.field("segment", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("files", pa.binary(), nullable=False),
        pa.field("headers", pa.binary(), nullable=False),
    ]
)
"""Columns in which a `WrittenRange` goes to the driver; *headers* is a compressed Arrow stream."""


def write_events(
    chunks: Iterable[pa.RecordBatch],
    directory: str,
    compression: str,
    unit: OffsetUnit = "bytes",
) -> Iterator[pa.RecordBatch]:
    """Decode *chunks* into files in *directory*, and yield one row of `MESSAGES` about it.

    The chunks are one range, so that together they are whole batches; their offsets count *unit*.
    Raises `StorageError` if they are not, or don't follow each other.
    """
    decoder: Decoder | None = None
    segment, start, at, size, rest = "", -1, 0, 0, b""
    headers: list[BatchRow] = []
    with DayFiles(directory, EVENTS, compression) as files:
        for stream, name, chunk in _rows(chunks):
            if decoder is None:
                decoder, segment = Decoder(stream, unit), name
            if chunk.recalled:  # batches from before: not a part of the range
                decoder.recall_pieces(name, chunk.offset, chunk.data)
                continue
            if start < 0:  # the first chunk of the range itself
                start = at = chunk.offset
            if (name, chunk.offset) != (segment, at + len(rest)):
                raise StorageError(
                    f"{name} at {chunk.offset} does not follow {segment} at {at + len(rest)}"
                )

            # a chunk may end inside a batch: that part is decoded with the next chunk
            rest += chunk.data
            while True:
                at, used = decoder.decode_batches(segment, at, rest)
                rest, size = rest[used:], size + used
                if not decoder.is_full:
                    break
                headers += _flush(decoder, files)
        if rest:
            raise StorageError(f"{segment}: {len(rest)} bytes at {at} are no whole batch")
        if decoder is not None:
            headers += _flush(decoder, files)

    # behind the context: the files are durable now
    if decoder is not None:
        yield encode_result(WrittenRange(segment, start, at, size, files.added_files, headers))


def _rows(chunks: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, str, SegmentChunk]]:
    for chunk in chunks:
        columns = [chunk.column(name) for name in CHUNKS.names]
        for row in range(chunk.num_rows):
            stream, segment, offset, data, recalled = (column[row].as_py() for column in columns)
            yield stream, segment, SegmentChunk(offset, data, recalled)


def _flush(decoder: Decoder, files: DayFiles) -> list[BatchRow]:
    table, headers = decoder.take_tables()
    files.write_row_group(table)
    return headers


def encode_result(written: WrittenRange) -> pa.RecordBatch:
    """Return *written* as one row of `MESSAGES`."""
    table, stream = batches_table(written.headers), pa.BufferOutputStream()
    with pa.ipc.new_stream(
        stream, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_table(table)
    values = [
        written.segment,
        written.start,
        written.end,
        written.bytes,
        orjson.dumps([asdict(file) for file in written.files]),
    ]
    return pa.record_batch(
        [[value] for value in [*values, stream.getvalue().to_pybytes()]], schema=MESSAGES
    )


def decode_result(row: dict[str, object]) -> WrittenRange:
    """Return the `WrittenRange` in a row of `MESSAGES`."""
    with pa.ipc.open_stream(row["headers"]) as reader:
        headers = rows_from_table(reader.read_all())
    files = [AddedFile(**file) for file in orjson.loads(row["files"])]  # type: ignore[arg-type]
    return WrittenRange(row["segment"], row["start"], row["end"], row["bytes"], files, headers)  # type: ignore[arg-type]
