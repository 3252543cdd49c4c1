"""Silver takes each row of bronze once: through crashes between any two commits, and restarts."""

import random
from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.metrics import RunMetrics
from logdrive.pipeline.silver.balance import silver_balance
from logdrive.pipeline.silver.config import FormatRule, SilverConfig
from tests.logdrive.pipeline.crashing import Crash, crashing_at
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines, source_id
from tests.logdrive.pipeline.silver.filled import (
    BROKEN,
    access_lines,
    bronze_rows,
    fill,
    foreign,
    grow,
    read,
    silver_of,
    silver_rows,
    tables_of,
)

POINTS = [point for point in faults.POINTS if point.startswith("pipeline.silver.")]


def test_what_a_step_quarantines_is_counted_by_format_and_reason(tmp_path: Path) -> None:
    grow(tmp_path, Segment(), 0)
    (step,) = fill(tmp_path)
    rows = read(tmp_path, "quarantine")
    there = Counter(zip(rows["format"].to_pylist(), rows["reason"].to_pylist(), strict=True))
    assert step.reasons == there
    assert {name for name, _ in there} == {"access", None}

    metrics = RunMetrics()
    metrics.note_quarantined(step.reasons)
    metrics.note_quarantined(step.reasons)
    counted = {
        (sample.labels["format"] or None, sample.labels["reason"]): sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "logdrive_pipeline_silver_quarantined_rows_total"
    }
    assert counted == {key: 2 * count for key, count in there.items()}


def test_each_line_becomes_one_row_of_the_table_of_its_format(tmp_path: Path) -> None:
    grow(tmp_path, Segment(), 0)
    (step,) = fill(tmp_path)

    assert (step.rows, step.quarantined, step.duplicates) == (95, 2, 0)
    assert tables_of(tmp_path) == {"access", "text", "quarantine"}
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)
    web = read(tmp_path, "access")
    assert web.num_rows == 40
    assert set(web["status"].to_pylist()) == {200}
    assert set(web["source"].to_pylist()) == {source_id("web")}
    assert {time.year for time in web["time"].to_pylist()} == {2015}


def test_a_line_that_does_not_parse_is_quarantined_with_its_text_and_reason(
    tmp_path: Path,
) -> None:
    grow(tmp_path, Segment(), 0)
    fill(tmp_path)
    rows = read(tmp_path, "quarantine").sort_by("reason").to_pylist()
    broken = next(row for row in rows if row["format"] == "access")
    assert broken["message"].encode() + b"\n" == BROKEN
    assert broken["reason"]
    assert broken["path"] == "/var/log/web.log"
    headless = next(row for row in rows if row["format"] is None)
    assert headless["reason"] == "headless"
    assert headless["original"] == b"no header stands before this"


def test_each_commit_adds_only_what_bronze_added_since(tmp_path: Path) -> None:
    segment = Segment()
    for part in range(4):
        grow(tmp_path, segment, part)
        (step,) = fill(tmp_path)
        assert step.bronze == 97
        assert fill(tmp_path) == []
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def test_several_versions_are_one_step_up_to_a_limit(tmp_path: Path) -> None:
    segment = Segment()
    for part in range(3):
        grow(tmp_path, segment, part)
    (step,) = fill(tmp_path)
    assert step.bronze == 3 * 97


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_anywhere_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    segment = Segment()
    for part in (0, 2):
        grow(tmp_path, segment, part)
        with crashing_at(point, monkeypatch):
            fill(tmp_path)
        before = silver_balance(str(tmp_path))
        assert before is None or before.adds_up, "files that are not committed yet count"
        # bronze may grow before the restart
        grow(tmp_path, segment, part + 1)
        fill(tmp_path)
        assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def test_crashes_at_random_points_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pick, segment, crashes = random.Random(5), Segment(), 0
    for part in range(8):
        grow(tmp_path, segment, part)
        left = [pick.randrange(1, 9)]

        def reached(name: str, left: list[int] = left) -> None:
            left[0] -= name in POINTS
            if name in POINTS and left[0] == 0:
                raise Crash(name)

        monkeypatch.setattr(faults, "on_reach", reached)
        try:
            fill(tmp_path)
        except Crash:
            crashes += 1
    monkeypatch.setattr(faults, "on_reach", None)
    fill(tmp_path)
    assert crashes > 3
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def test_a_failed_step_is_not_followed_by_another_until_the_tables_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(tmp_path, Segment(), 0)
    with silver_of(tmp_path) as tables:
        with crashing_at("pipeline.silver.between_tables", monkeypatch):
            tables.next_step()
        with pytest.raises(StorageError, match="not read again"):
            tables.next_step()
        tables.reload_tables()
        assert tables.next_step() is None
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def test_one_process_at_a_time_fills_silver(tmp_path: Path) -> None:
    grow(tmp_path, Segment(), 0)
    with silver_of(tmp_path), pytest.raises(StorageError, match="in use by another pipeline"):
        fill(tmp_path)


