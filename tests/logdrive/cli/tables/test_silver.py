"""`pipeline silver` and `pipeline rebuild` as a user meets them."""

import itertools
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from logdrive.cli.pipeline import pipeline
from logdrive.pipeline.tasks import check_stop
from tests.logdrive.pipeline.gold.counted import check
from tests.logdrive.pipeline.segments import STREAM, Segment
from tests.logdrive.pipeline.silver.filled import bronze_rows, fill, grow, read, silver_rows
from tests.logdrive.pipeline.storing import store

TEXT_ONLY = """
[pipeline]
from = "pravega://127.0.0.1:6000/logs/events"
to = "/unused"

[[silver.format]]
path = "*"
format = "text"
service = "shop"
"""


def call(*arguments: object) -> Result:
    result = CliRunner().invoke(pipeline, [str(each) for each in arguments])
    assert result.exception is None, result.output
    return result


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    grow(tmp_path, Segment(), 0)
    return tmp_path


def test_silver_is_filled_once_and_says_what_it_did(tables: Path) -> None:
    said = json.loads(call("silver", tables, "--once", "--json").stdout)
    assert (said["rows"], said["quarantined"], said["duplicates"]) == (95, 2, 0)
    assert "0 rows, 0 quarantined" in call("silver", tables, "--once").stdout
    assert silver_rows(tables) == bronze_rows(tables)


def test_a_rebuild_decides_anew_and_a_dry_run_changes_nothing(tables: Path) -> None:
    fill(tables)
    before = silver_rows(tables)
    config = tables / "pipeline.toml"
    config.write_text(TEXT_ONLY)
    rebuild = ("rebuild", tables, "--table", "silver", "--config", config)
    dry = call(*rebuild, "--dry-run")
    assert "access (40 rows)" in dry.stdout
    assert read(tables, "access").num_rows == 40

    for _ in range(2):  # a second time is the same
        call(*rebuild)
        assert silver_rows(tables) == before
        assert read(tables, "text").num_rows == 96
        assert set(read(tables, "text")["service"].to_pylist()) == {"shop"}
        assert not (tables / "silver" / "access").exists()


def test_a_file_with_silver_alone_is_enough_for_silver_and_its_rebuild(tables: Path) -> None:
    config = tables / "silver.toml"
    config.write_text('[[silver.format]]\npath = "*"\nformat = "text"\n')
    call("silver", tables, "--once", "--config", config)
    assert read(tables, "text").num_rows == 96
    call("rebuild", tables, "--table", "silver", "--config", config)
    assert read(tables, "text").num_rows == 96


def test_a_format_that_its_table_is_bound_against_is_refused_by_file_and_key(
    tables: Path,
) -> None:
    config = tables / "silver.toml"
    rule = (
        '[[silver.format]]\npath = "*"\nformat = "json"\ntable = "orders"\ncolumns = {{n = "{}"}}\n'
    )
    config.write_text(rule.format("int"))
    call("silver", tables, "--once", "--config", config)
    config.write_text(rule.format("bool"))
    refused = CliRunner().invoke(
        pipeline, ["silver", str(tables), "--once", "--config", str(config)]
    )
    said = f'{config}: silver.format[0].columns.n = "bool": the column n of '
    assert str(refused.exception).startswith(said)
    call("rebuild", tables, "--table", "silver", "--config", config)


def test_a_rebuild_that_was_stopped_goes_on_with_silver(tables: Path) -> None:
    """As after a crash behind the drop."""
    fill(tables)
    (tables / "silver").rename(tables / "silver.dropped")
    call("silver", tables, "--once")
    assert silver_rows(tables) == bronze_rows(tables)
    call("rebuild", tables, "--table", "silver")
    assert not (tables / "silver.dropped").exists()


