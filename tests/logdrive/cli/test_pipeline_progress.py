"""What `logdrive pipeline` shows on standard error while Spark starts and work is done, on a
terminal and in a pipe.
"""

import io
import sys

import pytest
import structlog
from structlog.testing import capture_logs

from logdrive.cli.pipeline_progress import (
    AmountLines,
    CommitLines,
    FirstCountLines,
    QuarantineLines,
    show_amount,
    show_progress,
    show_spark_start,
)
from logdrive.pipeline.bronze.writer import CommitCounts
from logdrive.pipeline.plan import MicroBatch, Plan, RunResult


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a wide terminal."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    return terminal


def test_without_a_terminal_the_start_of_spark_is_one_plain_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with show_spark_start():
        told = capsys.readouterr()
    assert (told.out, told.err) == ("", "starting Spark, which may take half a minute\n")


def test_on_a_terminal_the_start_of_spark_is_a_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with show_spark_start():
        pass
    assert "starting Spark" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue(), "drawn over, not printed line by line"


@pytest.mark.parametrize(
    ("uri", "amount"),
    [
        ("pravega://127.0.0.1:6000/logs/events", "1.0/1.0 MB"),
        ("s2://127.0.0.1:8080/some-logs/events", "1000000/1000000"),
    ],
    ids=["bytes", "records"],
)
def test_on_a_terminal_a_run_to_the_end_is_one_bar_from_spark_to_the_last_byte(
    monkeypatch: pytest.MonkeyPatch, uri: str, amount: str
) -> None:
    terminal = on_terminal(monkeypatch)
    with show_progress(Plan(uri=uri, directory="", once=True), quiet=False) as (starting, tell):
        with starting():
            pass
        tell(RunResult(offsets=1_000_000, there=1_000_000))
    last = terminal.getvalue().splitlines()[-2:]
    assert any("reading" in line and amount in line for line in last), last


@pytest.mark.parametrize("unit", ["bytes", "rows"])
def test_a_bar_shows_what_is_done_of_what_its_rate_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    terminal = on_terminal(monkeypatch)
    with show_amount("silver", unit, quiet=False) as tell:
        for done in range(0, 600_001, 100_000):
            tell(done, 1_000_000)
    last = "".join(terminal.getvalue().splitlines()[-2:])
    assert {"bytes": "0.6/1.0 MB", "rows": "600000/1000000"}[unit] in last
    assert "/s" in last
    assert "left" in last


def test_a_bar_counts_what_came_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with capture_logs() as logs, show_amount("silver", "bytes", quiet=False) as tell:
        tell(2_000_000, 1_000_000, {"steps": 1})
    assert "2.0/2.0 MB" in terminal.getvalue()
    assert logs == []


def test_lines_of_the_log_are_above_the_bar_and_not_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_terminal(monkeypatch)
    with show_amount("silver", "bytes", quiet=False) as tell:
        tell(1, 2)
        structlog.get_logger("pipeline").warning("rows are odd")
    (said,) = (line for line in terminal.getvalue().splitlines() if "rows are odd" in line)
    assert "left" not in said.split("\r")[-1]


def test_on_a_terminal_without_anything_to_do_there_is_no_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_terminal(monkeypatch)
    with show_amount("silver", "bytes", quiet=False):
        pass
    assert terminal.getvalue() == ""


def test_quiet_draws_no_bar_and_leaves_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with capture_logs() as logs, show_amount("silver", "bytes", quiet=True) as tell:
        tell(7, 40, {"steps": 1})
    assert terminal.getvalue() == ""
    assert [line["event"] for line in logs] == ["silver so far"]


def test_without_a_terminal_each_step_is_a_line_with_what_is_done_of_what() -> None:
    with capture_logs() as logs, show_amount("gold", "rows", quiet=False) as tell:
        tell(0, 40)
        tell(25, 40, {"steps": 1})
        tell(50, 40, {"steps": 2})
        tell(60, None, {"steps": 3})
    assert logs == [
        {"event": "gold so far", "log_level": "info"} | figures
        for figures in (
            {"steps": 1, "done": 25, "total": 40, "unit": "rows"},
            {"steps": 2, "done": 50, "total": 50, "unit": "rows"},
            {"steps": 3},
        )
    ]


def test_amid_a_step_there_is_a_line_every_ten_seconds() -> None:
    now = [0.0]
    with capture_logs() as logs:
        lines = AmountLines("replayed", "rows", lambda: now[0])
        for second in range(36):
            now[0] = second
            lines.tell(second, 35)
            lines.tell(second, None)
    assert [line["done"] for line in logs] == [10, 20, 30]


def test_a_first_count_of_many_rows_is_told_before_it_and_every_ten_seconds_of_it() -> None:
    now, rows = [0.0], 25_000_000
    with capture_logs() as logs:
        lines = FirstCountLines(lambda: now[0])
        lines.begin(rows)
        for second in range(1, 101):
            now[0] = second
            lines.add_read(1_000_000)  # at last rows that came after the first count
    begun, *told = logs
    assert (begun["event"], begun["rows"]) == (
        "gold counts what silver has before more is read",
        rows,
    )
    assert [(line["done"], line["total"]) for line in told] == [
        (10_000_000, rows),
        (20_000_000, rows),
    ]


def test_a_first_count_of_few_rows_is_not_told() -> None:
    now = [0.0]
    with capture_logs() as logs:
        lines = FirstCountLines(lambda: now[0])
        lines.begin(1_000_000)
        now[0] = 60.0
        lines.add_read(1_000_000)
    assert logs == []


def test_each_micro_batch_is_a_line_of_the_log_and_of_many_one_a_second() -> None:
    seconds = [0.0]
    told, so_far = CommitLines(lambda: seconds[0]), RunResult()
    said = []
    for number in range(1, 601):
        seconds[0] += 0.1
        so_far.add_commit(CommitCounts(1, 7, 100, 100), MicroBatch(7, 2, "spark", 0.25, 0.125))
        with capture_logs() as lines:
            told.tell(so_far)
        said += [(number, line) for line in lines]
    assert [number for number, _ in said[:10]] == list(range(1, 11))
    assert 70 <= len(said) <= 80, "twenty at once, and one a second"
    figures = {"events": 7, "batches": 1, "bytes": 100, "rows": 7, "tasks": 2, "place": "spark"}
    seconds_of = {"task_seconds": 0.25, "commit_seconds": 0.125}
    assert (figures | seconds_of).items() <= said[0][1].items()


def test_what_is_quarantined_in_every_step_is_one_line_a_minute_with_all_of_it() -> None:
    now = [0.0]
    with capture_logs() as logs:
        lines = QuarantineLines(lambda: now[0])
        for _ in range(7):
            lines.tell({("access", "no line of it"): 2, (None, "headless"): 1})
            now[0] += 10
        lines.tell({})
        lines.tell({("json", "not JSON"): 4})
        lines.finish()
        lines.finish()
    assert [(line["rows"], line["reasons"]) for line in logs] == [
        (3, "access: no line of it (2); bronze: headless (1)"),
        (18, "access: no line of it (12); bronze: headless (6)"),
        (4, "json: not JSON (4)"),
    ]


def test_of_many_reasons_the_most_frequent_are_named() -> None:
    with capture_logs() as logs:
        lines = QuarantineLines(lambda: 0.0)
        lines.tell({("json", f"reason {n}"): n for n in range(1, 9)})
    (line,) = logs
    assert line["reasons"].startswith("json: reason 8 (8); ")
    assert line["reasons"].endswith("; 3 other reasons")
