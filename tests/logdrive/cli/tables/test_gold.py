"""`pipeline run --gold` as a user meets it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from logdrive.cli import pipeline_progress
from logdrive.cli.pipeline import pipeline
from logdrive.errors import ConfigError
from logdrive.pipeline.gold.read import has_gold, read_gold
from logdrive.pipeline.gold.schema import GOLD_KEYS, MINUTES
from tests.logdrive.pipeline.crashing import crashing_at
from tests.logdrive.pipeline.gold.counted import check, total
from tests.logdrive.pipeline.segments import STREAM, Segment
from tests.logdrive.pipeline.silver.filled import bronze_rows, grow, silver_rows
from tests.logdrive.pipeline.storing import store
from tests.support.installation import Process


def call(*arguments: object) -> Result:
    result = CliRunner().invoke(pipeline, [str(each) for each in arguments])
    assert result.exception is None, result.output
    return result


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Where they are to be."""
    return tmp_path / "tables"


@pytest.fixture
def add(tmp_path: Path) -> Callable[[], str]:
    """What adds lines to the stream, and returns its address."""
    segment, parts = Segment(name=f"{STREAM}/0.#epoch.0"), iter(range(100))

    def add_part() -> str:
        grow(tmp_path / "unused", segment, next(parts))
        return store(tmp_path / "store", segment)

    return add_part


def all_rows(tables: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each gold table, in the order of their keys."""
    found = {}
    for name, keys in GOLD_KEYS.items():
        rows = read_gold(str(tables), name)
        found[name] = rows.sort_by([(key, "ascending") for key in keys]).to_pylist()
    return found


def test_a_run_counts_what_gold_by_itself_does(tables: Path, add: Callable[[], str]) -> None:
    for _ in range(2):
        run = ("run", "--from", add(), "--to", tables, "--once", "--silver", "--gold")
        said = call(*run).stdout.splitlines()
        assert said[2] == "gold: 97 lines counted"
    counted = all_rows(tables)
    assert silver_rows(tables) == bronze_rows(tables)
    check(tables)
    assert json.loads(call("gold", tables, "--once", "--json").stdout)["lines"] == 0
    call("rebuild", tables, "--table", "gold")
    assert all_rows(tables) == counted
    assert json.loads(call(*run, "--json").stdout)["gold"] == {"steps": 0, "lines": 0, "rows": 0}


def test_a_run_counts_what_silver_had_before_and_says_so_if_that_is_much(
    tables: Path, add: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("run", "--from", add(), "--to", tables, "--once", "--silver")
    call(*run)
    assert not has_gold(str(tables))
    monkeypatch.setattr(pipeline_progress, "_MANY_ROWS", 96)
    told = 'event="gold counts what silver has before more is read"'
    assert f"{told} rows=97\n" in call(*run, "--gold").stderr
    assert told not in call(*run, "--gold").stderr
    check(tables)


@pytest.mark.parametrize(
    "point",
    ["pipeline.silver.after_tables", "pipeline.gold.before_commit", "pipeline.gold.after_commit"],
)
def test_a_run_killed_between_silver_and_gold_has_each_count_once_when_it_is_run_again(
    tables: Path, add: Callable[[], str], monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    run = ("--to", tables, "--once", "--silver", "--gold")
    call("run", "--from", add(), *run)
    address = add()
    with crashing_at(point, monkeypatch):
        call("run", "--from", address, *run)
    assert silver_rows(tables) == bronze_rows(tables)
    with pytest.raises(AssertionError):
        check(tables)  # some of gold's tables, or all, are behind
    call("run", "--from", add(), *run)
    assert silver_rows(tables) == bronze_rows(tables)
    check(tables)


def test_gold_without_silver_is_refused_with_key_and_remedy(
    tmp_path: Path, tables: Path, add: Callable[[], str]
) -> None:
    address = add()
    run = ["run", "--from", address, "--to", str(tables), "--once", "--gold"]
    refused = CliRunner().invoke(pipeline, run)
    assert refused.exit_code == 2
    assert "give --silver, too" in refused.stderr

    config = tmp_path / "pipeline.toml"
    config.write_text(f'[pipeline]\nfrom = "{address}"\nto = "{tables}"\n[gold]\nenabled = true\n')
    refused = CliRunner().invoke(pipeline, ["run", "--config", str(config), "--once"])
    assert isinstance(refused.exception, ConfigError)
    assert str(refused.exception) == (
        f"{config}: gold.enabled = true: gold counts what silver has: write silver.enabled = true, "
        "or give --silver"
    )
    assert not tables.exists()
    call("run", "--config", config, "--once", "--silver")
    check(tables)


@pytest.mark.process
def test_a_run_that_follows_counts_beside_the_stream_until_it_is_stopped(
    tmp_path: Path, tables: Path, add: Callable[[], str]
) -> None:
    config = tmp_path / "pipeline.toml"
    config.write_text(
        f'[pipeline]\nfrom = "{add()}"\nto = "{tables}"\n'
        "[silver]\nenabled = true\n[gold]\nenabled = true\n"
    )
    run = ["pipeline", "run", "--config", str(config)]
    process = Process("pipeline", run, tmp_path / "pipeline.out")
    try:
        until = time.monotonic() + 60
        while not (has_gold(str(tables)) and total(tables, MINUTES) == 97):
            assert time.monotonic() < until, process.said()
            assert process.running(), process.said()
            time.sleep(0.05)
        assert process.terminate(60) == 0, process.said()
    finally:
        process.kill()
    check(tables)
