"""Tables filled from a topic of Iggy, whose offsets count messages, are those of the bytes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.compute as pc
import pytest

from logdrive.errors import StorageError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.record_walker import frame_batch
from logdrive.model.units import OffsetUnit
from logdrive.pipeline.audit.heads import heads_from_table
from logdrive.pipeline.audit.judge_sources import audit_sources
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import CommitCounts
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.decode.schema import BATCHES, EVENTS
from logdrive.pipeline.range_task import RangeTask, write_range
from logdrive.pipeline.read.offsets import Progress
from logdrive.pipeline.read.planner import Planner
from logdrive.pipeline.resume import find_start
from logdrive.services.batch_budget import BatchBudget
from logdrive.services.iggy.reader.headers import count_known_messages, read_batch_refs
from logdrive.services.iggy.reader.polling import (
    Partition,
    PartitionReading,
    partition_index,
    partition_states,
)
from logdrive.services.reader import HeaderDigest, SegmentState, ServiceReader
from logdrive.wire.iggy.messages.envelope import StoredMessage
from tests.logdrive.pipeline.filling import bronze, catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.services.iggy.reader.memory_topic import (
    STREAM,
    TOPIC,
    MemoryTopic,
    as_sent,
)
from tests.logdrive.services.iggy.reader.topics import create, topic_at
from tests.logdrive.services.iggy.reader.topics import send as send_to
from tests.support.iggy.servers import iggy_server
from tests.support.virtual_time import run

_RANGE_BYTES = 3000
_PLACES = {"stream", "segment", "batch", "offset", "next", "committed"}


class MemoryReader:
    """Reads a `MemoryTopic` as `IggyStreamReader` reads a server. Implements `ServiceReader`."""

    offset_unit: OffsetUnit = "records"
    name = f"{STREAM}/{TOPIC}"
    uri = f"iggy://memory/{STREAM}/{TOPIC}"

    def __init__(self, topic: MemoryTopic) -> None:
        self.topic = topic

    def connection_options(self) -> dict[str, str]:
        return {}

    def name_of_segment(self, number: int) -> str:
        return Partition(STREAM, TOPIC, number).name

    def segment_number(self, segment: str) -> int:
        return partition_index(segment)

    def list_segments(self) -> list[SegmentState]:
        return run(partition_states(self.topic, STREAM, TOPIC))

    def read_batch_refs(
        self,
        segment: str,
        start: int,
        end: int,
        most: int | None = None,
        most_raw: int | None = None,
    ) -> list[BatchRef]:
        partition = Partition(STREAM, TOPIC, partition_index(segment))
        budget = BatchBudget(most, most_raw)
        return run(read_batch_refs(self.topic, partition, start, end, budget))

    def count_known_headers(self, segment: str, marks: Sequence[HeaderDigest]) -> int:
        (state,) = (one for one in self.list_segments() if one.segment == segment)
        partition = Partition(STREAM, TOPIC, partition_index(segment))
        return run(count_known_messages(self.topic, partition, marks, state))

    def read_chunks(self, segment: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        partition = Partition(STREAM, TOPIC, partition_index(segment))
        reading = PartitionReading(self.topic, partition, start)
        while reading.position < end:
            at = reading.position
            yield at, frame_batch(*run(reading.next_batch(end)))


@pytest.fixture
def segment() -> Segment:
    """Batches of two sources, a gap, and foreign events in pieces between them."""
    segment, at = Segment(), 0
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


@pytest.fixture
def topic() -> MemoryTopic:
    return MemoryTopic()


def fill(topic: MemoryTopic, directory: Path) -> CommitCounts:
    """Read all that is new in *topic*."""
    return fill_from(MemoryReader(topic), directory)


def fill_from(stream: ServiceReader, directory: Path) -> CommitCounts:
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


def quarantined(directory: Path) -> list[dict[str, object]]:
    events, _ = open_tables(str(directory))
    found = events.read_rows(["flag", "original", "offset"], pc.field("source").is_null())
    return list(found.sort_by("offset").drop_columns(["offset"]).to_pylist())


def kinds(directory: Path) -> list[str]:
    _, batches = open_tables(str(directory))
    return list(batches.read_rows(["offset", "kind"]).sort_by("offset")["kind"].to_pylist())


def lost_bytes(directory: Path) -> int:
    _, batches = open_tables(str(directory))
    heads = heads_from_table(batches.read_rows(list(BATCHES.names)))
    return sum(one.lost_bytes for one in audit_sources(heads))


def test_the_tables_are_those_of_the_bytes(
    topic: MemoryTopic, segment: Segment, tmp_path: Path
) -> None:
    topic.send(as_sent(segment))
    counts = fill(topic, tmp_path / "records")
    catch_up(tmp_path / "bytes", segment)
    assert rows(tmp_path / "records") == rows(tmp_path / "bytes")
    assert counts.bytes == len(segment.data)
    assert counts.offsets == len(topic.partitions[0])
    assert fill(topic, tmp_path / "records") == CommitCounts()


def test_several_partitions_are_read_and_the_next_run_goes_on_in_each(
    topic: MemoryTopic, segment: Segment, tmp_path: Path
) -> None:
    topic.partitions = [[], []]
    other = Segment(name="logs/app/1.#epoch.0")
    send(other, "c", lines("c", 0, 10))
    topic.send(as_sent(segment)[:10])
    topic.send(as_sent(other), 1)
    fill(topic, tmp_path / "records")
    topic.send(as_sent(segment)[10:])
    fill(topic, tmp_path / "records")
    catch_up(tmp_path / "bytes", segment, other)
    found, same = rows(tmp_path / "records"), rows(tmp_path / "bytes")
    for mine, theirs in zip(found, same, strict=True):
        assert sorted(map(repr, mine)) == sorted(map(repr, theirs))


def test_a_batch_sent_again_after_it_was_torn_is_there_once_and_what_was_left_is_kept(
    topic: MemoryTopic, tmp_path: Path
) -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 3))
    first = as_sent(segment)
    again = Segment()
    send(again, "a", lines("a", 1, 3), at)
    again.foreign("f", [b'{"message":"one"}', b'{"message":"two"}'])
    second = as_sent(again)
    topic.send([*first, *second[:-1], *second])
    fill(topic, tmp_path)
    assert kinds(tmp_path) == ["data", "data", "torn", "data", "foreign"]
    (found,) = quarantined(tmp_path)
    assert found["flag"] == "torn"
    assert found["original"] == b"\n".join(one.payload for one in second[-3:-1])
    events, _ = rows(tmp_path)
    messages = [row["message"] for row in events if row["flag"] is None]
    assert messages == [*_texts("a", 0), *_texts("a", 1), "one", "two"]
    assert lost_bytes(tmp_path) == 0


def _texts(name: str, turn: int) -> list[str]:
    return lines(name, turn, 3).decode().splitlines()


def test_lost_messages_are_an_empty_row_and_the_audit_says_which_bytes(
    topic: MemoryTopic, tmp_path: Path
) -> None:
    segment, at = Segment(), 0
    for turn in range(4):
        at = send(segment, "a", lines("a", turn, 3), at)
    sent: list[StoredMessage | None] = [*as_sent(segment)]
    size = len(sent) // 4
    sent[size : 2 * size] = [None] * size
    topic.partitions = [sent]
    fill(topic, tmp_path)
    assert kinds(tmp_path) == ["data", "torn", "data", "data"]
    assert [(row["flag"], row["original"]) for row in quarantined(tmp_path)] == [("torn", b"")]
    assert lost_bytes(tmp_path) == len(lines("a", 1, 3))
    assert fill(topic, tmp_path) == CommitCounts()


def test_r5_tables_go_back_where_the_server_lost_what_they_have(
    topic: MemoryTopic, segment: Segment, tmp_path: Path
) -> None:
    sent = as_sent(segment)
    topic.send(sent[:-5])
    fill(topic, tmp_path / "records")
    del topic.partitions[0][-20:]  # the server was killed
    topic.send(sent[len(topic.partitions[0]) :])
    fill(topic, tmp_path / "records")
    catch_up(tmp_path / "bytes", segment)
    assert rows(tmp_path / "records") == rows(tmp_path / "bytes")


def test_a_run_goes_on_behind_what_expired_unread(
    topic: MemoryTopic, segment: Segment, tmp_path: Path
) -> None:
    sent = as_sent(segment)
    topic.send(sent[:3])
    fill(topic, tmp_path)
    topic.send(sent[3:])
    topic.first = 9
    fill(topic, tmp_path)
    assert quarantined(tmp_path) == []
    batches = list(walk_batches(segment.name, 0, bytes(segment.data)))
    assert len(kinds(tmp_path)) == len(batches) - 3  # that many were removed unread
    assert fill(topic, tmp_path) == CommitCounts()


def test_what_expires_in_the_middle_of_a_run_is_told_with_a_remedy(
    topic: MemoryTopic, segment: Segment
) -> None:
    topic.send(as_sent(segment))
    planner, start = Planner(MemoryReader(topic), _RANGE_BYTES), Progress({}, {})
    start = planner.plan_micro_batch(start, planner.segment_bounds(), 1)
    topic.first = start.point(0).next + 1
    with pytest.raises(StorageError, match=r"the records from .* keep what is stored longer"):
        planner.plan_micro_batch(start, planner.segment_bounds(), None)


@pytest.mark.process
def test_a_real_server_that_lost_what_it_acknowledged_is_read_again(
    segment: Segment, tmp_path: Path
) -> None:
    sent, tables = as_sent(segment), tmp_path / "records"
    with iggy_server("R1", tmp_path / "server") as first:
        stream = topic_at(first.port, TOPIC)
        create(stream)
        send_to(stream, sent[:-5])
        fill_from(stream, tables)
        first.kill()
    # on another port: connections to the old one may still be ending
    with iggy_server("R1", tmp_path / "server") as second:
        stream = topic_at(second.port, TOPIC)
        (state,) = stream.list_segments()
        assert state.length < len(sent) - 5, "it has saved all that it was sent"
        send_to(stream, sent[state.length :])
        fill_from(stream, tables)
    catch_up(tmp_path / "bytes", segment)
    assert rows(tables) == rows(tmp_path / "bytes")