@pytest.mark.parametrize(
    ("table", "place"),
    [("silver", "logdrive.pipeline.silver.scan"), ("gold", "logdrive.pipeline.gold.writer")],
)
def test_a_rebuild_that_was_interrupted_amid_a_step_is_finished_by_the_fill_or_another_one(
    tables: Path, table: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        check_stop()

    fill(tables)
    for then in ((table, tables, "--once"), ("rebuild", tables, "--table", table)):
        with monkeypatch.context() as patched:
            patched.setattr(f"{place}.check_stop", interrupt)
            stopped = call("rebuild", tables, "--table", table, "--json")
        assert json.loads(stopped.stdout)["steps"] == 0
        call(*then)
        assert silver_rows(tables) == bronze_rows(tables)
        if table == "gold":
            check(tables)


def test_silver_and_gold_say_how_much_of_how_much_is_done(tables: Path) -> None:
    size = sum(path.stat().st_size for path in (tables / "bronze" / "events").rglob("*.parquet"))
    for command in (("silver", tables, "--once"), ("rebuild", tables, "--table", "silver")):
        said = figures(call(*command).stderr, "silver so far")
        assert (said["done"], said["total"], said["unit"]) == (str(size), str(size), "bytes")
    rows = str(silver_rows(tables).total())
    for command in (("gold", tables, "--once"), ("rebuild", tables, "--table", "gold")):
        said = figures(call(*command).stderr, "gold so far")
        assert (said["done"], said["total"], said["unit"]) == (rows, rows, "rows")


def figures(log: str, event: str) -> dict[str, str]:
    """Return those of the one line of *log* that is about *event*."""
    (line,) = (line for line in log.splitlines() if event in line)
    return dict(re.findall(r"(\w+)=(\S+)", line))


def test_a_run_fills_silver_too(tmp_path: Path) -> None:
    segment = Segment(name=f"{STREAM}/0.#epoch.0")
    grow(tmp_path / "unused", segment, 0)
    address = store(tmp_path / "store", segment)
    run = ("run", "--from", address, "--to", tmp_path / "tables", "--once")
    call(*run)
    # what there was to do was silver's
    said = call(*run, "--silver").stdout.splitlines()
    assert silver_rows(tmp_path / "tables") == bronze_rows(tmp_path / "tables")
    rows = len(bronze_rows(tmp_path / "tables"))
    assert said[0].startswith("0 events of 0 batches")
    assert said[1] == f"silver: {rows - 2:,} rows, 2 quarantined, 0 sent again"
    assert json.loads(call(*run, "--silver", "--json").stdout)["silver"]["rows"] == 0


def making_at_most(count: int) -> Callable[..., DeltaTable]:
    """Return what makes tables and ends the process once *count* are made."""
    make, made = DeltaTable.create, itertools.count(1)

    def make_table(*arguments: Any, **more: Any) -> DeltaTable:
        table = make(*arguments, **more)
        if table.version() == 0 and next(made) == count:
            raise SystemExit(9)
        return table

    return make_table


def test_a_run_that_ended_after_any_of_its_tables_was_made_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where it is killed there: some of the tables are there, and the others are not."""
    segment = Segment(name=f"{STREAM}/0.#epoch.0")
    grow(tmp_path / "unused", segment, 0)
    address = store(tmp_path / "store", segment)
    for last in itertools.count(1):
        directory = tmp_path / f"tables{last}"
        run = ["run", "--from", address, "--to", str(directory), "--once", "--silver"]
        with monkeypatch.context() as patched:
            patched.setattr(DeltaTable, "create", making_at_most(last))
            ended = CliRunner().invoke(pipeline, run)
        call(*run)
        assert silver_rows(directory) == bronze_rows(directory) == bronze_rows(tmp_path / "unused")
        if ended.exit_code == 0:
            break
        assert ended.exit_code == 9
    assert last > 4


def test_a_run_says_what_it_quarantined_by_format_and_reason(tmp_path: Path) -> None:
    segment = Segment(name=f"{STREAM}/0.#epoch.0")
    grow(tmp_path / "unused", segment, 0)
    address = store(tmp_path / "store", segment)
    ran = call("run", "--from", address, "--to", tmp_path / "tables", "--once", "--silver")
    rows = read(tmp_path / "tables", "quarantine")
    reasons = dict(zip(rows["format"].to_pylist(), rows["reason"].to_pylist(), strict=True))
    (line,) = (line for line in ran.stderr.splitlines() if "quarantine" in line)
    assert "rows=2" in line
    assert f"access: {reasons['access']} (1)" in line
    assert f"bronze: {reasons[None]} (1)" in line
