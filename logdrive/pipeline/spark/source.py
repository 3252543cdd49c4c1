"""The Spark data source `logdrive`: a stream of a streaming service as rows, in batch and streaming
queries, and rows as lines of a stream.

    spark.dataSource.register(LogdriveSource)
    events = spark.readStream.format("logdrive").option("uri", "pravega://127.0.0.1:6000/logs/app").load()

| option of a query that reads | |
|---|---|
| uri | the stream: `pravega://host:port/scope/stream`, `s2://…` or `iggy://…` (required) |
| columns | names of `events`, with commas between: other columns are not made, nor sent to Spark |
| maxBytesPerBatch | limit on the bytes of a micro-batch over all segments (default 256 MiB) |
| rangeBytes | bytes read by one task (default 64 MiB) |
| startingOffsets | `earliest` (default), `latest`, or offsets as Spark's progress shows them |
| startingTimestamp | instead: from the first batch received then; ISO 8601, or ms since 1970 |
| endingOffsets | of a batch query: `latest` (default), or offsets |
| endingTimestamp | of a batch query, instead: up to the first batch received then |
| localReads | `false`: do not read a store's log files directly, though they are on this host |
| ca, cert, key, serverName | for a service with TLS |
| user, password | for a controller, or an S2 face of a store, that requires a login; for Iggy |
| token | for a segment store without a controller that requires a delegation token, and for S2 |

| option of a query that writes | |
|---|---|
| uri | the stream: `pravega://host:port/scope/stream` (required) |
| writer | name that repetitions have in common (default: a streaming query's id; else a new one) |
| epoch | of a batch query with `writer`: number of what it writes; it must grow (default 0) |
| segments | of a new stream; without it the stream must be there |
| ca, cert, key, serverName, user, password, token | as above |

Spark tells a Python source neither which columns a query needs nor, by default, its filters; so
the option `columns`, or a schema given to Spark (`.schema("message string, start long")`), says so.

Spark builds readers twice and calls their methods in different processes, so that they can hold
only what can be pickled.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from logdrive.errors import ConfigError, Mistake, StorageError
from logdrive.model.units import MIB
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.schema import EVENTS, plain_schema
from logdrive.pipeline.read.chunks import SegmentChunk, read_chunks
from logdrive.pipeline.read.offsets import Point, Progress, parse_progress
from logdrive.pipeline.read.planner import BatchRange, Planner
from logdrive.pipeline.read.times import find_time
from logdrive.pipeline.spark.options import (
    EARLIEST,
    LATEST,
    OPTIONS_NAME,
    Bound,
    Options,
    parse_options,
)
from logdrive.pipeline.spark.sink import BatchWriter, StreamWriter
from logdrive.pipeline.spark.write_options import WriteOptions, parse_write_options

_ROWS_BYTES = 4 * MIB  # decoded bytes that become one Arrow batch of rows

SegmentBounds = dict[int, tuple[int, int]]
"""Start and length of each segment, by number."""


class RangePartition(InputPartition):  # type: ignore[misc]
    """A `BatchRange` as Spark passes it to a task."""

    def __init__(self, range_: BatchRange) -> None:
        super().__init__(range_)


class LogdriveSource(DataSource):  # type: ignore[misc]
    """The data source for `spark.readStream.format("logdrive")`; reads batch queries, too."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "logdrive"

    def schema(self) -> Any:
        """Return the columns: those of `events`, or those that the options name."""
        columns = parse_options(self.options).columns  # mistakes are told before the query runs
        return from_arrow_schema(pa.schema([_PLAIN.field(name) for name in columns]))

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of a batch query for the columns of *schema*."""
        return BatchReader(parse_options(self.options), rows_schema(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query for the columns of *schema*."""
        return StreamReader(parse_options(self.options), rows_schema(schema))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch query with rows of *schema*."""
        return BatchWriter(self._write_options(schema, overwrite))

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - Spark's name
        """Return the writer of a streaming query with rows of *schema*."""
        return StreamWriter(self._write_options(schema, overwrite))

    def _write_options(self, schema: Any, overwrite: bool) -> WriteOptions:
        return parse_write_options(self.options, schema.fieldNames(), overwrite=overwrite)


_PLAIN = plain_schema(EVENTS)


def rows_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema of rows with the columns of *schema*, which the user may have given.

    Raises `ConfigError` for a column that `events` does not have, or has with another type.
    """
    known = {field.name: field.dataType for field in from_arrow_schema(_PLAIN).fields}
    mistakes = [
        Mistake(
            "schema",
            f"{field.name} {field.dataType.simpleString()}",
            f"let it be {known[field.name].simpleString()}"
            if field.name in known
            else f"choose among the columns {','.join(known)}",
        )
        for field in schema.fields
        if known.get(field.name) != field.dataType
    ]
    if mistakes:
        raise ConfigError(OPTIONS_NAME, mistakes)
    # Spark compares with what it was told, nullability included
    return pa.schema(
        [_PLAIN.field(field.name).with_nullable(field.nullable) for field in schema.fields]
    )


