"""What retention removed before it was read: tables that lack it are not complete, and say where.

Sources of which all was in such a part are named nowhere, so nothing else could tell.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from logdrive.cli.main import cli
from logdrive.pipeline.audit.audit import Verdict, audit
from logdrive.pipeline.audit.engines.spark import SparkEngine
from logdrive.pipeline.audit.text import verdict_line
from logdrive.pipeline.bronze.removed import PLACE_COLUMNS, RemovedPart, find_holes, find_removed
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.metrics import RunMetrics
from logdrive.pipeline.report.page import render_report
from tests.logdrive.pipeline.begun import backfill, batches_of, plan, received, run, stream
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import SEGMENT, Segment, lines
from tests.logdrive.pipeline.storing import cut_off, store


def send_files(segment: Segment, first: int, after: int) -> int:
    """Add a whole file for each of the numbers; return where the segment ends then."""
    for number in range(first, after):
        source = f"s{number}"
        segment.ended(source, send(segment, source, lines(source, 0, 50)))
    return len(segment.data)


def fill_with_hole(root: Path, tables: Path) -> tuple[int, int]:
    """Fill *tables* from a stream that loses whole files unread; return where these were."""
    segment = Segment()
    read = send_files(segment, 0, 2)
    run(plan(store(root, segment), tables))
    removed = send_files(segment, 2, 4)
    send_files(segment, 4, 6)
    uri = store(root, segment)
    cut_off(root, SEGMENT, removed)
    assert run(plan(uri, tables)).as_json()["removed"] == removed - read
    return read, removed


def run_command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *map(str, arguments)], standalone_mode=False)


def parts(verdict: Verdict) -> list[tuple[str, int, int, str]]:
    return [(part.segment, part.start, part.end, part.unit) for part in verdict.removed]


# What the audit says ----------------------------------------------------------------------------


def test_files_that_were_removed_unread_as_a_whole_keep_the_tables_from_being_complete(
    tmp_path: Path, tables: Path
) -> None:
    read, removed = fill_with_hole(tmp_path / "store", tables)
    verdict = audit(str(tables))
    assert (verdict.sources, verdict.lost_bytes, verdict.gaps) == (4, 0, [])
    assert parts(verdict) == [(SEGMENT, read, removed, "bytes")]
    assert (verdict.complete, verdict.complete_but_for_ends) == (False, False)
    said = f"{removed - read:,} stored bytes of the stream were removed before they were read"
    assert verdict_line(verdict) == (
        f"NOT COMPLETE: 200 lines, {verdict.bytes:,} bytes, 4 sources, 0 bytes lost, "
        f"0 lines duplicated; {said}"
    )


def test_the_command_names_segment_and_range_and_ends_with_1(tmp_path: Path, tables: Path) -> None:
    read, removed = fill_with_hole(tmp_path / "store", tables)
    text = run_command("audit", tables)
    assert text.return_value == 1
    where = f"{SEGMENT}: the bytes from {read:,} to {removed:,} were removed before they were read"
    assert where in text.output.splitlines()
    printed = json.loads(run_command("audit", tables, "--json").output)
    part = {"segment": SEGMENT, "start": read, "end": removed, "unit": "bytes"}
    assert printed["removed"] == [part]
    assert (printed["complete"], printed["removed_bytes"]) == (False, removed - read)
    assert printed["removed_records"] == 0


def test_the_report_is_not_complete_either_and_lists_the_range(
    tmp_path: Path, tables: Path
) -> None:
    read, removed = fill_with_hole(tmp_path / "store", tables)
    page = render_report(str(tables), audit(str(tables)))
    assert "Not complete" in page
    assert "Removed from the stream before it was read" in page
    assert f'class="n">{read:,}</td><td data-name="to" class="n">{removed:,}</td>' in page


@pytest.mark.spark
def test_both_engines_see_what_was_removed(tmp_path: Path, tables: Path, spark: Any) -> None:
    fill_with_hole(tmp_path / "store", tables)
    verdict = audit(str(tables), partial(SparkEngine, spark))
    assert verdict.removed
    assert verdict == audit(str(tables))


def test_records_of_other_services_are_counted_as_records() -> None:
    segment = "basin/stream"
    values = {"segment": [segment, segment], "offset": [0, 13], "next": [12, 20]}
    (part,) = find_removed("no tables", pa.table(values), [])
    assert part == RemovedPart(segment, 12, 13, "records")


# Where no row follows, or none is before --------------------------------------------------------


def test_what_was_removed_is_told_at_once_though_nothing_follows_it_and_counted_once(
    tmp_path: Path, tables: Path
) -> None:
    segment = Segment()
    read = send_files(segment, 0, 2)
    run(plan(store(tmp_path / "store", segment), tables))
    removed = send_files(segment, 2, 4)
    uri = store(tmp_path / "store", segment)
    cut_off(tmp_path / "store", SEGMENT, removed)
    metrics = RunMetrics()
    assert run(plan(uri, tables), metrics=metrics).removed == removed - read
    assert metrics.values()["logdrive_pipeline_removed_offsets_total"] == removed - read
    assert parts(audit(str(tables))) == [(SEGMENT, read, removed, "bytes")]
    assert run(plan(uri, tables)).removed == 0
    send_files(segment, 4, 5)
    assert run(plan(store(tmp_path / "store", segment), tables)).removed == 0
    assert parts(audit(str(tables))) == [(SEGMENT, read, removed, "bytes")]


def test_a_segment_of_which_all_was_removed_unread_is_named(tmp_path: Path, tables: Path) -> None:
    one, two = Segment(), Segment("logs/app/1.#epoch.0")
    send_files(one, 0, 2)
    removed = send_files(two, 2, 4)
    uri = store(tmp_path / "store", one, two)
    cut_off(tmp_path / "store", two.name, removed)
    run(plan(uri, tables))
    assert parts(audit(str(tables))) == [(two.name, 0, removed, "bytes")]


def test_new_tables_of_a_stream_that_lost_its_beginning_are_not_complete(
    tmp_path: Path, tables: Path
) -> None:
    segment = Segment()
    removed = send_files(segment, 0, 2)
    send_files(segment, 2, 4)
    uri = store(tmp_path / "store", segment)
    cut_off(tmp_path / "store", SEGMENT, removed)
    run(plan(uri, tables))
    verdict = audit(str(tables))
    assert (verdict.complete, parts(verdict)) == (False, [(SEGMENT, 0, removed, "bytes")])


def test_where_nothing_could_be_read_the_last_line_says_what_was_removed(
    tmp_path: Path, tables: Path
) -> None:
    segment = Segment()
    removed = send_files(segment, 0, 2)
    uri = store(tmp_path / "store", segment)
    cut_off(tmp_path / "store", SEGMENT, removed)
    run(plan(uri, tables))
    assert verdict_line(audit(str(tables))) == (
        "nothing to judge: no batch has been read yet; "
        f"{removed:,} stored bytes of the stream were removed before they were read"
    )


# What is no such part ---------------------------------------------------------------------------


def test_what_was_read_and_then_removed_is_no_loss(tmp_path: Path, tables: Path) -> None:
    segment = Segment()
    for first in range(0, 6, 2):
        read = send_files(segment, first, first + 2)
        uri = store(tmp_path / "store", segment)
        assert run(plan(uri, tables)).removed == 0
        cut_off(tmp_path / "store", SEGMENT, read)
    verdict = audit(str(tables))
    assert verdict.complete, verdict
    assert not verdict.removed


def test_tables_that_begin_at_a_time_lack_nothing_before_it_until_it_was_asked_for(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream(count=1)
    begins, removed = received(segments[0], 14), batches_of(segments[0])[4].offset
    uri = store(tmp_path / "store", *segments)
    cut_off(tmp_path / "store", SEGMENT, removed)
    assert run(plan(uri, tables, begins)).removed == 0
    verdict = audit(str(tables))
    assert (verdict.complete, verdict.removed) == (True, [])
    backfill(plan(uri, tables), stop_after=1)
    assert audit(str(tables)).removed == []
    backfill(plan(uri, tables))
    verdict = audit(str(tables))
    assert (verdict.complete, parts(verdict)) == (False, [(SEGMENT, 0, removed, "bytes")])


def test_a_backfill_prints_what_it_found_removed(tmp_path: Path, tables: Path) -> None:
    segments = stream(count=1)
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 14)))
    removed = batches_of(segments[0])[4].offset
    cut_off(tmp_path / "store", SEGMENT, removed)
    printed = run_command("backfill", "--from", uri, "--to", tables, "--json").stdout
    assert json.loads(printed)["removed"] == removed


def test_what_was_removed_behind_the_time_at_which_tables_begin_is_lost(
    tmp_path: Path, tables: Path
) -> None:
    (segment,) = stream(count=1)
    begins, read = received(segment, 14), len(segment.data)
    run(plan(store(tmp_path / "store", segment), tables, begins))
    removed = send_files(segment, 2, 4)
    send_files(segment, 4, 5)
    uri = store(tmp_path / "store", segment)
    cut_off(tmp_path / "store", SEGMENT, removed)
    run(plan(uri, tables))
    assert parts(audit(str(tables))) == [(SEGMENT, read, removed, "bytes")]


def test_a_restored_store_whose_beginning_the_tables_have_lost_nothing(
    tmp_path: Path, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Segment()
    had = send_files(whole, 0, 2)
    send_files(whole, 2, 4)
    run(plan(store(tmp_path / "store", whole), tables))
    restored = Segment(data=bytearray(whole.data[:had]), clock=whole.clock + 60_000)
    send_files(restored, 4, 6)
    uri = store(tmp_path / "restored", restored)
    cut_off(tmp_path / "restored", SEGMENT, had)  # so no header is left that the tables know
    assert run(plan(uri, tables)).removed == 0
    assert "removed before" not in capsys.readouterr().out
    verdict = audit(str(tables))
    assert (verdict.complete, verdict.removed, verdict.sources) == (True, [], 6)


# The arithmetic ---------------------------------------------------------------------------------

_INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=12)


@given(_INTERVALS, st.integers(0, 45), st.integers(0, 60))
def test_holes_are_what_no_interval_has(
    intervals: list[tuple[int, int]], first: int, until: int
) -> None:
    starts = np.array(sorted(start for start, _ in intervals), np.int64)
    ends = np.array([start + size for start, size in sorted(intervals)], np.int64)
    has = {at for start, size in intervals for at in range(start, start + size)}
    reach = max([until, *(start for start, _ in intervals)])
    holes = find_holes(starts, ends, first, until)
    assert [at for hole in holes for at in range(*hole)] == [
        at for at in range(first, reach) if at not in has
    ]


def test_the_order_of_rows_is_none_of_the_segments(tmp_path: Path, tables: Path) -> None:
    fill_with_hole(tmp_path / "store", tables)
    places = open_tables(str(tables))[1].read_rows(PLACE_COLUMNS)
    names = pa.array(["logs/app/1.#epoch.0"] * len(places))
    other = places.set_column(0, places.schema.field("segment"), names)
    both = pa.concat_tables([places, other]).take(
        np.random.default_rng(7).permutation(2 * len(places))
    )
    (one,) = find_removed(str(tables), places, [])
    assert [(part.start, part.end) for part in find_removed(str(tables), both, [])] == [
        (one.start, one.end)
    ] * 2
