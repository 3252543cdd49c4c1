"""The readers of the data source, called as Spark calls them: which rows a query gets, and which
columns of them.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable

from logdrive.errors import ConfigError
from logdrive.model.batch_walker import BatchRef
from logdrive.pipeline.decode.schema import EVENTS, plain_schema
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.read.times import find_time
from logdrive.pipeline.spark import source
from logdrive.pipeline.spark.source import LogdriveSource
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import STREAM, Segment, lines
from tests.logdrive.pipeline.storing import served

_BATCHES = 30


@pytest.fixture(scope="module")
def segments() -> list[Segment]:
    """Two segments of batches a second apart, which name the second in which they came."""
    made = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(2)]
    at = [0, 0]
    for second in range(_BATCHES):
        for number, segment in enumerate(made):
            segment.clock = (1_700_000_000 + second) * 1000
            text = f"{number} {second}\n".encode() * 3
            at[number] = send(segment, f"file {number}", text, at[number])
    return made


@pytest.fixture(scope="module")
def face(
    tmp_path_factory: pytest.TempPathFactory, segments: list[Segment]
) -> Iterator[StreamClient]:
    with served(tmp_path_factory.mktemp("store") / "store", *segments) as client:
        yield client


def _source(face: StreamClient, **options: str) -> LogdriveSource:
    return LogdriveSource({"uri": face.uri, **face.connection_options(), **options})


def _read(one: LogdriveSource) -> pa.Table:
    schema = one.schema()
    reader = one.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches, source.rows_schema(schema))


def _said(rows: pa.Table) -> list[str]:
    return sorted(set(rows["message"].to_pylist()), key=lambda text: [*map(int, text.split())])


def _expected(first: int, end: int = _BATCHES) -> list[str]:
    return [f"{number} {second}" for number in range(2) for second in range(first, end)]


def _iso(second: float) -> str:
    return datetime.fromtimestamp(1_700_000_000 + second, UTC).isoformat()


def test_a_query_has_all_columns_unless_it_names_some(face: StreamClient) -> None:
    rows = _read(_source(face))
    assert rows.schema == plain_schema(EVENTS)
    assert _said(rows) == _expected(0)


@pytest.mark.parametrize("name", EVENTS.names)
def test_each_column_alone_has_the_values_it_has_among_all(name: str, face: StreamClient) -> None:
    assert _read(_source(face, columns=name))[name] == _read(_source(face))[name]


def test_columns_come_in_the_order_in_which_they_are_named(face: StreamClient) -> None:
    rows = _read(_source(face, columns="start, message,source"))
    assert rows.column_names == ["start", "message", "source"]
    assert rows == _read(_source(face)).select(["start", "message", "source"])


def test_columns_that_are_not_asked_for_are_not_made(
    face: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logdrive.pipeline.decode import event_columns

    made: list[str] = []
    real = event_columns._event_column

    def noting(name: str, *rest: object) -> object:
        made.append(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(event_columns, "_event_column", noting)
    _read(_source(face, columns="message,received"))
    assert set(made) == {"message", "received"}


def test_a_schema_given_to_spark_names_the_columns_too(face: StreamClient) -> None:
    asked = from_arrow_schema(pa.schema([("message", pa.string()), ("end", pa.int64())]))
    reader = _source(face).reader(asked)
    for part in reader.partitions():
        for batch in reader.read(part):
            assert batch.schema == pa.schema([("message", pa.string()), ("end", pa.int64())])


def test_a_schema_that_events_does_not_have_is_refused_with_what_it_has(
    face: StreamClient,
) -> None:
    asked = from_arrow_schema(pa.schema([("message", pa.int64()), ("level", pa.string())]))
    with pytest.raises(ConfigError) as caught:
        _source(face).reader(asked)
    assert [mistake.key for mistake in caught.value.mistakes] == ["schema", "schema"]
    assert "let it be string" in str(caught.value)
    assert "received" in str(caught.value)


@pytest.mark.parametrize("second", [0, 1, 14, _BATCHES - 1])
def test_a_query_from_a_time_begins_with_the_batch_received_then(
    second: int, face: StreamClient
) -> None:
    rows = _read(_source(face, startingTimestamp=_iso(second - 0.5)))
    assert _said(rows) == _expected(second)
    ms = str((1_700_000_000 + second) * 1000)
    assert _said(_read(_source(face, startingTimestamp=ms))) == _expected(second)


def test_a_query_between_two_times_has_what_was_received_between(face: StreamClient) -> None:
    rows = _read(_source(face, startingTimestamp=_iso(5), endingTimestamp=_iso(9)))
    assert _said(rows) == _expected(5, 9)
    assert not len(_read(_source(face, startingTimestamp=_iso(9), endingTimestamp=_iso(5))))
    assert not len(_read(_source(face, startingTimestamp=_iso(_BATCHES))))


def test_a_batch_query_begins_and_ends_at_offsets(
    face: StreamClient, segments: list[Segment]
) -> None:
    def offsets(second: int) -> str:
        time_ms = (1_700_000_000 + second) * 1000
        places = [find_time(face, one.name, 0, len(one.data), time_ms) for one in segments]
        return json.dumps({"segments": {str(n): [place] for n, place in enumerate(places)}})

    middle, end = offsets(10), offsets(20)
    assert _said(_read(_source(face, startingOffsets=middle))) == _expected(10)
    assert _said(_read(_source(face, endingOffsets=middle))) == _expected(0, 10)
    rows = _read(_source(face, startingOffsets=middle, endingOffsets=end))
    assert _said(rows) == _expected(10, 20)
    assert not len(_read(_source(face, startingOffsets=end, endingOffsets=middle)))


def test_a_streaming_query_begins_at_a_time(face: StreamClient) -> None:
    one = _source(face, startingTimestamp=_iso(27), columns="message")
    reader = one.streamReader(one.schema())
    start = reader.initialOffset()
    assert reader.initialOffset() == start
    end = reader.latestOffset(start, ReadAllAvailable())
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    assert _said(pa.Table.from_batches(batches)) == _expected(27)


def test_bounds_that_make_no_sense_are_refused(face: StreamClient) -> None:
    wrong = {
        "startingTimestamp": "yesterday",
        "endingOffsets": "earliest",
        "columns": "message,level",
    }
    with pytest.raises(ConfigError) as caught:
        _source(face, **wrong).schema()
    assert {mistake.key for mistake in caught.value.mistakes} == set(wrong)
    with pytest.raises(ConfigError, match="not both"):
        _source(face, startingOffsets="latest", startingTimestamp="2026-11-23").schema()
    one = _source(face, startingOffsets="latest")
    with pytest.raises(ConfigError, match="reads nothing"):
        one.reader(one.schema())
    one = _source(face, endingTimestamp="2026-11-23")
    with pytest.raises(ConfigError, match="no end"):
        one.streamReader(one.schema())


def test_a_time_is_found_by_halves_where_the_store_tells_of_its_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few headers are read, and those of a service that tells nothing give the same place."""
    from logdrive.pipeline.read import times

    monkeypatch.setattr(times, "WALKED_BYTES", 1000)
    segment, at, starts = Segment(), 0, []
    for second in range(200):
        segment.clock = second * 1000
        starts.append(len(segment.data))
        at = segment.packed("a", lines("a", second, 2), at)
    walked: list[int] = []

    real = StreamClient.read_batch_refs

    def counting(*arguments: Any, **more: Any) -> list[BatchRef]:
        refs = real(*arguments, **more)
        walked.append(len(refs))
        return refs

    monkeypatch.setattr(StreamClient, "read_batch_refs", counting)
    with served(tmp_path / "store", segment) as face:
        for second in (0, 1, 77, 199):
            walked.clear()
            place = find_time(face, segment.name, 0, len(segment.data), second * 1000)
            assert place == starts[second]
            assert sum(walked) < 50
        monkeypatch.setattr(StreamClient, "find_batch", lambda *_: None)
        assert find_time(face, segment.name, 0, len(segment.data), 77_000) == starts[77]