def bound_points(options: Options, bound: Bound, bounds: SegmentBounds) -> dict[int, Point]:
    """Return the points of *bound* in the segments, whose starts and lengths are *bounds*."""
    if bound.time_ms is not None:
        stream, time_ms = options.stream, bound.time_ms
        return {
            number: Point(find_time(stream, stream.name_of_segment(number), first, length, time_ms))
            for number, (first, length) in sorted(bounds.items())
        }
    if bound.offsets in (EARLIEST, LATEST):
        return {
            number: Point(first if bound.offsets == EARLIEST else length)
            for number, (first, length) in sorted(bounds.items())
        }
    return dict(parse_progress(json.loads(bound.offsets)).points)


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reader of a batch query: reads what the stream holds when the query is planned."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        if options.start.offsets == LATEST:
            remedy = "a batch query that begins at the end reads nothing: leave it out"
            raise ConfigError(OPTIONS_NAME, [Mistake("startingOffsets", LATEST, remedy)])
        self._options = options
        self._schema = schema

    def partitions(self) -> list[RangePartition]:
        """Return a partition a range."""
        options = self._options
        planner = Planner(options.stream, options.range_bytes)
        bounds = planner.segment_bounds()
        start = Progress(bound_points(options, options.start, bounds), {})
        ends = bound_points(options, options.end, bounds)
        until = {
            # behind the start in any case: what has another end is another segment to the planner
            number: (first, max(min(length, ends[number].next), start.point(number).next))
            for number, (first, length) in bounds.items()
            if number in ends
        }
        end = planner.plan_micro_batch(start, until, None)
        return [RangePartition(one) for one in planner.cut_ranges(start, end)]

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition."""
        return read_rows_of_range(self._options, partition.value, self._schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reader of a streaming query. Spark calls all methods but `read` in its planner process."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        if options.end != Bound(LATEST):
            remedy = "a streaming query has no end: leave endingOffsets and endingTimestamp out"
            raise ConfigError(OPTIONS_NAME, [Mistake("endingOffsets", "", remedy)])
        self._options = options
        self._schema = schema
        self._planner = Planner(options.stream, options.range_bytes)
        # bounds of the segments at the start, for the trigger availableNow
        self._frozen: SegmentBounds | None = None
        # the initial offset, once Spark has asked for it
        self._initial: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint begins; the same on each call."""
        if self._initial is None:
            bounds = self._planner.segment_bounds() if self._frozen is None else self._frozen
            points = bound_points(self._options, self._options.start, bounds)
            self._initial = Progress(points, {}).as_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit on the bytes of a micro-batch."""
        return ReadMaxBytes(self._options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the query at the present end; Spark calls this before anything else."""
        self._frozen = self._planner.segment_bounds()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the micro-batch that begins at *start* ends."""
        most = (
            None
            if isinstance(limit, ReadAllAvailable)
            else getattr(limit, "max_bytes", self._options.max_bytes)
        )
        bounds = self._planner.segment_bounds() if self._frozen is None else self._frozen
        return self._planner.plan_micro_batch(parse_progress(start), bounds, most).as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """Return a partition a range."""
        return [
            RangePartition(one)
            for one in self._planner.cut_ranges(parse_progress(start), parse_progress(end))
        ]

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition, in a task."""
        return read_rows_of_range(self._options, partition.value, self._schema)


def read_rows_of_range(
    options: Options, wanted: BatchRange, columns: pa.Schema = _PLAIN
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, with *columns*."""
    stream = options.stream
    chunks = read_chunks(wanted, partial(stream.read_chunks, wanted.segment))
    decoder = Decoder(stream.name, stream.offset_unit, _ROWS_BYTES, columns.names)
    return _event_rows(decoder, columns, wanted, chunks)


def _event_rows(
    decoder: Decoder, columns: pa.Schema, wanted: BatchRange, chunks: Iterator[SegmentChunk]
) -> Iterator[pa.RecordBatch]:
    rest, at = b"", wanted.start
    for chunk in chunks:
        if chunk.recalled:
            decoder.recall_pieces(wanted.segment, chunk.offset, chunk.data)
            continue

        # a chunk may end inside a batch: that part is decoded with the next chunk
        rest += chunk.data
        while True:
            at, used = decoder.decode_batches(wanted.segment, at, rest)
            rest = rest[used:]
            if not decoder.is_full and at != wanted.end:
                break
            yield from decoder.take_tables()[0].cast(columns).combine_chunks().to_batches()
            if at == wanted.end:
                break
    if rest:
        raise StorageError(f"{wanted.segment}: {len(rest)} bytes at {at} are no whole batch")
