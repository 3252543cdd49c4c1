"""Commands on tables: what they need, and how they end."""

import errno
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from logdrive.cli.main import cli
from logdrive.cli.tables.balance import balance_tables
from logdrive.pipeline.silver.balance import count_sources
from logdrive.pipeline.tables.open_table import open_table_as_it_is
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines, source_id
from tests.logdrive.pipeline.silver.filled import fill


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Complete tables of one source."""
    segment = Segment()
    send(segment, "a", lines("a", 0, 9))
    catch_up(tmp_path, segment)
    return str(tmp_path)


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments",
    [("audit",), ("report", "--out", "report.html"), ("cat", source_id("a"))],
    ids=lambda value: value[0],
)
def test_neither_spark_nor_java_is_needed_to_read_tables(
    directory: str, arguments: tuple[str, ...]
) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; sys.argv[0] = 'logdrive'\n"
        "from logdrive.cli.main import main; main()"
    )
    name, *more = arguments
    done = subprocess.run(
        [sys.executable, "-c", code, "pipeline", name, directory, *more],
        capture_output=True,
        timeout=120,
        cwd=directory,
        env={"PATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""


def test_a_master_is_refused_where_no_spark_would_ask_it(directory: str) -> None:
    done = CliRunner().invoke(cli, ["pipeline", "audit", directory, "--master", "spark://x:7077"])
    assert done.exit_code == 2
    assert "give --master with --engine spark only" in done.output


def audited(directory: str, *options: str) -> tuple[int, str]:
    """Return how an audit ends, and what it prints."""
    done = CliRunner().invoke(
        cli, ["pipeline", "audit", directory, *options], standalone_mode=False
    )
    return done.return_value, done.stdout


def test_an_audit_says_how_many_files_it_has_read_and_how_many_were_known(directory: str) -> None:
    code, said = audited(directory)
    assert (code, "files read" in said) == (0, False)
    assert "\n0 files read, 1 known from earlier audits\n" in f"\n{audited(directory)[1]}"
    assert "files read" not in audited(directory, "--full")[1]
    printed = json.loads(audited(directory, "--json")[1])
    assert (printed["files_read"], printed["files_known"]) == (0, 1)


def test_tables_that_may_not_be_written_are_audited_and_nothing_is_kept(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("logdrive.pipeline.audit.sealed_file.write_atomically", refuse)
    code, said = audited(directory)
    assert code == 0
    assert said.startswith("1 file read; what was read can't be kept: ")
    assert said.splitlines()[-1].startswith("complete: ")


def rows_of_silver(directory: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Put other rows into the largest file of the silver table `text`, behind its back."""
    files = open_table_as_it_is(f"{directory}/silver/text").files
    path = max(files, key=lambda path: pq.read_metadata(path).num_rows)
    pq.write_table(change(pq.ParquetFile(path).read()), path, store_schema=False)


@pytest.mark.parametrize(
    ("change", "said", "missing"),
    [
        (lambda rows: rows, "silver adds up: 9 rows of bronze are ", 0),
        (lambda rows: rows.slice(1), "1 row in no silver table (bronze 9, silver 8,", 1),
        (
            lambda rows: pa.concat_tables([rows, rows.slice(0, 2)]),
            "2 rows in silver more than once (bronze 9, silver 11,",
            -2,
        ),
    ],
    ids=["whole", "lost", "doubled"],
)
def test_the_audit_adds_up_bronze_and_silver_by_source(
    directory: str, change: Callable[[pa.Table], pa.Table], said: str, missing: int
) -> None:
    fill(Path(directory))
    rows_of_silver(directory, change)
    code, printed = audited(directory)
    assert code == (1 if missing else 0)
    assert said in printed
    assert ("SILVER DOES NOT ADD UP: 9 rows" in printed) == bool(missing)
    assert printed.splitlines()[-1].startswith("complete: 9 lines, ")
    silver = json.loads(audited(directory, "--json")[1])["silver"]
    assert silver["adds_up"] == (not missing)
    of_source = {one["source"]: one for one in silver["sources"]}[source_id("a")]
    assert of_source["bronze"] - of_source["silver"] == missing


def test_rows_that_silver_has_not_come_to_are_no_fault(directory: str) -> None:
    fill(Path(directory))
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 9))
    send(segment, "a", lines("a", 9, 4), at)
    catch_up(Path(directory), segment)
    code, printed = audited(directory)
    assert code == 0
    assert "; 4 wait\n" in printed


def test_rows_of_files_that_were_counted_are_counted_again_with_full_only(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(Path(directory))
    counted: list[str] = []

    def count(path: str) -> Counter[str | None]:
        counted.append(path)
        return count_sources(path)

    monkeypatch.setattr("logdrive.pipeline.silver.balance.count_sources", count)
    found = [balance_tables(directory, full=False)]
    first = len(counted)
    assert first >= 2
    found.append(balance_tables(directory, full=False))
    assert len(counted) == first
    Path(directory, "bronze", "audit-counts").write_bytes(b"damaged")
    found.append(balance_tables(directory, full=False))
    assert len(counted) == 2 * first
    found.append(balance_tables(directory, full=True))
    assert len(counted) == 3 * first
    assert all(one == found[0] and one is not None and one.adds_up for one in found)
