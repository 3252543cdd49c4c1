"""The Spark data source `logdrive`: a stream of a segment store as rows, in batch and streaming
queries.

    spark.dataSource.register(LogdriveSource)
    events = spark.readStream.format("logdrive").option("uri", "pravega://127.0.0.1:6000/logs/app").load()

| option | |
|---|---|
| uri | `pravega://host:port/scope/stream` (needed) |
| form | `events`: a row an event, as in the table (default); `raw`: stored bytes, not decoded |
| maxBytesPerBatch | bytes of a micro-batch over all segments (default 256 MiB) |
| rangeBytes | bytes for one task (default 64 MiB) |
| startingOffsets | `earliest` (default), `latest`, or offsets as Spark's progress shows them |
| ca, cert, key, serverName | for a face that speaks TLS |
| user, password | for a controller that asks who comes |
| token | for a face without one that wants it |

Spark builds readers twice and calls their methods in processes of its own, so they hold nothing but
what pickles.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
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
from logdrive.net.stream import ClientTls
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.schema import EVENTS, plain_schema
from logdrive.pipeline.read.offsets import Point, Progress, parse_progress
from logdrive.pipeline.read.planner import BatchRange, Planner
from logdrive.pipeline.read.stream import StreamClient, stream_client
from logdrive.pipeline.spark.task import CHUNKS, SegmentChunk
from logdrive.services.pravega.client.controller import Login

MAX_BYTES_PER_BATCH = 256 * MIB
RANGE_BYTES = 64 * MIB
_EARLIEST, _LATEST = "earliest", "latest"
_ROWS_BYTES = 4 * MIB  # stored bytes that become one Arrow batch of rows


@dataclass(frozen=True, slots=True)
class Options:
    """What a query asked for."""

    face: StreamClient
    raw: bool = False
    max_bytes: int = MAX_BYTES_PER_BATCH
    range_bytes: int = RANGE_BYTES
    start: str = _EARLIEST


def parse_options(given: Mapping[str, str]) -> Options:
    """Read the options of a query; names are as Spark passes them, in any case.

    Raises `ConfigError` naming every mistake.
    """
    values = {name.lower(): value for name, value in given.items()}
    mistakes: list[Mistake] = []
    form, start = values.get("form", "events"), values.get("startingoffsets", _EARLIEST)
    if form not in ("events", "raw"):
        mistakes.append(Mistake("form", form, "write events or raw"))
    sizes = {
        name: _parse_size(name, values.get(name.lower(), ""), default, mistakes)
        for name, default in _SIZES.items()
    }
    try:
        if start not in (_EARLIEST, _LATEST):
            parse_progress(json.loads(start))
    except ValueError:
        mistakes.append(
            Mistake(
                "startingOffsets",
                start,
                'write earliest, latest, or {"segments": {"0": [next, offset, crc], …}}',
            )
        )
    try:
        tls = (
            ClientTls(values["ca"], values.get("cert"), values.get("key"), values.get("servername"))
            if "ca" in values
            else None
        )
        login = Login(values["user"], values.get("password", "")) if "user" in values else None
        face = stream_client(values.get("uri", ""), tls, login, values.get("token", ""))
    except ValueError as error:
        mistakes.append(Mistake("uri", "", str(error)))
    if mistakes:
        raise ConfigError("options of the data source logdrive", mistakes)
    return Options(face, form == "raw", sizes["maxBytesPerBatch"], sizes["rangeBytes"], start)


_SIZES = {"maxBytesPerBatch": MAX_BYTES_PER_BATCH, "rangeBytes": RANGE_BYTES}


def _parse_size(name: str, value: str, default: int, mistakes: list[Mistake]) -> int:
    if value and not (value.isdecimal() and int(value) > 0):
        mistakes.append(Mistake(name, value, "write a number of bytes"))
        return default
    return int(value) if value else default


class RangePartition(InputPartition):  # type: ignore[misc]
    """A `BatchRange` as Spark hands it to a task."""

    def __init__(self, range_: BatchRange) -> None:
        super().__init__(range_)


class LogdriveSource(DataSource):  # type: ignore[misc]
    """`format("logdrive")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "logdrive"

    def schema(self) -> Any:
        """Return the columns for the form asked for."""
        return from_arrow_schema(
            CHUNKS if parse_options(self.options).raw else plain_schema(EVENTS)
        )

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of a batch query."""
        return BatchReader(parse_options(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        return StreamReader(parse_options(self.options))


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads all that is there when the query is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[RangePartition]:
        """Return a partition a range."""
        planner = Planner(self._options.face, self._options.range_bytes)
        start = Progress({}, {})
        return [
            RangePartition(one)
            for one in planner.cut_ranges(
                start, planner.plan_micro_batch(start, planner.segment_bounds(), None)
            )
        ]

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition."""
        return read_rows_of_range(self._options, partition.value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Follows a stream. All methods but `read` are called in the query's planner process."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner = Planner(options.face, options.range_bytes)
        self._frozen: dict[int, tuple[int, int]] | None = None
        self._initial: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint begins; the same however often it is asked."""
        if self._initial is None:
            start = self._options.start
            if start in (_EARLIEST, _LATEST):
                ends = self._planner.segment_bounds() if self._frozen is None else self._frozen
                points = {
                    number: Point(first if start == _EARLIEST else length)
                    for number, (first, length) in ends.items()
                }
                self._initial = Progress(points, {}).as_json()
            else:
                self._initial = json.loads(start)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the bound on a micro-batch."""
        return ReadMaxBytes(self._options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Freeze the end; Spark calls this before anything else."""
        self._frozen = self._planner.segment_bounds()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return how far the next micro-batch goes."""
        most = (
            None
            if isinstance(limit, ReadAllAvailable)
            else getattr(limit, "max_bytes", self._options.max_bytes)
        )
        lengths = self._planner.segment_bounds() if self._frozen is None else self._frozen
        return self._planner.plan_micro_batch(parse_progress(start), lengths, most).as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """Return a partition a range."""
        return [
            RangePartition(one)
            for one in self._planner.cut_ranges(parse_progress(start), parse_progress(end))
        ]

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition, in a task."""
        return read_rows_of_range(self._options, partition.value)


def read_rows_of_range(options: Options, wanted: BatchRange) -> Iterator[pa.RecordBatch]:
    """Yield a range as rows of the form asked for."""
    chunks = read_chunks(wanted, partial(options.face.read_bytes, wanted.segment))
    return (
        chunk_rows(options.face.name, wanted, chunks)
        if options.raw
        else _event_rows(options.face.name, wanted, chunks)
    )


def read_chunks(
    wanted: BatchRange, pieces: Callable[[int, int], Iterator[bytes]]
) -> Iterator[SegmentChunk]:
    """Yield the bytes of a range, *pieces* gives those of any part of its segment.

    Before the last piece of an event the others are recalled, wherever they stand (rule R6): so a
    task holds one event at a time.
    """
    at = wanted.start
    for event in wanted.events:
        for piece in pieces(at, event.last):
            yield SegmentChunk(at, piece)
            at += len(piece)
        for start, end in event.extents:
            yield SegmentChunk(start, b"".join(pieces(start, end)), recalled=True)
    for piece in pieces(at, wanted.end):
        yield SegmentChunk(at, piece)
        at += len(piece)


def chunk_rows(
    stream: str, wanted: BatchRange, chunks: Iterator[SegmentChunk]
) -> Iterator[pa.RecordBatch]:
    """Yield *chunks* of a range as rows for a sink."""
    for chunk in chunks:
        yield pa.record_batch(
            [[stream], [wanted.segment], [chunk.offset], [chunk.data], [chunk.recalled]],
            schema=CHUNKS,
        )


def _event_rows(
    stream: str, wanted: BatchRange, chunks: Iterator[SegmentChunk]
) -> Iterator[pa.RecordBatch]:
    decoder, rest, at = Decoder(stream), b"", wanted.start
    columns = plain_schema(EVENTS)
    for chunk in chunks:
        if chunk.recalled:
            decoder.recall_pieces(wanted.segment, chunk.offset, chunk.data)
            continue
        data = rest + chunk.data
        following = decoder.decode_batches(wanted.segment, at, data)
        rest, at = data[following - at :], following
        if decoder.text_bytes >= _ROWS_BYTES or at == wanted.end:
            yield from decoder.take_tables()[0].cast(columns).combine_chunks().to_batches()
    if rest:
        raise StorageError(f"{wanted.segment}: {len(rest)} bytes at {at} are no whole batch")
