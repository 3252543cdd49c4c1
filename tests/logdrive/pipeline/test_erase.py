"""Erased lines are in no table and no file, and the audit stays complete and says so."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from logdrive.cli.pipeline import pipeline
from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.audit.text import verdict_line
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.erase import ErasedCounts, erase_rows
from logdrive.pipeline.gold.writer import Gold
from logdrive.pipeline.report.page import render_report
from logdrive.pipeline.silver.balance import silver_balance
from logdrive.pipeline.silver.rebuild import drop_silver
from tests.logdrive.pipeline.crashing import crashing_at
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.gold.counted import count, counted_lines, expected_lines
from tests.logdrive.pipeline.segments import Segment, lines, source_id
from tests.logdrive.pipeline.silver.filled import (
    access_lines,
    bronze_rows,
    fill,
    foreign,
    silver_rows,
)

SECRET = b"4111111111111111"
WHERE = f"message LIKE '%{SECRET.decode()}%'"


def erase(directory: Path, where: str = WHERE) -> ErasedCounts:
    return erase_rows(
        str(directory), where, by="ann", why="ticket 17", clock=SystemClock(), disk=SystemDisk()
    )


def grow(directory: Path, segment: Segment) -> None:
    """Add lines with the secret in access, text, quarantine and a foreign peer's event."""
    web = access_lines(0, 30) + b"broken " + SECRET + b"\n" + access_lines(30, 30)
    card = access_lines(7, 1).replace(b"/7 ", b"/pay/" + SECRET + b" ")
    send(segment, "web", web + card)
    send(segment, "app", lines("app", 0, 30) + b"paid with " + SECRET + b"\n" + lines("app", 30, 9))
    foreign(
        segment,
        [
            {
                "message": f"card {SECRET.decode()}",
                "@timestamp": "2026-11-23T00:00:00Z",
                "log": {"offset": 5, "file": {"path": "/var/log/pay.log"}},
            }
        ],
    )
    catch_up(directory, segment)


def files_with_secret(directory: Path) -> list[str]:
    """Return files that show the secret, when read or as they are."""
    found = [
        str(path) for path in directory.rglob("*") if path.is_file() and SECRET in path.read_bytes()
    ]
    for log in directory.rglob("_delta_log"):
        rows = DeltaTable(str(log.parent)).to_pyarrow_table().to_pylist()
        found += [str(log) for row in rows if SECRET.decode() in str(row)]
    return found


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    grow(tmp_path, Segment())
    fill(tmp_path)
    return tmp_path


def test_erased_lines_are_in_no_table_and_the_audit_stays_complete(tables: Path) -> None:
    assert files_with_secret(tables)
    before = audit(str(tables))
    assert before.complete

    done = erase(tables)
    assert (done.rows, done.sources) == (4, 3)
    assert done.tables == {
        "bronze/events": 4,
        "silver/access": 1,
        "silver/quarantine": 1,
        "silver/sent": 1,
        "silver/text": 2,
    }
    assert files_with_secret(tables) == []
    assert silver_rows(tables) == bronze_rows(tables)

    after = audit(str(tables))
    assert after.complete, after.faults
    assert (after.lines, after.bytes) == (before.lines, before.bytes)
    assert "4 rows of these erased at " in verdict_line(after)
    assert " by ann (ticket 17)" in verdict_line(after)


def test_silver_goes_on_after_an_erasure(tables: Path) -> None:
    erase(tables)
    segment = Segment()
    grow(tables / "unused", segment)
    send(
        segment,
        "app",
        lines("app", 39, 5),
        sum(len(one) for one in (lines("app", 0, 39), b"paid with ", SECRET, b"\n")),
    )
    catch_up(tables, segment)
    assert sum(step.bronze for step in fill(tables)) == 5
    assert silver_rows(tables) == bronze_rows(tables)
    balance = silver_balance(str(tables))
    assert balance is not None
    assert balance.adds_up