def test_silver_of_a_bronze_that_was_made_anew_is_refused_with_the_remedy(tmp_path: Path) -> None:
    grow(tmp_path, Segment(), 0)
    fill(tmp_path)
    (tmp_path / "bronze").rename(tmp_path / "old")
    segment = Segment()
    for part in range(3):
        grow(tmp_path, segment, part)
    with pytest.raises(StorageError, match="rebuild DIR --table silver"):
        fill(tmp_path)


def test_a_compaction_of_bronze_adds_no_rows(tmp_path: Path) -> None:
    segment = Segment()
    grow(tmp_path, segment, 0)
    fill(tmp_path)
    grow(tmp_path, segment, 1)
    DeltaTable(open_tables(str(tmp_path))[0].path).optimize.compact()
    (step,) = fill(tmp_path)
    assert step.bronze == 97
    grow(tmp_path, segment, 2)
    fill(tmp_path)
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def lose_past(directory: Path) -> None:
    """Join the files of bronze, and remove those that were joined."""
    events, _ = open_tables(str(directory))
    had = set(events.files)
    DeltaTable(events.path).optimize.compact()
    for gone in had - set(open_tables(str(directory))[0].files):
        Path(gone).unlink()


def test_a_first_fill_reads_what_is_there_where_replaced_files_are_gone(tmp_path: Path) -> None:
    """It may take several steps; nothing adds up before the last of them."""
    segment = Segment()
    for part in range(4):
        grow(tmp_path, segment, part)
    lose_past(tmp_path)
    grow(tmp_path, segment, 4)

    with silver_of(tmp_path, SilverConfig(max_bytes_per_step=1)) as tables:
        first = tables.next_step()
        assert first is not None
        assert first.version == -1
        balance = silver_balance(str(tmp_path))
        assert balance is not None
        assert balance.version is None
    fill(tmp_path)
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


@pytest.mark.parametrize("has_past", [True, False])
def test_what_waits_is_what_the_steps_then_read(tmp_path: Path, has_past: bool) -> None:
    segment = Segment()
    for part in range(3):
        grow(tmp_path, segment, part)
    if not has_past:
        lose_past(tmp_path)
    grow(tmp_path, segment, 3)
    steps = 0
    with silver_of(tmp_path, SilverConfig(max_bytes_per_step=1)) as tables:
        waiting = tables.count_waiting_bytes()
        assert waiting
        while (step := tables.next_step()) is not None:
            steps += 1
            waiting -= step.bytes
            assert tables.count_waiting_bytes() == waiting
            if steps == 1:  # bronze grows amid the fill
                grow(tmp_path, segment, 4)
                waiting = tables.count_waiting_bytes()
                assert waiting
    assert steps > 2
    assert waiting == 0


def test_a_decision_stays_when_later_lines_or_the_configuration_say_otherwise(
    tmp_path: Path,
) -> None:
    segment = Segment()
    end = send(segment, "web", access_lines(0, 30))
    catch_up(tmp_path, segment)
    fill(tmp_path)
    send(segment, "web", lines("web", 0, 50), end)
    catch_up(tmp_path, segment)
    (step,) = fill(tmp_path, SilverConfig(format=(FormatRule(path="*", format="text"),)))
    assert step.quarantined == 50


def test_few_lines_that_no_format_reads_leave_a_source_undecided(tmp_path: Path) -> None:
    segment = Segment()
    end = send(segment, "web", b"server starting\n")
    catch_up(tmp_path, segment)
    fill(tmp_path)
    assert read(tmp_path, "sources").num_rows == 0
    send(segment, "web", access_lines(0, 30), end)
    catch_up(tmp_path, segment)
    fill(tmp_path)
    assert read(tmp_path, "text").num_rows == 1
    assert read(tmp_path, "access").num_rows == 30


def test_each_path_of_a_foreign_peer_has_a_format_of_its_own(tmp_path: Path) -> None:
    def event(path: str, message: str) -> dict[str, object]:
        return {"message": message, "log": {"file": {"path": path}}}

    segment = Segment()
    web = [
        event("/var/log/nginx/access.log", line.decode())
        for line in access_lines(0, 30).splitlines()
    ]
    app = [event("/srv/shop/app.log", f"line {n}") for n in range(30)]
    foreign(segment, [one for pair in zip(web, app, strict=True) for one in pair])
    catch_up(tmp_path, segment)
    fill(tmp_path)
    assert set(read(tmp_path, "access")["service"].to_pylist()) == {"nginx"}
    assert set(read(tmp_path, "text")["service"].to_pylist()) == {"shop"}
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def test_lines_of_several_days_are_in_the_partitions_of_their_days(tmp_path: Path) -> None:
    segment = Segment()
    end = send(segment, "web", access_lines(0, 30))
    segment.clock += 24 * 3600 * 1000
    send(segment, "web", access_lines(30, 30), end)
    catch_up(tmp_path, segment)
    fill(tmp_path)
    rows = read(tmp_path, "access")
    assert len(set(rows["day"].to_pylist())) == 2
    assert pc.all(pc.equal(rows["received"].cast("date32"), rows["day"])).as_py()
    assert len(list((tmp_path / "silver" / "access").glob("day=*"))) == 2
