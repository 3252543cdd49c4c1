"""The Spark data source `logdrive`: a stream of a streaming service as rows, in batch and streaming
queries.

    spark.dataSource.register(LogdriveSource)
    events = spark.readStream.format("logdrive").option("uri", "pravega://127.0.0.1:6000/logs/app").load()

| option | |
|---|---|
| uri | the stream: `pravega://host:port/scope/stream`, `s2://…` or `iggy://…` (required) |
| maxBytesPerBatch | limit on the bytes of a micro-batch over all segments (default 256 MiB) |
| rangeBytes | bytes read by one task (default 64 MiB) |
| startingOffsets | `earliest` (default), `latest`, or offsets as Spark's progress shows them |
| localReads | `false`: do not read a store's log files directly, though they are on this host |
| ca, cert, key, serverName | for a service with TLS |
| user, password | for a controller, or an S2 face of a store, that requires a login; for Iggy |
| token | for a segment store without a controller that requires a delegation token, and for S2 |

Spark builds readers twice and calls their methods in different processes, so that they can hold
only what can be pickled.
"""

import json
from collections.abc import Iterator, Mapping
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

from logdrive.address import StreamAddress
from logdrive.errors import ConfigError, Mistake, StorageError
from logdrive.host.transport import ClientTls
from logdrive.model.units import MIB
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.schema import EVENTS, plain_schema
from logdrive.pipeline.read.choose_reader import choose_reader
from logdrive.pipeline.read.chunks import SegmentChunk, read_chunks
from logdrive.pipeline.read.offsets import Point, Progress, parse_progress
from logdrive.pipeline.read.planner import BatchRange, Planner
from logdrive.services.pravega.client.controller import Login
from logdrive.services.reader import ServiceReader

MAX_BYTES_PER_BATCH = 256 * MIB  # default limit on the bytes of a micro-batch
RANGE_BYTES = 64 * MIB  # default size of what one task reads
_EARLIEST, _LATEST = "earliest", "latest"
_ROWS_BYTES = 4 * MIB  # decoded bytes that become one Arrow batch of rows


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed options of a query."""

    stream: ServiceReader
    max_bytes: int = MAX_BYTES_PER_BATCH  # limit on a micro-batch
    range_bytes: int = RANGE_BYTES  # size of a task's range
    start: str = _EARLIEST  # "earliest", "latest" or a `Progress` in JSON


def parse_options(given: Mapping[str, str]) -> Options:
    """Parse the options of a query; their names are case-insensitive, as Spark's are.

    Raises `ConfigError`, which names every mistake.
    """
    values = {name.lower(): value for name, value in given.items()}
    mistakes: list[Mistake] = []
    start = values.get("startingoffsets", _EARLIEST)
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
        stream = _open_reader(
            values.get("uri", ""),
            tls,
            login,
            values.get("token", ""),
            local_reads=values.get("localreads", "true") != "false",
        )
    except ValueError as error:
        mistakes.append(Mistake("uri", "", str(error)))
    if mistakes:  # all at once
        raise ConfigError("options of the data source logdrive", mistakes)
    return Options(stream, sizes["maxBytesPerBatch"], sizes["rangeBytes"], start)


def _open_reader(
    uri: str, tls: ClientTls | None, login: Login | None, token: str, *, local_reads: bool
) -> ServiceReader:
    stream = choose_reader(uri, tls, login, token, local_reads=local_reads)
    # a directory would have to be served first, and Spark has no end at which to stop that
    if isinstance(stream, StreamAddress):
        raise ValueError(
            f"{uri!r}: write pravega://host:port/scope/stream, s2://host:port/… or "
            "iggy://host:port/…"
        )
    return stream


_SIZES = {"maxBytesPerBatch": MAX_BYTES_PER_BATCH, "rangeBytes": RANGE_BYTES}


def _parse_size(name: str, value: str, default: int, mistakes: list[Mistake]) -> int:
    if value and not (value.isdecimal() and int(value) > 0):
        mistakes.append(Mistake(name, value, "write a number of bytes"))
        return default
    return int(value) if value else default


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
        """Return the columns: those of `events`."""
        parse_options(self.options)  # mistakes are told before the query runs
        return from_arrow_schema(plain_schema(EVENTS))

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of a batch query."""
        return BatchReader(parse_options(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        return StreamReader(parse_options(self.options))


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reader of a batch query: reads what the stream holds when the query is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[RangePartition]:
        """Return a partition a range."""
        planner = Planner(self._options.stream, self._options.range_bytes)
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
    """Reader of a streaming query. Spark calls all methods but `read` in its planner process."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner = Planner(options.stream, options.range_bytes)
        # bounds of the segments at the start, for the trigger availableNow
        self._frozen: dict[int, tuple[int, int]] | None = None
        # the initial offset, once Spark has asked for it
        self._initial: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint begins; the same on each call."""
        if self._initial is None:
            start = self._options.start
            if start in (_EARLIEST, _LATEST):
                bounds = self._planner.segment_bounds() if self._frozen is None else self._frozen
                points = {
                    number: Point(first if start == _EARLIEST else length)
                    for number, (first, length) in bounds.items()
                }
                self._initial = Progress(points, {}).as_json()
            else:
                self._initial = json.loads(start)
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
        return read_rows_of_range(self._options, partition.value)


def read_rows_of_range(options: Options, wanted: BatchRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range."""
    stream = options.stream
    chunks = read_chunks(wanted, partial(stream.read_chunks, wanted.segment))
    decoder = Decoder(stream.name, stream.offset_unit, _ROWS_BYTES)
    return _event_rows(decoder, wanted, chunks)


def _event_rows(
    decoder: Decoder, wanted: BatchRange, chunks: Iterator[SegmentChunk]
) -> Iterator[pa.RecordBatch]:
    rest, at = b"", wanted.start
    columns = plain_schema(EVENTS)
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
