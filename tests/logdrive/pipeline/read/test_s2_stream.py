"""Tables filled from an S2 stream, whose offsets count records, are those of the bytes."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest

from logdrive.errors import ConfigError
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.audit.text import verdict_line
from logdrive.pipeline.backfill import run_backfill
from logdrive.pipeline.bronze.removed import RemovedPart
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import CommitCounts
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.decode.schema import BATCHES, COMMAND, EVENTS
from logdrive.pipeline.plan import Plan
from logdrive.pipeline.range_task import RangeTask, write_range
from logdrive.pipeline.read.connect import open_stream
from logdrive.pipeline.read.offsets import Progress
from logdrive.pipeline.read.planner import Planner
from logdrive.pipeline.read.start import parse_start
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.resume import find_start
from logdrive.pipeline.run import run_pipeline
from logdrive.pipeline.spark.options import Options
from logdrive.pipeline.spark.source import read_rows_of_range
from logdrive.services.s2.reader.stream import S2StreamReader
from logdrive.wire.s2.records import Record, fence_record, trim_record
from tests.logdrive.pipeline.filling import bronze, catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.pipeline.storing import store
from tests.logdrive.services.s2.reader.streams import (
    BASIN,
    SEGMENT,
    append,
    append_segment,
    records_of,
    stream_at,
)
from tests.support.s2.face import S2Face

_RANGE_BYTES = 3000
_PLACES = {"stream", "segment", "batch", "offset", "next", "committed"}


@pytest.fixture
def face(tmp_path: Path) -> Iterator[S2Face]:
    with S2Face(tmp_path / "store") as running:
        yield running


@pytest.fixture
def segment() -> Segment:
    """Batches of two sources, a gap, and foreign events in pieces between them."""
    segment, at = Segment(name=SEGMENT), 0
    event = b'{"message":"%s"}' % (b"x" * 5000)
    segment.foreign("f", [b'{"message":"short"}', b"no JSON"])
    segment.piece("f", event, 0, 2000)
    for turn in range(20):
        at = send(segment, "a", lines("a", turn, 30), at)
    segment.piece("f", event, 2000, 4000)
    send(segment, "b", lines("b", 0, 100))
    segment.gap("b", 0, 1, "removed")
    segment.piece("f", event, 4000, len(event))
    return segment


def fill(stream: S2StreamReader, directory: Path) -> CommitCounts:
    """Read all that is new, as a run of the pipeline does in one micro-batch without Spark."""
    with bronze(directory) as tables:
        start = find_start(stream, tables, stream.uri).progress
        planner = Planner(stream, _RANGE_BYTES)
        end = planner.plan_micro_batch(start, planner.segment_bounds(), None)
        events = str(directory / "bronze" / "events")
        written = [
            write_range(RangeTask(stream, one, events, "snappy"))
            for one in planner.cut_ranges(start, end)
        ]
        return tables.commit_ranges(written)


def rows(directory: Path) -> list[list[dict[str, object]]]:
    """Return the rows of both tables in order, without the columns that say where they were."""
    found = []
    for table, schema, order in zip(
        open_tables(str(directory)),
        (EVENTS, BATCHES),
        (["offset", "ordinal"], ["offset"]),
        strict=True,
    ):
        columns = table.read_rows(schema.names).sort_by([(name, "ascending") for name in order])
        found.append(columns.drop_columns([*_PLACES & {*schema.names}]).to_pylist())
    return found


def kinds(directory: Path) -> list[str]:
    _, batches = open_tables(str(directory))
    return list(batches.read_rows(["offset", "kind"]).sort_by("offset")["kind"].to_pylist())


def unread(stream: S2StreamReader, directory: Path) -> int:
    with bronze(directory) as tables:
        return find_start(stream, tables, stream.uri).unread


def test_tables_go_on_with_the_protocol_that_they_were_begun_with(
    face: S2Face, segment: Segment, tmp_path: Path
) -> None:
    stream = stream_at(face.port, "events")
    append_segment(stream, segment)
    begun = Segment(name=f"{BASIN}/events/0.#epoch.0")
    send(begun, "a", lines("a", 0, 30))
    catch_up(tmp_path / "bytes", begun)
    with pytest.raises(ConfigError, match=r"events/0\.#epoch\.0 and offsets count bytes"):
        unread(stream, tmp_path / "bytes")

    fill(stream, tmp_path / "records")
    with (
        open_stream(
            store(tmp_path / "other", begun).partition("#")[0] + f"#{BASIN}/events"
        ) as other,
        bronze(tmp_path / "records") as tables,
    ):
        assert isinstance(other, StreamClient)
        with pytest.raises(ConfigError, match=f"{BASIN}/events and offsets count records"):
            find_start(other, tables, other.uri)


def test_tables_begin_at_a_time_and_are_filled_later_where_offsets_count_records(
    face: S2Face, segment: Segment, tmp_path: Path
) -> None:
    append_segment(stream_at(face.port, "events"), segment)
    uri = f"s2://127.0.0.1:{face.port}/{BASIN}/events"
    header = list(walk_batches(segment.name, 0, bytes(segment.data)))[12].header
    assert header is not None
    start = parse_start(str(header.received))
    begun = Plan(uri=uri, directory=str(tmp_path / "tables"), once=True, start=start)
    run_pipeline(begun, threading.Event())
    verdict = audit(begun.directory)
    assert verdict.begins
    # the foreign event in pieces has begun with the first batches, and so do the tables
    assert verdict.not_asked_bytes == 0
    done = run_backfill(begun, threading.Event())
    assert done.result.offsets == done.scope.to_read > 0
    assert (audit(begun.directory).begins, audit(begun.directory).lost_bytes) == (None, 0)


def test_a_backfill_over_the_other_protocol_is_refused_and_passes_nothing_over(
    face: S2Face, segment: Segment, tmp_path: Path
) -> None:
    append_segment(stream_at(face.port, "events"), segment)
    begun = Segment(name=f"{BASIN}/events/0.#epoch.0")
    for turn in range(4):
        send(begun, "a", lines("a", turn * 30, 30), len(lines("a", 0, turn * 30)))
    uri = store(tmp_path / "other", begun).partition("#")[0] + f"#{BASIN}/events"
    plan = Plan(uri=uri, directory=str(tmp_path / "tables"), once=True)
    run_pipeline(replace(plan, start=parse_start(str(begun.clock))), threading.Event())
    s2 = replace(plan, uri=f"s2://127.0.0.1:{face.port}/{BASIN}/events")
    with pytest.raises(ConfigError, match=r"events/0\.#epoch\.0 and offsets count bytes"):
        run_backfill(s2, threading.Event())
    assert audit(plan.directory).begins
    run_backfill(plan, threading.Event())
    assert audit(plan.directory).complete


def test_the_tables_are_those_of_the_bytes(face: S2Face, segment: Segment, tmp_path: Path) -> None:
    stream = stream_at(face.port)
    append_segment(stream, segment)
    counts = fill(stream, tmp_path / "records")
    catch_up(tmp_path / "bytes", segment)
    assert rows(tmp_path / "records") == rows(tmp_path / "bytes")
    assert counts.bytes == len(segment.data)
    assert counts.offsets == sum(map(len, records_of(segment)))
    assert unread(stream, tmp_path / "records") == 0


def test_a_query_of_the_data_source_has_the_same_rows(
    face: S2Face, segment: Segment, tmp_path: Path
) -> None:
    stream = stream_at(face.port)
    append_segment(stream, segment)
    fill(stream, tmp_path)
    planner, start = Planner(stream, _RANGE_BYTES), Progress({}, {})
    end = planner.plan_micro_batch(start, planner.segment_bounds(), None)
    found = [
        row["message"]
        for one in planner.cut_ranges(start, end)
        for batch in read_rows_of_range(Options(stream), one)
        for row in batch.to_pylist()
    ]
    assert found == [row["message"] for row in rows(tmp_path)[0]]


def test_the_next_run_goes_on_where_the_tables_end(
    face: S2Face, segment: Segment, tmp_path: Path
) -> None:
    stream = stream_at(face.port)
    event_begins, *later = ([Record(body) for body in records] for records in records_of(segment))
    catch_up(tmp_path / "bytes", segment)
    append(stream, event_begins, *later[:5])
    first = fill(stream, tmp_path / "records")
    assert fill(stream, tmp_path / "records") == CommitCounts()
    append(stream, *later[5:])
    second = fill(stream, tmp_path / "records")
    assert first.batches == 6
    assert second.batches == len(later) - 5
    assert rows(tmp_path / "records") == rows(tmp_path / "bytes")


def test_commands_have_no_rows_of_events_and_records_of_others_are_quarantined(
    face: S2Face, segment: Segment, tmp_path: Path
) -> None:
    stream = stream_at(face.port)
    (foreign, *_) = records_of(segment)
    batch = [Record(body) for body in foreign]
    append(stream, [fence_record("t")], batch, [Record(b"of another writer")], [trim_record(0)])
    counts = fill(stream, tmp_path)
    assert kinds(tmp_path) == [COMMAND, "foreign", "headless", COMMAND]
    assert (counts.batches, counts.events) == (4, 3)
    append(stream, batch)  # behind a command: the tables end there, and know the place again
    assert fill(stream, tmp_path).batches == 1
    events, _ = open_tables(str(tmp_path))
    flags = events.read_rows(["flag", "original", "source"], pc.field("source").is_null())
    assert flags.to_pylist() == [
        {"flag": "headless", "original": b"of another writer", "source": None}
    ]


def test_r5_tables_go_back_where_the_stream_went_back(segment: Segment, tmp_path: Path) -> None:
    batches = [[Record(body) for body in records] for records in records_of(segment)]
    with S2Face(tmp_path / "first") as first:
        append(stream_at(first.port), *batches)
        fill(stream_at(first.port), tmp_path / "tables")
    with S2Face(tmp_path / "restored") as second:
        stream = stream_at(second.port)
        append(stream, *batches[:9], *batches[10:-1])
        counts = fill(stream, tmp_path / "tables")
        assert counts.batches == len(batches) - 11
        assert counts.events == 0, "rows that the tables have"
        assert unread(stream, tmp_path / "tables") == 0


def test_a_run_goes_on_behind_what_was_trimmed_unread(
    face: S2Face, segment: Segment, tmp_path: Path
) -> None:
    stream = stream_at(face.port)
    batches = [[Record(body) for body in records] for records in records_of(segment)]
    append(stream, *batches[:3])
    fill(stream, tmp_path)
    (state,) = stream.list_segments()
    append(stream, *batches[3:6], [trim_record(state.length + len(batches[3]))])
    counts = fill(stream, tmp_path)
    assert counts.batches == 3  # two and the command
    assert len(kinds(tmp_path)) == 6
    verdict, trimmed = audit(str(tmp_path)), len(batches[3])
    part = RemovedPart(state.segment, state.length, state.length + trimmed, "records")
    assert (verdict.removed, verdict.removed_records) == ([part], trimmed)
    assert f"{trimmed} stored records of the stream were removed" in verdict_line(verdict)
