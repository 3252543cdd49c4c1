"""Commands of the pipeline that are killed before any one of their operations on files: run again,
they do the rest (A1, A2, A3).

Random kills seldom hit what takes a millisecond, such as the making of one table after another.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from logdrive.cli.pipeline import pipeline
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.silver.balance import silver_balance
from logdrive.pipeline.tables.join_files import JOIN_FILES
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.gold.counted import check, count
from tests.logdrive.pipeline.segments import STREAM, Segment, lines
from tests.logdrive.pipeline.silver.filled import bronze_rows, fill, grow, silver_rows
from tests.logdrive.pipeline.storing import store
from tests.support.installation import command
from tests.support.killing.before_operation import Killer

pytestmark = [pytest.mark.thorough, pytest.mark.process, pytest.mark.timeout(900)]


class Everywhere:
    """Kills a command everywhere, each time in a copy of the same tables."""

    def __init__(self, root: Path) -> None:
        self.begun = root / "begun"  # tables as they are before, if there are any
        self.whole = root / "whole"  # as they are where nothing is killed
        self._root, self._killer = root, Killer(root)

    def run(self, call: list[str], judge: Callable[[Path], None], least: int) -> None:
        """Kill `pipeline` with the arguments *call*, of which "DIR" is the tables' place.

        Then *judge* is called with that. There must be at least *least* places to kill it at.
        """
        operations = self._killer.list_operations(*self._prepare(call, self.whole.name))
        judge(self.whole)
        failed, killed = [], 0
        for operation in operations:
            name = f"killed-{operation.number}"
            killed += self._killer.run_until(*self._prepare(call, name), operation)
            try:
                judge(self._root / name)
            except Exception as error:
                failed.append(f"{operation}: {error!r}")
            shutil.rmtree(self._root / name, ignore_errors=True)
        assert not failed, "\n".join(failed)
        assert killed >= least

    def _prepare(self, call: list[str], name: str) -> tuple[list[str], Path]:
        place = self._root / name
        if self.begun.exists():
            shutil.copytree(self.begun, place)
        return command("pipeline", *placed(call, place)), place


def placed(call: list[str], place: Path) -> list[str]:
    """Return the arguments *call*, with *place* for "DIR"."""
    return [str(place) if each == "DIR" else each for each in call]


@pytest.fixture
def everywhere(tmp_path: Path) -> Everywhere:
    return Everywhere(tmp_path)


def run_again(call: list[str], place: Path) -> None:
    ended = CliRunner().invoke(pipeline, placed(call, place))
    assert ended.exception is None, (ended.exception, ended.output)


def require_all(place: Path, expected: Path) -> None:
    """Demand the bronze rows of *expected* in bronze and silver, each once."""
    assert bronze_rows(place) == bronze_rows(expected)
    assert silver_rows(place) == bronze_rows(place)
    verdict = audit(str(place), full=True)
    assert verdict.complete, verdict
    balance = silver_balance(str(place))
    assert balance is not None
    assert (balance.adds_up, balance.waiting) == (True, 0)


@pytest.fixture
def address(everywhere: Everywhere, tmp_path: Path) -> str:
    """A stream, with what the tables in `expected` have."""
    segment = Segment(name=f"{STREAM}/0.#epoch.0")
    grow(tmp_path / "expected", segment, 0)
    return store(tmp_path / "store", segment)


@pytest.fixture
def filled(everywhere: Everywhere, tmp_path: Path) -> Path:
    """Tables of a run, in which the command begins."""
    grow(everywhere.begun, Segment(), 0)
    fill(everywhere.begun)
    shutil.copytree(everywhere.begun, tmp_path / "expected")
    return everywhere.begun


def kill_runs(
    everywhere: Everywhere, address: str, expected: Path, least: int, *, gold: bool = False
) -> None:
    """Kill `run --silver` everywhere; a second run must do the rest of what *expected* has.

    With *gold* it is `run --silver --gold`.
    """
    call = ["run", "--from", address, "--to", "DIR", "--once", "--silver"]
    call += ["--gold"] if gold else []

    def judge(place: Path) -> None:
        run_again(call, place)
        require_all(place, expected)
        if gold:
            check(place)

    everywhere.run(call, judge, least)


def test_a_first_run_killed_anywhere_goes_on(
    everywhere: Everywhere, tmp_path: Path, address: str
) -> None:
    kill_runs(everywhere, address, tmp_path / "expected", least=90, gold=True)


def test_a_run_killed_anywhere_while_it_joins_files_goes_on(
    everywhere: Everywhere, tmp_path: Path
) -> None:
    segment, end = Segment(name=f"{STREAM}/0.#epoch.0"), 0
    for turn in range(JOIN_FILES + 1):
        end = send(segment, "app", lines("app", turn, 1), end)
        if turn < JOIN_FILES:
            catch_up(everywhere.begun, segment)
            fill(everywhere.begun)
    address = store(tmp_path / "store", segment)
    catch_up(tmp_path / "expected", segment)
    kill_runs(everywhere, address, tmp_path / "expected", least=30)
    assert len(open_tables(str(everywhere.whole))[0].files) < JOIN_FILES


def test_a_backfill_killed_anywhere_goes_on(
    everywhere: Everywhere, tmp_path: Path, address: str
) -> None:
    run_again(
        ["run", "--from", address, "--to", "DIR", "--once", "--start", "1h"], everywhere.begun
    )
    call = ["backfill", "--from", address, "--to", "DIR"]

    def judge(place: Path) -> None:
        run_again(call, place)
        fill(place)
        require_all(place, tmp_path / "expected")

    everywhere.run(call, judge, least=20)


def test_a_rebuild_of_bronze_killed_anywhere_goes_on(
    everywhere: Everywhere, tmp_path: Path, address: str
) -> None:
    call = ["rebuild", "DIR", "--table", "bronze", "--from", address]
    run_again(["run", "--from", address, "--to", "DIR", "--once", "--silver"], everywhere.begun)

    def judge(place: Path) -> None:
        run_again(call, place)
        run_again(["rebuild", "DIR", "--table", "silver"], place)
        require_all(place, tmp_path / "expected")

    everywhere.run(call, judge, least=20)


@pytest.mark.usefixtures("filled")
def test_a_rebuild_of_silver_killed_anywhere_goes_on_with_silver(
    everywhere: Everywhere, tmp_path: Path
) -> None:
    def judge(place: Path) -> None:
        assert audit(str(place)).complete
        run_again(["silver", "DIR", "--once"], place)
        require_all(place, tmp_path / "expected")

    everywhere.run(["rebuild", "DIR", "--table", "silver"], judge, least=30)


@pytest.mark.usefixtures("filled")
def test_gold_killed_anywhere_counts_each_row_once(everywhere: Everywhere) -> None:
    def judge(place: Path) -> None:
        run_again(["gold", "DIR", "--once"], place)
        check(place)

    everywhere.run(["gold", "DIR", "--once"], judge, least=30)


def test_an_erasure_killed_anywhere_is_finished_by_the_next(
    everywhere: Everywhere, filled: Path
) -> None:
    count(filled)
    erase = ["erase", "DIR", "--where", "message LIKE '%/7 %'", "--yes"]

    def judge(place: Path) -> None:
        assert audit(str(place)).complete
        run_again(erase, place)
        assert not [path for path in place.rglob("*.parquet") if holds(path, "/7 ")]
        assert silver_rows(place) == bronze_rows(place)
        verdict = audit(str(place), full=True)
        assert (verdict.complete, verdict.unfinished_erasure) == (True, None)
        assert [one.rows for one in verdict.erasures] == [1]
        count(place)
        check(place)

    everywhere.run(erase, judge, least=40)


def holds(path: Path, text: str) -> bool:
    """Return whether the file of a table at *path* has *text* in a message."""
    if path.stat().st_size < len("PAR1"):  # left by the kill: nothing names it
        return False
    rows = pq.ParquetFile(path).read()
    return "message" in rows.column_names and text in str(rows["message"].to_pylist())
