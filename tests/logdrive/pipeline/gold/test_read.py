"""What the gold tables say to readers: through our functions, and through SQL as documented."""

from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from logdrive.cli.main import cli
from logdrive.errors import StorageError
from logdrive.pipeline.gold.read import (
    has_gold,
    read_errors,
    read_minutes,
    read_services,
    read_talkers,
)
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.formats.log_lines import utc
from tests.logdrive.pipeline.gold.counted import count
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import fill

ACCESS = b"".join(
    b'10.0.0.%d - - [02/Jan/2026:12:%02d:00 +0000] "GET / HTTP/1.1" %d 10 "-" "curl" 0.%03d\n'
    % (n % 3, n // 60, 500 if n % 10 == 0 else 200, n)
    for n in range(1, 121)
)
TRACE = (
    b"2026-01-02 12:00:00,000 ERROR [main] shop.Cart: oops\n"
    b"java.io.IOException: full\n\tat shop.Cart.add(Cart.java:12)\n"
    b"2026-01-02 12:00:01,000 INFO [main] shop.Cart: on\n"
)


@pytest.fixture
def directory(tmp_path: Path) -> str:
    segment = Segment()
    send(segment, "web", ACCESS)
    send(segment, "app", TRACE * 10)
    catch_up(tmp_path, segment)
    fill(tmp_path)
    count(tmp_path)
    return str(tmp_path)


def test_minutes_have_rates_errors_and_latencies(directory: str) -> None:
    rows = [row for row in read_minutes(directory).to_pylist() if row["table"] == "access"]
    assert [row["lines"] for row in rows] == [59, 60, 1]
    assert [row["errors"] for row in rows] == [5, 6, 1]
    assert rows[1]["minute"] == utc(2026, 1, 2, 12, 1)
    assert rows[1]["p50"] == pytest.approx(0.089, rel=0.05)
    assert rows[1]["p99"] == pytest.approx(0.119, rel=0.05)
    since = utc(2026, 1, 2, 12, 1)
    later = read_minutes(directory, since).to_pylist()
    assert [row["lines"] for row in later] == [60, 1]


def test_services_talkers_and_errors_are_added_up(directory: str) -> None:
    services = {row["table"]: row for row in read_services(directory).to_pylist()}
    assert services["access"]["lines"] == 120
    assert services["access"]["p90"] == pytest.approx(0.108, rel=0.05)
    assert services["application"]["lines"] == 40
    assert services["application"]["p50"] is None
    talkers = read_talkers(directory, 2).to_pylist()
    assert [(row["client"], row["lines"]) for row in talkers] == [
        ("10.0.0.0", 40),
        ("10.0.0.1", 40),
    ]
    (error,) = read_errors(directory).to_pylist()
    assert (error["times"], error["first"]) == (10, utc(2026, 1, 2, 12))
    assert error["message"] == "oops"


@pytest.mark.parametrize(("since", "new"), [(utc(2026, 1, 2, 12), 1), (utc(2026, 1, 3), 0)])
def test_new_errors_are_those_that_were_not_seen_before(
    directory: str, since: datetime, new: int
) -> None:
    assert read_errors(directory, since).num_rows == new


def test_there_is_gold_once_it_was_filled(directory: str, tmp_path: Path) -> None:
    assert has_gold(directory)
    assert not has_gold(str(tmp_path / "other"))
    with pytest.raises(StorageError, match="logdrive pipeline gold"):
        read_minutes(str(tmp_path / "other"))


def test_the_command_prints_services_and_the_newest_errors(directory: str) -> None:
    runner = CliRunner()
    shown = runner.invoke(cli, ["pipeline", "gold", directory, "--once"]).output
    assert "0 lines counted" in shown
    assert "(access): 120 lines, 12 errors, p50 0.0" in shown
    assert "10 times, first 2026-01-02 12:00:00: oops" in shown

    again = runner.invoke(cli, ["pipeline", "rebuild", directory, "--table", "gold"]).output
    assert "160 lines counted" in again
    assert "(access): 120 lines, 12 errors, p50 0.0" in again

    dry = runner.invoke(cli, ["pipeline", "rebuild", directory, "--table", "gold", "--dry-run"])
    assert "and read 2 files" in dry.output


def test_sql_sees_the_same_figures(directory: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    from deltalake import DeltaTable

    minutes = DeltaTable(f"{directory}/gold/minutes").to_pyarrow_dataset()
    found = duckdb.sql(
        'SELECT "table", sum(lines), sum(errors) FROM minutes GROUP BY ALL ORDER BY ALL'
    ).fetchall()
    assert minutes is not None
    assert found == [("access", 120, 12), ("application", 40, 10)]