def test_bronze_is_judged_while_silver_is_made_anew_after_an_erasure(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase(tables)
    drop_silver(str(tables), SystemDisk())
    with crashing_at("pipeline.silver.after_files", monkeypatch):
        fill(tables)

    said = CliRunner().invoke(pipeline, ["audit", str(tables)], standalone_mode=False)
    assert said.return_value == 0, said.output
    assert "silver is being made anew, and not compared yet" in said.output
    assert "`logdrive pipeline silver DIR --once` goes on" in said.output
    assert "They are being made anew" in render_report(str(tables), audit(str(tables)))
    fill(tables)
    balance = silver_balance(str(tables))
    assert balance is not None
    assert balance.version is not None
    assert balance.adds_up


@pytest.mark.parametrize(
    "point", [point for point in faults.POINTS if point.startswith("pipeline.erase.")]
)
def test_an_erasure_that_crashed_is_finished_by_the_next(
    tables: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    with crashing_at(point, monkeypatch):
        erase(tables)
    begun = audit(str(tables))
    assert begun.complete, "at any moment"
    assert begun.unfinished_erasure is not None
    assert begun.unfinished_erasure.rows == 4
    done = erase(tables, "message = 'no such line'")
    assert (done.rows, done.finished) == (0, begun.unfinished_erasure)
    assert files_with_secret(tables) == []
    assert silver_rows(tables) == bronze_rows(tables)
    verdict = audit(str(tables))
    assert verdict.complete
    assert [one.rows for one in verdict.erasures] == [4]
    assert verdict.unfinished_erasure is None


def test_an_interrupted_erasure_is_told_until_it_is_finished(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silver is not blamed for rows that are on their way out of it."""

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(
            pipeline, [*arguments[:1], str(tables), *arguments[1:]], standalone_mode=False
        )

    other = ("erase", "--where", "message = 'no such line'", "--yes")
    # between bronze and silver
    with crashing_at("pipeline.erase.between_tables", monkeypatch):
        erase(tables)
    judged = call("audit")
    assert judged.return_value == 1
    assert "AN ERASURE OF 4 rows at " in judged.output
    assert "ADD UP" not in judged.output
    assert json.loads(call("audit", "--json").output)["unfinished_erasure"]["rows"] == 4
    shown = render_report(str(tables), audit(str(tables)))
    assert "They can't be compared with bronze: they may still have rows of an erasure" in shown
    said = dry_run(tables)
    assert said.startswith("0 rows of 0 sources would be erased\nthe erasure of 4 rows at ")
    assert "which was interrupted, would be finished" in said
    finished = call(*other)
    assert "by ann (ticket 17), which was interrupted, is finished\n" in finished.output
    assert "  bronze/events: " not in finished.output, "its rows were gone from there"
    assert "  silver/text: 2\n" in finished.output
    assert call("audit").return_value == 0
    assert files_with_secret(tables) == []


def test_tables_with_lines_that_silver_lacks_are_refused(tables: Path) -> None:
    segment = Segment()
    grow(tables / "unused", segment)
    send(segment, "new", lines("new", 0, 5))
    catch_up(tables, segment)
    with pytest.raises(StorageError, match="pipeline silver DIR --once"):
        erase(tables)


def test_bronze_alone_is_erased_from_and_a_first_fill_follows(tmp_path: Path) -> None:
    grow(tmp_path, Segment())
    assert erase(tmp_path).tables == {"bronze/events": 4}
    assert files_with_secret(tmp_path) == []
    fill(tmp_path)
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)
    assert audit(str(tmp_path)).complete


def test_what_is_left_of_a_file_is_printed_and_the_rest_named(tables: Path) -> None:
    erase(tables)
    result = CliRunner().invoke(
        pipeline, ["cat", str(tables), "/var/log/app.log"], standalone_mode=False
    )
    assert result.return_value == 1
    assert result.stdout_bytes == lines("app", 0, 39)
    start = len(lines("app", 0, 30))
    gone = f"bytes {start} to {start + len(b'paid with ' + SECRET) + 1}: erased by ann (ticket 17)"
    assert gone in result.stderr


def test_a_whole_source_can_be_erased(tables: Path) -> None:
    done = erase(tables, "path = '/var/log/app.log'")
    assert done.rows == 40
    verdict = audit(str(tables))
    assert verdict.complete


def test_the_command_says_what_it_would_do_and_does_it(tables: Path) -> None:
    def call(*more: str) -> str:
        result = CliRunner().invoke(pipeline, ["erase", str(tables), "--where", WHERE, *more])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "4 rows of 3 sources would be erased" in call("--dry-run")
    assert files_with_secret(tables)
    assert "silver/quarantine: 1" in call("--yes")
    assert files_with_secret(tables) == []

    wrong = CliRunner().invoke(pipeline, ["erase", str(tables), "--where", "mesage = 1"])
    assert wrong.exit_code == 2
    assert "mesage" in wrong.output


def dry_run(tables: Path, *more: str) -> str:
    """Return what a dry run prints, which changes nothing."""
    before = files_of_bronze(tables)
    arguments = ["erase", str(tables), "--where", WHERE, "--dry-run", *more]
    result = CliRunner().invoke(pipeline, arguments)
    assert result.exit_code == 0, result.output
    assert files_of_bronze(tables) == before
    return result.stdout


def test_a_dry_run_shows_the_files_and_some_of_the_lines(tables: Path) -> None:
    said = dry_run(tables, "--samples", "3").splitlines()
    source = source_id("web")
    assert said[:2] == [
        "4 rows of 3 sources would be erased",
        f"  2 of /var/log/web.log on web-1, source {source}",
    ]
    assert sorted(line.split(",")[0] for line in said[2:4]) == [
        "  1 of /var/log/app.log on web-1",
        "  1 of /var/log/pay.log on web-1",
    ]
    assert said[4] == "3 of these 4 rows, each cut to 160 characters (--samples N for more):"
    assert (
        said[5] == f"  /var/log/web.log at {len(access_lines(0, 30)):,}: broken {SECRET.decode()}"
    )
    assert len(said) == 8
    assert all(SECRET.decode() in line for line in said[5:])
    assert len(dry_run(tables, "--samples", "0").splitlines()) == 4


def test_a_dry_run_for_machines_has_all_files_and_whole_lines(tables: Path) -> None:
    said = json.loads(dry_run(tables, "--json"))
    assert (said["rows"], said["sources"]) == (4, 3)
    assert sum(file["rows"] for file in said["files"]) == 4
    assert len(said["samples"]) == 4
    assert {line["message"] for line in said["samples"]} > {f"card {SECRET.decode()}"}


def test_a_long_line_of_a_dry_run_is_cut_and_can_t_control_a_terminal(tmp_path: Path) -> None:
    send(segment := Segment(), "a", b"\x1b[2J" + SECRET + b"x" * 500 + b"\n")
    catch_up(tmp_path, segment)
    line = dry_run(tmp_path).splitlines()[-1]
    assert line.isprintable()
    assert line.endswith("x…")
    assert len(line) == len("  /var/log/a.log at 0: ") + 161


@pytest.mark.parametrize(
    "where",
    [
        "1/0=1",
        "start/0=1",
        "cast(message as int)=1",
        "to_timestamp('zz') < received",
        "start",
        "path like '%java.log') or (1=1",
    ],
)
def test_a_condition_that_can_t_be_answered_erases_nothing(tables: Path, where: str) -> None:
    before = files_of_bronze(tables)
    wrong = CliRunner().invoke(pipeline, ["erase", str(tables), "--where", where, "--yes"])
    assert wrong.exit_code in (0, 2), wrong.output
    assert not isinstance(wrong.exception, Exception) or isinstance(wrong.exception, SystemExit)
    assert files_of_bronze(tables) == before


def files_of_bronze(tables: Path) -> list[str]:
    return sorted(open_tables(str(tables))[0].files)


def test_what_interrupted_commands_have_left_is_deleted_too(tables: Path) -> None:
    shutil.copytree(tables / "silver", tables / "silver.dropped")
    shutil.copytree(tables / "bronze", tables / "bronze.old")
    killed = tables / "silver" / "json" / "day=2026-11-23"  # a step, before its table was made
    killed.mkdir(parents=True)
    shutil.copy(open_tables(str(tables))[0].files[0], killed / "part-1.parquet")
    left = ["bronze.old", "silver.dropped", "silver/json"]
    assert json.loads(dry_run(tables, "--json"))["leftovers"] == left
    assert erase(tables).leftovers == left
    assert not [name for name in left if (tables / name).exists()]
    assert files_with_secret(tables) == []
    assert silver_rows(tables) == bronze_rows(tables)


def test_gold_keeps_no_value_of_erased_lines(tmp_path: Path) -> None:
    segment = Segment()
    grow(tmp_path, segment)
    failed = b"2026-01-02 12:00:00,000 ERROR [main] shop.Cart: no card " + SECRET
    send(segment, "shop", failed + b"\njava.io.IOException: x\n\tat shop.Cart.pay(Cart.java:1)\n")
    catch_up(tmp_path, segment)
    fill(tmp_path)
    count(tmp_path)
    assert [name for name in files_with_secret(tmp_path) if "/gold/" in name]

    assert erase(tmp_path).gold
    assert not files_with_secret(tmp_path)
    count(tmp_path)
    assert counted_lines(tmp_path) == expected_lines(tmp_path)
    assert not files_with_secret(tmp_path)


def test_nothing_is_erased_while_gold_is_filled(tables: Path) -> None:
    count(tables)
    with (
        Gold(str(tables), disk=SystemDisk()),
        pytest.raises(StorageError, match="gold is in use by another pipeline: stop it"),
    ):
        erase(tables)
    assert not DeltaTable.is_deltatable(str(tables / "bronze" / "erased"))


def test_no_file_keeps_an_erased_value_in_a_dictionary(tables: Path) -> None:
    def paths() -> set[str]:
        """Return what the dictionaries of bronze's files have for `path`."""
        found: set[str] = set()
        for name in DeltaTable(str(tables / "bronze" / "events")).file_uris():
            rows = pq.read_table(
                name, columns=["path"], read_dictionary=["path"], partitioning=None
            )
            for chunk in rows["path"].chunks:
                found.update(chunk.dictionary.to_pylist())
        return found

    assert "/var/log/pay.log" in paths()
    erase(tables, "path = '/var/log/pay.log'")
    assert "/var/log/pay.log" not in paths()
