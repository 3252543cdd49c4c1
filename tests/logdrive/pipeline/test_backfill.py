"""Tables that begin at a time, and what lies before it, which is filled later: each byte once,
whatever is stopped, killed or done at the same time, and an audit that says what was asked for.
"""

import errno
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from logdrive.cli.main import cli
from logdrive.errors import ConfigError, StorageError
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.backfill import check_backfill
from logdrive.pipeline.bronze.beginnings import time_text
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.table_pair import TablePair
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.plan import RunResult
from logdrive.pipeline.rebuild_bronze import check_rebuild, rebuild_bronze
from logdrive.pipeline.silver.balance import silver_balance
from logdrive.pipeline.spark.tasks import SparkTasks
from tests.logdrive.pipeline.begun import (
    TURNS,
    backfill,
    batches_of,
    check_whole,
    grow,
    judged,
    plan,
    received,
    run,
    stream,
)
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.gold.counted import count, counted_lines, expected_lines
from tests.logdrive.pipeline.segments import STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.silver.filled import bronze_rows, fill, silver_rows
from tests.logdrive.pipeline.storing import cut_off, store


def test_a_backfill_brings_what_lies_before_once_and_then_has_nothing_to_do(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    planned = plan(store(tmp_path / "store", *segments), tables, received(segments[0], 14))
    run(planned)
    scope = check_backfill(planned)
    begin = batches_of(segments[0])[14].offset
    assert {part.segment: (part.first, part.end) for part in scope.parts} == {
        one.name: (0, begin) for one in segments
    }
    assert judged(tables).begins is not None  # that was only a look
    done = backfill(planned)
    assert done.result.offsets == done.result.there == scope.to_read
    assert done.result.micro_batches > 1
    check_whole(tables)
    again = backfill(planned)
    assert again.result == RunResult()
    assert again.scope.nothing.startswith("the tables have all that lies before ")


def test_a_backfill_that_is_stopped_goes_on_where_it_was_and_the_audit_stays_true(
    tmp_path: Path, tables: Path
) -> None:
    """Also of a source of which it has a part, and one that lies before the start as a whole."""
    segments = stream()
    over = Segment(name=segments[0].name)
    over.clock = segments[0].clock
    grow(over, "over", 0, 6)
    grow(over, "s0", 0, TURNS)
    segments[0] = over
    start = received(over, 20)
    planned = plan(store(tmp_path / "store", *segments), tables, start)
    run(planned)
    parts = 0
    while not check_backfill(planned).nothing:
        verdict = judged(tables)
        assert verdict.complete, verdict.gaps
        assert verdict.begins == time_text(start)
        for source in verdict.by_source:
            assert source.lost_bytes == 0
            assert source.complete_from <= source.complete_to == source.last
        backfill(planned, stop_after=1)
        parts += 1
    assert parts > 3
    verdict = judged(tables)
    assert (verdict.complete, verdict.begins) == (True, None)
    assert list(source_pieces(str(tables), source_id("over"))) == [(0, lines("over", 0, 300))]


def test_a_backfill_waits_for_a_disk_that_is_full_and_goes_on(
    tmp_path: Path, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = stream()
    planned = plan(store(tmp_path / "store", *segments), tables, received(segments[0], 14))
    run(planned)
    whole, failures = TablePair.commit, [1]

    def full(tables: TablePair, *arguments: Any) -> None:
        if failures:
            failures.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(tables, *arguments)

    monkeypatch.setattr(TablePair, "commit", full)
    backfill(planned)
    check_whole(tables)


def test_until_fills_what_was_received_before_a_time_and_the_rest_later(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 14)))
    command = ["pipeline", "backfill", "--from", uri, "--to", str(tables)]
    dry = CliRunner().invoke(cli, [*command, "--until", str(received(segments[0], 6)), "--dry-run"])
    assert dry.exit_code == 0, dry.output
    size = batches_of(segments[0])[6].offset
    assert f"{segments[0].name}: {size:,} bytes, from 0 to {size:,}" in dry.output
    assert f"would read {2 * size:,} bytes of the stream" in dry.output
    part = CliRunner().invoke(cli, [*command, "--until", str(received(segments[0], 6))])
    assert part.exit_code == 0, part.output
    assert "filled up to the time given; run this without --until to fill the rest" in part.output
    verdict = judged(tables)
    assert verdict.complete
    assert [one.start for one in verdict.unfilled] == [size, size]
    again = CliRunner().invoke(cli, [*command, "--until", str(received(segments[0], 6))])
    assert "nothing to fill: nothing that was received before the time given" in again.output
    rest = CliRunner().invoke(cli, [*command, "--json"])
    assert rest.exit_code == 0, rest.output
    assert json.loads(rest.stdout)["waiting"] == 0
    check_whole(tables)


