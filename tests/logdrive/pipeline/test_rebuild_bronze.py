"""Bronze made anew from its stream, in place of the old tables: interrupted and repeated, and
refused where something would be lost.
"""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from logdrive.cli.main import cli
from logdrive.errors import StorageError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.erase import ErasedCounts, erase_rows
from logdrive.pipeline.plan import Plan, RunResult
from logdrive.pipeline.rebuild_bronze import RebuiltBronze, check_rebuild, rebuild_bronze
from logdrive.pipeline.run import run_pipeline
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment, lines
from tests.logdrive.pipeline.storing import cut_off, store

_TURNS = 12


def _segment(name: str = SEGMENT) -> Segment:
    segment, at = Segment(name=name), 0
    for turn in range(_TURNS):
        at = send(segment, "a", lines("a", turn * 50, 50), at)
    return segment


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A store with a stream, and tables of it."""
    uri = store(tmp_path / "store", _segment())
    planned = Plan(
        uri=uri, directory=str(tmp_path / "tables"), once=True, max_bytes_per_batch=5000, reader=""
    )
    run_pipeline(planned, threading.Event())
    return planned


def _rebuild(plan: Plan, stop: threading.Event | None = None, stop_after: int = 0) -> RebuiltBronze:
    stop = stop or threading.Event()

    def on_commit(so_far: RunResult) -> None:
        if so_far.micro_batches == stop_after:
            stop.set()

    return rebuild_bronze(plan, stop, SystemDisk(), on_commit)


def _check(plan: Plan, rows: int = _TURNS * 50) -> None:
    verdict = audit(plan.directory)
    assert verdict.complete, verdict.faults
    assert verdict.events == rows
    left = {name for name in os.listdir(plan.directory) if name.startswith("bronze")}
    assert left == {"bronze"}


def _table_id(plan: Plan) -> str:
    return open_tables(plan.directory)[0].table_id


def test_new_tables_have_all_lines_and_take_the_place_of_the_old_ones(plan: Plan) -> None:
    before = _table_id(plan)
    done = _rebuild(plan)
    assert (done.swapped, done.events) == (True, _TURNS * 50)
    assert _table_id(plan) != before
    _check(plan)
    assert run_pipeline(plan, threading.Event()) == RunResult()


def test_a_rebuild_that_is_stopped_leaves_the_old_tables_and_goes_on_later(plan: Plan) -> None:
    before = _table_id(plan)
    done = _rebuild(plan, stop_after=1)
    assert not done.swapped
    assert 0 < done.events < _TURNS * 50
    assert _table_id(plan) == before
    rest = _rebuild(plan)
    assert rest.swapped
    assert rest.events == _TURNS * 50 - done.events
    _check(plan)


def test_what_comes_while_it_runs_is_in_the_new_tables_too(tmp_path: Path, plan: Plan) -> None:
    _rebuild(plan, stop_after=1)
    grown = _segment()
    send(grown, "a", lines("a", _TURNS * 50, 50), len(lines("a", 0, _TURNS * 50)))
    store(tmp_path / "store", grown)
    run_pipeline(plan, threading.Event())
    assert _rebuild(plan).swapped
    _check(plan, (_TURNS + 1) * 50)


@pytest.mark.parametrize("point", ["pipeline.commit.between", "pipeline.rebuild.between"])
def test_a_rebuild_that_is_killed_is_finished_by_the_next_one(point: str, plan: Plan) -> None:
    command = [sys.executable, "-m", "logdrive.cli.main", "pipeline", "rebuild", plan.directory]
    arguments = [*command, "--table", "bronze", "--from", plan.uri]
    environ = os.environ | {"LOGDRIVE_FAULT": point}
    killed = subprocess.run(arguments, env=environ, timeout=120, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert _rebuild(plan).swapped
    _check(plan)


def test_new_tables_of_another_stream_are_begun_again(tmp_path: Path, plan: Plan) -> None:
    other = store(tmp_path / "other", _segment("logs/other/0.#epoch.0")).replace(
        STREAM, "logs/other"
    )
    mixed = replace(plan, uri=other, directory=os.path.join(plan.directory, "bronze.new"))
    run_pipeline(mixed, threading.Event())
    assert _rebuild(plan).swapped
    _check(plan)


def test_it_is_refused_where_retention_has_removed_what_the_tables_have(
    tmp_path: Path, plan: Plan
) -> None:
    from logdrive.pipeline.decode.batches import walk_batches

    second = [batch.offset for batch in walk_batches(SEGMENT, 0, bytes(_segment().data))][1]
    cut_off(tmp_path / "store", SEGMENT, second)
    before = _table_id(plan)
    with pytest.raises(StorageError, match="a rebuild would lose the rest"):
        _rebuild(plan)
    assert _table_id(plan) == before
    _check(plan)


def test_it_is_refused_where_lines_were_erased(plan: Plan) -> None:
    erase_rows(
        plan.directory,
        "message LIKE 'a line 7 %'",
        by="test",
        why=None,
        clock=SystemClock(),
        disk=SystemDisk(),
    )
    with pytest.raises(StorageError, match="would bring them back"):
        check_rebuild(plan)


def _erase(plan: Plan, where: str) -> ErasedCounts:
    return erase_rows(
        plan.directory, where, by="test", why=None, clock=SystemClock(), disk=SystemDisk()
    )


def _interrupted(plan: Plan) -> Path:
    """Stop a rebuild amid its work; return where its new tables are."""
    _rebuild(plan, stop_after=1)
    new = Path(plan.directory, "bronze.new")
    assert new.is_dir()
    return new


def test_an_erasure_deletes_what_an_interrupted_rebuild_has_made(plan: Plan) -> None:
    new = _interrupted(plan)
    command = ["pipeline", "erase", plan.directory, "--where", "message LIKE 'a line 7 %'"]
    dry = CliRunner().invoke(cli, [*command, "--dry-run"])
    assert "bronze.new would be deleted" in dry.output
    assert new.is_dir()
    done = CliRunner().invoke(cli, [*command, "--yes"])
    assert done.exit_code == 0, done.output
    assert "bronze.new deleted" in done.output
    _check(plan)


def test_an_erasure_that_matches_nothing_leaves_a_rebuild_to_go_on(plan: Plan) -> None:
    _interrupted(plan)
    assert not _erase(plan, "message = 'no such line'").leftovers
    assert _rebuild(plan).swapped
    _check(plan)


def test_what_was_left_before_an_earlier_erasure_goes_with_the_next_one(plan: Plan) -> None:
    new = _interrupted(plan)
    kept = new.rename(f"{new}-kept")
    _erase(plan, "message LIKE 'a line 7 %'")
    kept.rename(new)
    assert list(_erase(plan, "message = 'no such line'").leftovers) == ["bronze.new"]
    _check(plan)


def test_nothing_is_erased_while_a_rebuild_runs(plan: Plan) -> None:
    refused = []

    def on_commit(_: RunResult) -> None:
        with pytest.raises(StorageError, match="in use by a rebuild of bronze") as caught:
            _erase(plan, "message LIKE 'a line 7 %'")
        refused.append(caught.value)

    assert rebuild_bronze(plan, threading.Event(), SystemDisk(), on_commit).swapped
    assert refused
    _check(plan)


def test_tables_that_another_pipeline_fills_are_not_replaced(plan: Plan) -> None:
    before = _table_id(plan)
    with (
        Bronze(plan.directory, clock=SystemClock(), disk=SystemDisk()),
        pytest.raises(StorageError, match="in use by another pipeline"),
    ):
        _rebuild(plan)
    assert _table_id(plan) == before
    assert _rebuild(plan).swapped


def test_the_command_says_what_it_would_do_and_does_it(plan: Plan) -> None:
    command = ["pipeline", "rebuild", plan.directory, "--table", "bronze"]
    before = _table_id(plan)
    dry = CliRunner().invoke(cli, [*command, "--from", plan.uri, "--dry-run"])
    assert dry.exit_code == 0
    assert f"would read {len(_segment().data):,} bytes" in dry.output
    assert _table_id(plan) == before
    assert CliRunner().invoke(cli, command).exit_code == 2  # which stream?
    done = CliRunner().invoke(cli, [*command, "--from", plan.uri, "--json"])
    assert done.exit_code == 0, done.output
    assert '"swapped":true' in done.output.replace(" ", "")
    _check(plan)
