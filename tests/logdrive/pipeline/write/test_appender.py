"""Rows appended to a stream, over the network face of a real store: each once, however often it is
repeated, and the same rows again when they are read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import orjson
import pyarrow as pa
import pytest

from logdrive.errors import ConfigError, StorageError, TransientError
from logdrive.model.limits import EVENT_BYTES, RECORD_BYTES
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.spark.source import LogdriveSource
from logdrive.pipeline.write import append
from logdrive.pipeline.write.append import AppendCounts
from logdrive.pipeline.write.appender import RowAppender
from logdrive.pipeline.write.batches import BatchOrigin, cut_batches
from logdrive.services.pravega.client.writer import AppendWriter
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.pipeline.storing import served


@pytest.fixture
def face(tmp_path: Path) -> Iterator[StreamClient]:
    segment = Segment()
    segment.packed("a", lines("a", 0, 3))
    with served(tmp_path / "store", segment) as client:
        yield client


def _rows(first: int, count: int, **columns: Any) -> pa.RecordBatch:
    messages = [f"row {n} ä" for n in range(first, first + count)]
    return pa.RecordBatch.from_pydict({"message": messages} | columns)


def _stored(face: StreamClient, **options: str) -> list[dict[str, Any]]:
    """Return the foreign rows of the stream, in order."""
    one = LogdriveSource({"uri": face.uri, **face.connection_options(), **options})
    reader = one.reader(one.schema())
    rows = [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
    return [row for row in rows if row["form"] != "text"]


def _messages(face: StreamClient) -> list[str]:
    return [row["message"] for row in _stored(face)]


def _expected(first: int, count: int) -> list[str]:
    return [f"row {n} ä" for n in range(first, first + count)]


def test_rows_read_again_are_those_that_were_appended(face: StreamClient) -> None:
    given = {
        "message": ["plain", "", "with all", "\ufffd bytes", 'says "x"\n'],
        "host": ["web-1", None, "web-2", "web-2", None],
        "path": ["/var/log/a", None, None, "/b", None],
        "fields": [
            None,
            '{"level":"info"}',
            '{"host":{"os":"linux"},"log":{"level":3},"n":123456789012345678901234567890}',
            "{}",
            '{"n":123456789012345678901234567890, "m": 1.50}',
        ],
        "time": pa.array([None, 0, 1_700_000_000_123_456, None, None], pa.timestamp("us", "UTC")),
        "eol": ["\n", "\n", "", "\r\n", "\n"],
        "original": [None, None, None, b"\xff bytes", None],
        "offset": [1, 2, 3, 4, 5],
    }
    batch = pa.RecordBatch.from_pydict(given)
    assert RowAppender(face, "test").append_rows("0", 0, [batch]) == AppendCounts(5, 0)
    stored = _stored(face)
    for name in ("message", "host", "path", "time", "eol", "original"):
        assert [row[name] for row in stored] == batch[name].to_pylist()
    fields = [row["fields"] for row in stored]
    assert fields[:2] == given["fields"][:2]
    assert orjson.loads(fields[2]).keys() == {"host", "log", "n"}
    assert fields[3] is None
    assert "123456789012345678901234567890" in fields[4]
    assert {row["form"] for row in stored} == {"foreign"}
    assert {row["flag"] for row in stored} == {None}


def test_a_repeated_micro_batch_is_appended_once(face: StreamClient) -> None:
    appender = RowAppender(face, "test")
    first = [_rows(0, 1000), _rows(1000, 1500)]
    assert appender.append_rows("0", 0, first) == AppendCounts(2500, 0)
    assert appender.append_rows("0", 0, first) == AppendCounts(0, 2500)
    assert appender.append_rows("0", 1, [_rows(2500, 10)]) == AppendCounts(10, 0)
    # cut into other Arrow batches, as a Spark with another setting would
    again = [_rows(2500, 4), _rows(2504, 6)]
    assert appender.append_rows("0", 1, again) == AppendCounts(0, 10)
    assert _messages(face) == _expected(0, 2510)


def test_parts_and_writers_are_counted_apart(face: StreamClient) -> None:
    for writer in ("test", "other"):
        for part in ("0", "1"):
            assert RowAppender(face, writer).append_rows(part, 0, [_rows(0, 5)]).appended == 5
    assert len(_messages(face)) == 20


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_after_an_interruption_only_the_rest_is_appended(
    lost: int, face: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The *lost*-th append fails, before or after it was stored; then all is repeated."""
    appender, rows = RowAppender(face, "test"), [_rows(0, 3500)]
    real, sent = AppendWriter.append_data, 0

    def failing(self: AppendWriter, *arguments: Any, **more: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == lost + 1:
            raise KeyboardInterrupt  # as a killed task: nothing is tried again
        return real(self, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(AppendWriter, "append_data", failing)
        with pytest.raises(KeyboardInterrupt):
            appender.append_rows("0", 7, rows)
    counts = appender.append_rows("0", 7, rows)
    assert counts.appended + counts.skipped == 3500
    assert _messages(face) == _expected(0, 3500)
    assert appender.append_rows("0", 7, rows).skipped == 3500


def test_a_connection_that_is_lost_is_made_again_within_one_call(
    face: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers are lost, too: what was stored is not appended again."""
    real, failures = append._next_stored, iter([True, False, True, True, False])

    async def failing(*arguments: Any) -> int:
        size = await real(*arguments)
        if next(failures, False):
            raise TransientError("lost")
        return size

    monkeypatch.setattr(append, "_next_stored", failing)
    counts = RowAppender(face, "test").append_rows("0", 0, [_rows(0, 5000)])
    assert counts == AppendCounts(5000, 0)
    assert _messages(face) == _expected(0, 5000)


def test_answers_that_were_lost_do_not_double_rows(
    face: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = AppendWriter.append_data
    lost: list[int] = []

    def deaf(self: AppendWriter, *arguments: Any, **more: Any) -> Any:
        stored = real(self, *arguments, **more)
        if len(lost) < 2 and more["number"] not in lost:
            lost.append(more["number"])

            async def lose() -> int:
                await stored
                raise TransientError("the answer was lost")

            import asyncio

            return asyncio.ensure_future(lose())
        return stored

    monkeypatch.setattr(AppendWriter, "append_data", deaf)
    counts = RowAppender(face, "test").append_rows("0", 0, [_rows(0, 2500)])
    assert counts == AppendCounts(2500, 0)
    assert len(lost) == 2
    assert _messages(face) == _expected(0, 2500)


@pytest.mark.parametrize(
    "other", [[_rows(1, 2500)], [_rows(0, 2499)], [_rows(0, 900)], [], [_rows(0, 2501)]]
)
def test_a_repetition_with_other_rows_is_refused_and_appends_nothing(
    other: list[pa.RecordBatch], face: StreamClient
) -> None:
    appender = RowAppender(face, "test")
    appender.append_rows("0", 0, [_rows(0, 2500)])
    with pytest.raises(StorageError, match=r"other rows than these.*give another `writer`"):
        appender.append_rows("0", 0, other)
    assert _messages(face) == _expected(0, 2500)


def test_an_earlier_micro_batch_is_refused(face: StreamClient) -> None:
    appender = RowAppender(face, "test")
    appender.append_rows("0", 5, [_rows(0, 10)])
    with pytest.raises(StorageError, match="micro-batch 5 already, and this is 4"):
        appender.append_rows("0", 4, [_rows(0, 10)])
    assert _messages(face) == _expected(0, 10)


def test_rows_longer_than_a_record_go_in_pieces_once(
    face: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "x" * (2 * RECORD_BYTES + 5)
    rows = [pa.RecordBatch.from_pydict({"message": ["before", long, "behind"]})]
    real, sent = AppendWriter.append_data, 0

    def failing(self: AppendWriter, *arguments: Any, **more: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == 4:  # amid the pieces
            raise KeyboardInterrupt
        return real(self, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(AppendWriter, "append_data", failing)
        with pytest.raises(KeyboardInterrupt):
            RowAppender(face, "test").append_rows("0", 0, rows)
    RowAppender(face, "test").append_rows("0", 0, rows)
    assert RowAppender(face, "test").append_rows("0", 0, rows).skipped == 3
    assert _messages(face) == ["before", long, "behind"]


def test_a_row_that_no_stream_takes_is_named() -> None:
    origin = BatchOrigin(UUID(int=1), "store", msgspec.Raw(b"{}"))
    records = [b"{}", b"x" * (EVENT_BYTES + 1)]
    with pytest.raises(StorageError, match=r"row 2 of micro-batch 3 is 16,777,217 bytes"):
        list(cut_batches(records, origin, 3, 0))


def test_fields_that_are_no_object_are_refused(face: StreamClient) -> None:
    rows = pa.RecordBatch.from_pydict({"message": ["x"], "fields": ["[1]"]})
    with pytest.raises(ConfigError, match="let `fields` be a JSON object"):
        RowAppender(face, "test").append_rows("0", 0, [rows])


def test_a_stream_is_made_only_if_it_is_said_with_how_many_segments(face: StreamClient) -> None:
    new = StreamClient(face.target, "logs", "new")
    with pytest.raises(ConfigError, match=r"there is no such stream.*`segments`"):
        RowAppender(new, "test").append_rows("0", 0, [_rows(0, 3)])
    for part in range(8):
        RowAppender(new, "test", 4).append_rows(str(part), 0, [_rows(0, 3)])
    states = new.list_segments()
    assert len(states) == 4
    assert sum(state.length > 0 for state in states) > 1  # writers are spread over them
    assert len(_messages(new)) == 24