def test_tables_that_were_begun_with_the_stream_have_nothing_to_fill(
    tmp_path: Path, tables: Path
) -> None:
    uri = store(tmp_path / "store", *stream())
    run(plan(uri, tables))
    done = CliRunner().invoke(cli, ["pipeline", "backfill", "--from", uri, "--to", str(tables)])
    assert done.exit_code == 0
    assert "nothing to fill: these tables were begun with the stream" in done.output
    check_whole(tables)


def test_a_backfill_without_tables_or_with_another_stream_is_refused(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    with pytest.raises(StorageError, match="is not a table: run `logdrive pipeline run"):
        backfill(plan(uri, tables))
    assert not tables.exists()
    run(plan(uri, tables, received(segments[0], 14)))
    elsewhere = store(tmp_path / "other", Segment("logs/other/0.#epoch.0"))
    with pytest.raises(ConfigError, match="have nothing of logs/other"):
        backfill(plan(elsewhere.replace(STREAM, "logs/other"), tables))


def test_what_retention_removed_before_it_was_filled_is_told_and_lost(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 14)))
    cut = batches_of(segments[0])[4]
    cut_off(tmp_path / "store", segments[0].name, cut.offset)
    assert judged(tables).complete  # it was not asked for
    command = ["pipeline", "backfill", "--from", uri, "--to", str(tables)]
    dry = CliRunner().invoke(cli, [*command, "--dry-run"])
    assert (
        f"{segments[0].name}: {cut.offset:,} bytes before that were removed by retention, and "
        "would be a gap in the audit"
    ) in dry.output
    backfill(plan(uri, tables), stop_after=1)
    backfill(plan(uri, tables))
    verdict = judged(tables)
    first = cut.header.previous if cut.header else None
    assert [(gap.source, gap.start, gap.end) for gap in verdict.gaps] == [
        (source_id("s0"), 0, first)
    ]
    assert (verdict.complete, verdict.begins) == (False, None)


def test_where_nothing_is_left_to_fill_nothing_is_done_and_nothing_lost(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream(count=1)
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 14)))
    cut_off(tmp_path / "store", segments[0].name, batches_of(segments[0])[16].offset)
    done = backfill(plan(uri, tables))
    assert done.scope.nothing.startswith("the stream no longer has anything from before ")
    assert judged(tables).complete


def test_of_a_segment_that_is_gone_as_a_whole_a_backfill_does_not_wait(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 14)))
    cut_off(tmp_path / "store", segments[0].name, batches_of(segments[0])[16].offset)
    done = backfill(plan(uri, tables))
    assert done.scope.removed == batches_of(segments[0])[14].offset
    verdict = judged(tables)
    assert (verdict.complete, verdict.begins) == (False, None)
    assert {gap.source for gap in verdict.gaps} == {source_id("s0")}
    assert backfill(plan(uri, tables)).scope.nothing


def test_a_store_that_went_back_is_read_again_by_a_run_before_it_is_filled_from__R5(
    tmp_path: Path, tables: Path
) -> None:
    """Restored to before the tables' beginning: that moves with the time to where it is now."""
    (whole,) = stream(count=1)
    start = received(whole, 14)
    run(plan(store(tmp_path / "store", whole), tables, start))
    backfill(plan(f"file://{tmp_path / 'store'}#{STREAM}", tables), stop_after=1)
    cut = batches_of(whole)[10]
    restored = Segment(data=bytearray(whole.data[: cut.offset]), clock=whole.clock + 5000)
    assert cut.header is not None
    assert cut.header.previous is not None
    data = lines("s0", 0, 2000)
    send(restored, "s0", data[cut.header.previous :], cut.header.previous)
    uri = store(tmp_path / "restored", restored)
    with pytest.raises(StorageError, match="let `logdrive pipeline run` read it again before"):
        backfill(plan(uri, tables))
    run(plan(uri, tables, start))
    assert judged(tables).complete
    backfill(plan(uri, tables))
    assert list(source_pieces(str(tables), source_id("s0"))) == [(0, data)]
    verdict = judged(tables)
    assert (verdict.complete, verdict.begins, verdict.duplicate_events) == (True, None, 0)


