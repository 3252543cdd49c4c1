"""Rule R6: events in pieces become one row, wherever micro-batches, tasks, crashes and other
batches cut between them.
"""

from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.decode.headers import rows_from_table
from logdrive.pipeline.decode.schema import BATCHES
from logdrive.pipeline.read.chunks import read_chunks
from logdrive.pipeline.read.offsets import Progress, parse_progress
from logdrive.pipeline.read.planner import Planner
from logdrive.pipeline.spark.options import Options
from logdrive.pipeline.spark.source import read_rows_of_range
from tests.logdrive.pipeline.filling import (
    SegmentReader,
    bronze,
    catch_up,
    planned,
    send,
    task,
)
from tests.logdrive.pipeline.segments import SEGMENT, Segment, lines
from tests.logdrive.pipeline.storing import served


def event(name: str, size: int = 40) -> bytes:
    return orjson.dumps({"message": name * size})


def stream(*order: str, cuts: int = 4) -> Segment:
    """Append, for each name in *order*, the next of the *cuts* pieces of the event so called; "."
    is a batch of something else.
    """
    segment, at, done = Segment(), 0, dict[str, int]()
    for name in order:
        if name == ".":
            at = send(segment, "a", lines("a", at, 2), at)
            continue
        whole, number = event(name[0]), done.get(name, 0)
        step = -(-len(whole) // cuts)
        segment.piece("beats", whole, number * step, min(number * step + step, len(whole)), name)
        done[name] = number + 1
    return segment


def messages(directory: Path) -> list[str]:
    """Return the first letters of all foreign messages, having checked that they are whole."""
    rows = open_tables(str(directory))[0].read_rows(["message", "form", "flag"]).to_pylist()
    messages = [row["message"] for row in rows if row["form"] == "foreign"]
    assert all(row["flag"] is None for row in rows)
    assert all(orjson.dumps({"message": message}) == event(message[0]) for message in messages)
    return sorted(message[0] for message in messages)


def boundaries(segment: Segment) -> list[int]:
    return [hop.next for hop in walk_batches(segment.name, 0, bytes(segment.data))]


@pytest.mark.parametrize("size", [7, 1000])
def test_pieces_in_one_task_are_one_row_and_count_as_one_event(tmp_path: Path, size: int) -> None:
    segment = stream("x", ".", "x", "y", "x", "y", "y", ".", "y", "x")
    with bronze(tmp_path) as tables:
        tables.commit_ranges([task(tmp_path, segment, 0, size=size)])
    assert messages(tmp_path) == ["x", "y"]
    rows = rows_from_table(open_tables(str(tmp_path))[1].read_rows(BATCHES.names))
    pieces = [row for row in rows if row.kind == "foreign"]
    assert all(
        (row.rows, row.events) == (int(row.mark_exact is True), int(row.mark_exact is True))
        for row in pieces
    )
    assert sum(row.rows for row in pieces) == 2


@settings(max_examples=25, deadline=None)
@given(
    st.permutations([*"xxxxyyyy....z"]), st.sets(st.integers(1, 13)), st.sets(st.integers(1, 13))
)
def test_any_cut_into_micro_batches_and_tasks_gives_each_event_once(
    tmp_path_factory: pytest.TempPathFactory, order: list[str], commits: set[int], tasks: set[int]
) -> None:
    directory, segment = tmp_path_factory.mktemp("tables"), stream(*order)
    ends = boundaries(segment)
    stops = sorted({ends[at - 1] for at in commits} | {ends[-1]})
    cuts = sorted({ends[at - 1] for at in tasks} | set(stops))
    start = 0
    for stop in stops:
        # a new run each time: what has begun is known from the tables alone
        with bronze(directory) as tables:
            assert tables.next_offset(SEGMENT) == start
            tables.begin_segment(SEGMENT, tables.header_chain(SEGMENT))
            parts = []
            for cut in (cut for cut in cuts if start < cut <= stop):
                parts.append(task(directory, segment, start, cut))
                start = cut
            tables.commit_ranges(parts)
    assert messages(directory) == ["x", "y"]  # z was never finished


def test_an_event_cut_short_by_a_crash_is_no_row_and_the_one_sent_again_is(tmp_path: Path) -> None:
    segment = stream("x1", "x1", "x2", "x2", "x2", "x2", ".")
    catch_up(tmp_path, segment)
    assert messages(tmp_path) == ["x"]


def test_pieces_without_their_beginning_are_kept_flagged_and_never_taken_for_the_event(
    tmp_path: Path,
) -> None:
    """Retention may cut between two pieces."""
    whole = stream("x", "x", "x", "x")
    start = boundaries(whole)[0]
    with bronze(tmp_path) as tables:
        tables.skip_removed(SEGMENT, start)
        wanted = planned(whole, start)
        assert wanted.events != ()
        cut = Segment(data=whole.data[:])
        cut.data[:start] = stream("y").data[:start]  # another event's piece stands there
        tables.commit_ranges([task(tmp_path, cut, start)])
    (row,) = open_tables(str(tmp_path))[0].read_rows(["flag", "original"]).to_pylist()
    assert row["flag"] == "incomplete"
    assert event("x").endswith(row["original"])


def test_the_store_is_told_to_keep_what_an_unfinished_event_needs(tmp_path: Path) -> None:
    segment = stream(".", "x", ".", "x", "x", "x", ".")
    ends = boundaries(segment)
    for number, (end, needed) in enumerate(
        zip(ends, [ends[0], ends[0], ends[0], ends[0], ends[0], ends[5], ends[6]], strict=True)
    ):
        with bronze(tmp_path) as tables:
            tables.begin_segment(SEGMENT, tables.header_chain(SEGMENT))
            tables.commit_ranges(
                [task(tmp_path, segment, 0 if not number else ends[number - 1], end)]
            )
            assert tables.needed_offsets() == {SEGMENT: needed}
        with bronze(tmp_path) as tables:
            tables.begin_segment(SEGMENT, tables.header_chain(SEGMENT))
            assert tables.needed_offsets() == {SEGMENT: needed}, "the next run knows it, too"


def test_a_planner_finds_pieces_of_earlier_micro_batches_and_so_does_another_process(
    tmp_path: Path,
) -> None:
    segment = stream(".", "x", ".", "x", "y", "x", ".", "y", "y", "x", "y")
    ends = boundaries(segment)
    with served(tmp_path / "store", segment) as face:
        planner, at, events = Planner(face, range_bytes=1), Progress({}, {}), list[Any]()
        for end in ends:
            following = planner.plan_micro_batch(at, {0: (0, end)}, None)
            ranges = planner.cut_ranges(at, following)
            assert ranges == Planner(face, range_bytes=1).cut_ranges(
                parse_progress(at.as_json()), parse_progress(following.as_json())
            )
            events += [event for one in ranges for event in one.events]
            at = following
        assert [one.last for one in events] == [ends[8], ends[9]]
        whole = Planner(face, 1 << 30)
        (wanted,) = whole.cut_ranges(
            Progress({}, {}), whole.plan_micro_batch(Progress({}, {}), whole.segment_bounds(), None)
        )
        assert wanted == planned(segment, 0)
        assert list(wanted.events) == events
        assert events[0].extents == ((ends[0], ends[1]), (ends[2], ends[3]), (ends[4], ends[5]))
        rows = [
            row for batch in read_rows_of_range(Options(face), wanted) for row in batch.to_pylist()
        ]
    assert sorted(row["message"][0] for row in rows if row["form"] == "foreign") == ["x", "y"]


def test_a_task_recalls_one_event_at_a_time() -> None:
    segment = stream(*"xyzxyzxyzxyz")
    recalled = 0
    pieces = partial(SegmentReader(segment, 1 << 20).read_chunks, segment.name)
    for chunk in read_chunks(planned(segment, boundaries(segment)[8]), pieces):
        recalled = recalled + 1 if chunk.recalled else 0
        assert recalled <= 3, "more than the pieces of one event between two parts of the range"
