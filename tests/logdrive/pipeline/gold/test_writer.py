"""Gold counts each row of silver once: through crashes between commits, compactions, restarts."""

import random
import shutil
import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.gold.fill import fill_gold
from logdrive.pipeline.gold.schema import ERRORS, GOLD_SCHEMAS, MINUTES, gold_directory
from logdrive.pipeline.gold.writer import Gold
from logdrive.pipeline.tables.dropping import drop_tables
from tests.logdrive.pipeline.gold.counted import check, count, total
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import fill, grow, read, silver_rows
from tests.logdrive.pipeline.stopping import StopAfter

POINTS = [point for point in faults.POINTS if point.startswith("pipeline.gold.")]


class Crash(BaseException):
    """The end of the process, as a test can survive it."""


def add(directory: Path, segment: Segment, part: int) -> None:
    grow(directory, segment, part)
    fill(directory)


def test_each_row_of_silver_is_counted_once_however_it_came(tmp_path: Path) -> None:
    segment = Segment()
    add(tmp_path, segment, 0)
    (first,) = count(tmp_path)
    assert first.lines == silver_rows(tmp_path).total()
    assert count(tmp_path) == []

    add(tmp_path, segment, 1)
    add(tmp_path, segment, 2)
    (second,) = count(tmp_path)
    assert first.lines + second.lines == silver_rows(tmp_path).total()
    assert total(tmp_path, MINUTES) == silver_rows(tmp_path).total()
    check(tmp_path)


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_between_the_tables_counts_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    segment = Segment()
    add(tmp_path, segment, 0)
    for commits in range(len(GOLD_SCHEMAS)):
        left = [commits + 1]

        def reached(name: str, left: list[int] = left) -> None:
            left[0] -= name == point
            if left[0] == 0:
                raise Crash(name)

        monkeypatch.setattr(faults, "on_reach", reached)
        with pytest.raises(Crash):
            count(tmp_path)
        monkeypatch.setattr(faults, "on_reach", None)
        # silver grows before the restart, so that gold's tables are not equally far behind
        add(tmp_path, segment, commits + 1)
        count(tmp_path)
        check(tmp_path)
        add(tmp_path, segment, commits + 10)


def test_crashes_at_random_points_count_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pick, segment, crashes = random.Random(7), Segment(), 0
    for part in range(8):
        monkeypatch.setattr(faults, "on_reach", None)
        add(tmp_path, segment, part)
        left = [pick.randrange(1, 9)]

        def reached(name: str, left: list[int] = left) -> None:
            left[0] -= name in POINTS
            if left[0] == 0:
                raise Crash(name)

        monkeypatch.setattr(faults, "on_reach", reached)
        try:
            count(tmp_path)
        except Crash:
            crashes += 1
    monkeypatch.setattr(faults, "on_reach", None)
    count(tmp_path)
    assert crashes > 3
    check(tmp_path)


def test_what_waits_is_what_the_steps_then_read_also_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = Segment()

    def read_as_counted() -> int:
        read: list[int] = []
        with Gold(str(tmp_path), disk=SystemDisk(), on_read=read.append) as tables:
            waiting = tables.count_waiting_rows()
            fill_gold(tables, threading.Event())
            assert tables.count_waiting_rows() == 0
        assert sum(read) == waiting
        return waiting

    add(tmp_path, segment, 0)
    assert read_as_counted() == silver_rows(tmp_path).total()
    add(tmp_path, segment, 1)

    def reached(name: str) -> None:
        if name == "pipeline.gold.after_commit":  # of the first table
            raise Crash(name)

    monkeypatch.setattr(faults, "on_reach", reached)
    with pytest.raises(Crash):
        count(tmp_path)
    monkeypatch.setattr(faults, "on_reach", None)
    add(tmp_path, segment, 2)
    assert read_as_counted() > 0
    assert read_as_counted() == 0


def test_a_compaction_of_silver_or_gold_changes_no_figure(tmp_path: Path) -> None:
    segment = Segment()
    for part in range(3):
        add(tmp_path, segment, part)
        count(tmp_path)
    for table in (tmp_path / "silver" / "access", tmp_path / "gold" / MINUTES):
        DeltaTable(str(table)).optimize.compact()
    assert sum(step.lines for step in count(tmp_path)) == 0
    add(tmp_path, segment, 3)
    count(tmp_path)
    check(tmp_path)


def test_gold_of_a_compacted_silver_reads_what_is_there(tmp_path: Path) -> None:
    segment = Segment()
    for part in range(3):
        add(tmp_path, segment, part)
    delta = DeltaTable(str(tmp_path / "silver" / "access"))
    delta.optimize.compact()
    delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    count(tmp_path)
    check(tmp_path)


def test_gold_that_is_dropped_and_counted_again_is_the_same(tmp_path: Path) -> None:
    add(tmp_path, Segment(), 0)
    count(tmp_path)
    assert drop_tables(gold_directory(str(tmp_path)), SystemDisk())
    count(tmp_path)
    check(tmp_path)


def test_a_silver_that_was_made_anew_is_refused_with_the_remedy(tmp_path: Path) -> None:
    add(tmp_path, Segment(), 0)
    count(tmp_path)
    shutil.rmtree(tmp_path / "silver")
    fill(tmp_path)
    with pytest.raises(StorageError, match="--table gold"):
        count(tmp_path)


def test_without_silver_there_is_no_gold(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="logdrive pipeline silver"):
        count(tmp_path)


def test_one_process_at_a_time_fills_gold(tmp_path: Path) -> None:
    add(tmp_path, Segment(), 0)
    with (
        Gold(str(tmp_path), disk=SystemDisk()),
        pytest.raises(StorageError, match="in use by another"),
        Gold(str(tmp_path), disk=SystemDisk()),
    ):
        pass


def test_a_table_without_errors_has_marks_and_no_rows(tmp_path: Path) -> None:
    add(tmp_path, Segment(), 0)
    count(tmp_path)
    errors = DeltaTable(str(tmp_path / "gold" / ERRORS))
    assert errors.transaction_version("logdrive:silver/access") == 1
    assert errors.to_pyarrow_table().num_rows == 0
    assert read(tmp_path, "access").num_rows > 0


def test_a_stop_amid_a_step_commits_nothing_and_the_next_run_counts_each_row_once(
    tmp_path: Path,
) -> None:
    add(tmp_path, Segment(), 0)
    for looks in range(1000):
        with Gold(str(tmp_path), disk=SystemDisk()) as tables:
            totals = fill_gold(tables, StopAfter(looks))
        files = list((tmp_path / "gold").rglob("part-*.parquet"))
        assert bool(files) == bool(totals.steps)
        if totals.steps:
            break
    assert looks > 2, "it looks more often than at the start of a step"
    count(tmp_path)
    check(tmp_path)