def test_a_store_that_went_back_behind_tables_that_are_filled_is_read_again_as_ever__R5(
    tmp_path: Path, tables: Path
) -> None:
    (whole,) = stream(count=1)
    start = received(whole, 14)
    uri = store(tmp_path / "store", whole)
    run(plan(uri, tables, start))
    backfill(plan(uri, tables))
    cut = batches_of(whole)[10]
    restored = Segment(data=bytearray(whole.data[: cut.offset]), clock=whole.clock + 5000)
    assert cut.header is not None
    assert cut.header.previous is not None
    data = lines("s0", 0, 2000)
    send(restored, "s0", data[cut.header.previous :], cut.header.previous)
    uri = store(tmp_path / "restored", restored)
    run(plan(uri, tables, start))
    assert backfill(plan(uri, tables)).scope.nothing
    verdict = judged(tables)
    assert (verdict.complete, verdict.begins, verdict.duplicate_events) == (True, None, 0)
    assert list(source_pieces(str(tables), source_id("s0"))) == [(0, data)]


def test_tables_that_begin_behind_all_that_is_stored_are_filled_too(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, segments[0].clock + 1000))
    assert open_tables(str(tables))[0].files == []
    backfill(plan(uri, tables), stop_after=1)
    assert judged(tables).complete
    backfill(plan(uri, tables))
    check_whole(tables)


@pytest.mark.spark
def test_a_backfill_in_tasks_of_spark(tmp_path: Path, tables: Path, spark: Any) -> None:
    segments = stream(turns=60)
    planned = plan(store(tmp_path / "store", *segments), tables, received(segments[0], 50))
    run(planned)
    in_spark = replace(planned, driver_bytes=0, max_bytes_per_batch=20_000)
    done = backfill(in_spark, tasks=SparkTasks(spark.sparkContext))
    assert done.result.last is not None
    assert done.result.last.place == "spark"
    check_whole(tables, turns=60)


def test_silver_and_gold_take_the_rows_of_a_backfill_once(tmp_path: Path, tables: Path) -> None:
    segments = stream()
    planned = plan(store(tmp_path / "store", *segments), tables, received(segments[0], 14))
    run(planned)
    fill(tables)
    count(tables)
    while not backfill(planned, stop_after=1).scope.nothing:
        fill(tables)
        count(tables)
    assert silver_rows(tables) == bronze_rows(tables)
    assert counted_lines(tables) == expected_lines(tables)
    balance = silver_balance(str(tables))
    assert balance is not None
    assert (balance.adds_up, balance.waiting) == (True, 0)


@pytest.mark.parametrize("commits", [0, 1, 100])
def test_tables_made_anew_begin_where_the_old_ones_do_and_are_filled_as_far(
    tmp_path: Path, tables: Path, commits: int
) -> None:
    segments = stream()
    planned = plan(store(tmp_path / "store", *segments), tables, received(segments[0], 14))
    run(planned)
    if commits:
        backfill(planned, stop_after=commits)
    before, rows = judged(tables), bronze_rows(tables)
    planned = replace(planned, start=None)
    stop = threading.Event()

    def stop_it(_: RunResult) -> None:
        stop.set()

    assert not rebuild_bronze(planned, stop, SystemDisk(), stop_it).swapped
    done = rebuild_bronze(planned, threading.Event(), SystemDisk())
    assert done.swapped
    assert (judged(tables).begins, judged(tables).unfilled) == (before.begins, before.unfilled)
    assert bronze_rows(tables) == rows
    assert check_rebuild(planned).stream_offsets == sum(len(one.data) for one in segments) - sum(
        part.end - part.start for part in before.unfilled
    )
    backfill(planned)
    check_whole(tables)
