"""Tables that begin at a time: what they have, what the audit says of it, and what is refused."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logdrive.cli.main import cli
from logdrive.errors import ConfigError
from logdrive.host.clock import SystemClock
from logdrive.pipeline.audit.text import verdict_line
from logdrive.pipeline.bronze.beginnings import time_text
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.plan import RunResult
from logdrive.pipeline.read.start import parse_start
from tests.logdrive.pipeline.begun import (
    TURNS,
    backfill,
    batches_of,
    check_whole,
    grow,
    judged,
    plan,
    received,
    run,
    stream,
)
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.storing import cut_off, store


def test_new_tables_have_what_was_received_since_their_start_and_the_audit_names_it(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    begin = batches_of(segments[0])[14]
    start = received(segments[0], 14)
    outcome = run(plan(store(tmp_path / "store", *segments), tables, start))
    assert outcome.bytes == outcome.there
    verdict = judged(tables)
    assert (verdict.complete, verdict.lost_bytes, verdict.gaps) == (True, 0, [])
    assert verdict.begins == time_text(start)
    first = begin.header.previous if begin.header else None
    assert first is not None
    named = {one.source: (one.complete_from, one.complete_to) for one in verdict.by_source}
    last = len(lines("s0", 0, TURNS * 50))
    assert named[source_id("s0")] == (first, last)
    assert list(source_pieces(str(tables), source_id("s0"))) == [
        (first, lines("s0", 0, TURNS * 50)[first:])
    ]
    said = verdict_line(verdict)
    assert said.startswith(f"complete from {time_text(start)} on: ")
    assert (
        f"; what was received before {time_text(start)} was not asked for, "
        f"{verdict.not_asked_bytes:,} bytes of 2 sources among it: see `logdrive pipeline backfill`"
    ) in said
    assert run(plan(store(tmp_path / "store", *segments), tables, start)) == RunResult()


def test_the_commands_say_that_tables_begin_at_a_time_and_the_audit_exits_with_0(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    run(plan(store(tmp_path / "store", *segments), tables, received(segments[0], 14)))
    done = _invoke("audit", str(tables))
    assert done.return_value == 0
    assert "complete from" in done.output.splitlines()[0]
    told = json.loads(_invoke("audit", str(tables), "--json").stdout)
    assert told["complete"]
    assert told["begins"] == time_text(received(segments[0], 14))
    assert {one["segment"] for one in told["unfilled"]} == {one.name for one in segments}
    files = {one["path"]: one["complete_from"] for one in told["by_source"] if not one["foreign"]}
    assert all(files.values())

    _invoke("report", str(tables), "--out", str(tmp_path / "report.html"))
    assert "was not asked for" in (tmp_path / "report.html").read_text()

    cat = _invoke("cat", str(tables), source_id("s0"))
    assert cat.return_value == 1
    head = f"bytes 0 to {files['/var/log/s0.log']}"
    assert f"{head}: received before {told['begins']}, when the tables begin" in cat.stderr


def _invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *arguments], standalone_mode=False)


def test_a_loss_behind_the_start_is_a_loss(tmp_path: Path, tables: Path) -> None:
    """What lies before the start excuses nothing that lies behind it."""
    segment, at = Segment(), 0
    for turn in range(6):
        segment.clock += 1000
        at = send(segment, "a", lines("a", turn * 50, 50), at)
    start = segment.clock
    send(segment, "a", lines("a", 400, 50), at + 77)  # 77 bytes that nobody sent
    uri = store(tmp_path / "store", segment)
    run(plan(uri, tables, start))
    verdict = judged(tables)
    assert (verdict.complete, verdict.lost_bytes) == (False, 77)
    assert verdict_line(verdict).startswith("NOT COMPLETE: ")
    backfill(plan(uri, tables))
    assert judged(tables).lost_bytes == 77


def test_what_retention_removed_behind_the_start_is_a_loss_of_sources_heard_after_it(
    tmp_path: Path, tables: Path
) -> None:
    """Their first bytes may have been in it: what was not asked for does not excuse that."""
    segment = Segment()
    grow(segment, "old", 0, 5)
    start = segment.clock
    grow(segment, "old", 5, 1)
    run(plan(store(tmp_path / "store", segment), tables, start))
    grow(segment, "old", 6, 1)
    grow(segment, "new", 0, 1)
    removed = len(segment.data)
    grow(segment, "old", 7, 1)
    grow(segment, "new", 1, 1)
    store(tmp_path / "store", segment)
    cut_off(tmp_path / "store", SEGMENT, removed)
    run(plan(store(tmp_path / "store", segment), tables, start))
    verdict = judged(tables)
    gaps = {gap.source: (gap.start, gap.end) for gap in verdict.gaps}
    assert gaps[source_id("new")] == (0, len(lines("new", 0, 50)))
    assert gaps[source_id("old")] == (len(lines("old", 0, 300)), len(lines("old", 0, 350)))
    assert not verdict.complete


def test_an_age_counts_from_the_moment_at_which_the_tables_are_begun_and_never_again(
    tmp_path: Path, tables: Path
) -> None:
    segment = Segment(clock=SystemClock().now_ms() - 3600_000)
    grow(segment, "s0", 0, 5)
    segment.clock = SystemClock().now_ms() - 60_000
    grow(segment, "s0", 5, 5)
    uri = store(tmp_path / "store", segment)
    aged = replace(plan(uri, tables), start=parse_start("30m"))
    run(aged)
    first = judged(tables).begins
    assert judged(tables).events == 5 * 50 + 2
    grow(segment, "s0", 10, 5)
    store(tmp_path / "store", segment)
    run(replace(aged, start=parse_start("1s")))
    assert (judged(tables).begins, judged(tables).complete) == (first, True)
    assert judged(tables).events == 10 * 50 + 2 * 2


@pytest.mark.process
def test_a_run_that_is_killed_before_its_first_commit_has_begun_the_tables_for_good(
    tmp_path: Path, tables: Path
) -> None:
    """An age would else begin them later, and leave out what came in between."""
    segment = Segment(clock=SystemClock().now_ms() - 3600_000)
    grow(segment, "s0", 0, 10)
    uri = store(tmp_path / "store", segment)
    command = [sys.executable, "-m", "logdrive.cli.main", "pipeline", "run", "--once"]
    killed = subprocess.run(
        [*command, "--from", uri, "--to", str(tables), "--start", "2h"],
        env=os.environ | {"LOGDRIVE_FAULT": "pipeline.commit.before_events"},
        timeout=120,
        check=False,
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run(replace(plan(uri, tables), start=parse_start("1s")))
    check_whole(tables, count=1, turns=10)


def test_another_stream_in_the_same_tables_is_judged_from_its_first_byte(
    tmp_path: Path, tables: Path
) -> None:
    segment, other = stream(count=1)[0], Segment(name="logs/other/0.#epoch.0")
    start = received(segment, 14)
    run(plan(store(tmp_path / "store", segment), tables, start))
    send(other, "b", lines("b", 0, 50), 100)  # it never had the first 100 bytes
    uri = store(tmp_path / "other", other).replace(STREAM, "logs/other")
    run(plan(uri, tables))
    verdict = judged(tables)
    assert [(gap.source, gap.start, gap.end) for gap in verdict.gaps] == [(source_id("b"), 0, 100)]
    assert (verdict.complete, verdict.begins) == (False, time_text(start))


def test_a_segment_that_comes_later_is_read_from_its_beginning(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    start = received(segments[0], 14)
    run(plan(store(tmp_path / "store", segments[0]), tables, start))
    run(plan(store(tmp_path / "store", *segments), tables, start))
    assert next(source_pieces(str(tables), source_id("s1")))[0] == 0
    assert judged(tables).complete


def test_an_event_in_pieces_that_has_begun_before_the_start_is_whole__R6(
    tmp_path: Path, tables: Path
) -> None:
    segment = Segment()
    event = b'{"message":"%s"}' % (b"x" * 5000)
    other = b'{"message":"%s"}' % (b"y" * 5000)
    grow(segment, "s0", 0, 4)
    segment.piece("f", other, 0, 2000, "other")
    grow(segment, "s0", 4, 1)
    segment.piece("f", event, 0, 2000)
    segment.piece("f", other, 2000, len(other), "other")
    grow(segment, "s0", 5, 1)
    start = segment.clock  # the last batch, between two pieces
    segment.piece("f", event, 2000, len(event))
    uri = store(tmp_path / "store", segment)
    run(plan(uri, tables, start))
    assert _messages(tables) == ["x" * 5000, "y" * 5000]
    assert judged(tables).quarantined_events == 0
    backfill(plan(uri, tables))
    assert _messages(tables) == ["x" * 5000, "y" * 5000]
    assert (judged(tables).complete, judged(tables).quarantined_events) == (True, 0)


def _messages(tables: Path) -> list[str]:
    rows = open_tables(str(tables))[0].read_rows(["message"])["message"].to_pylist()
    return sorted(one for one in rows if len(one) > 1000)


@pytest.mark.parametrize(
    ("begun", "start", "remedy"),
    [
        (None, 14, "these tables were begun with the stream: leave `start` out"),
        (14, 10, "these tables begin at 2023-11-14 .*: write that, or leave `start` out"),
        (14, 16, "to begin later, fill another directory"),
    ],
)
def test_a_start_at_which_the_tables_were_not_begun_is_refused(
    tmp_path: Path, tables: Path, begun: int | None, start: int, remedy: str
) -> None:
    (segment, _) = segments = stream()
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, None if begun is None else received(segment, begun)))
    with pytest.raises(ConfigError, match=rf"start = .*{remedy}"):
        run(plan(uri, tables, received(segment, start)))
    run(plan(uri, tables))  # without one, they go on


def test_a_start_that_lies_ahead_is_refused_and_makes_no_beginning(
    tmp_path: Path, tables: Path
) -> None:
    uri = store(tmp_path / "store", *stream())
    with pytest.raises(ConfigError, match="this lies in the future"):
        run(plan(uri, tables, SystemClock().now_ms() + 3600_000))
    run(plan(uri, tables))
    check_whole(tables)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-02T00:00Z", 86_400_000),
        ("1970-01-02", 86_400_000),
        ("1970-01-02T01:00+01:00", 86_400_000),
        ("1700000000000", 1_700_000_000_000),
        ("90s", 1_999_999_910_000),
        ("3m", 1_999_999_820_000),
        ("24h", 1_999_913_600_000),
        ("7d", 1_999_395_200_000),
        ("1w", 1_999_395_200_000),
        ("999999999w", 0),
    ],
)
def test_a_start_is_a_time_or_an_age(text: str, time_ms: int) -> None:
    assert parse_start(text).resolve(2_000_000_000_000) == time_ms


@pytest.mark.parametrize("text", ["yesterday", "24", "h", "-1h", "2026-13-01"])
def test_a_start_that_is_neither_time_nor_age_says_what_may_be_written(text: str) -> None:
    done = CliRunner().invoke(
        cli, ["pipeline", "run", "--from", "file:///x#a/b", "--to", "/x", f"--start={text}"]
    )
    assert done.exit_code == 2
    assert "such as" in done.output
    assert "24h" in done.output


def test_the_configuration_has_a_start_too(tmp_path: Path, tables: Path) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    path = tmp_path / "pipeline.toml"
    path.write_text(
        f'[pipeline]\nfrom = "{uri}"\nto = "{tables}"\nstart = "{received(segments[0], 14)}"\n'
    )
    done = CliRunner().invoke(cli, ["pipeline", "run", "--config", str(path), "--once"])
    assert done.exit_code == 0, done.output
    assert judged(tables).begins == time_text(received(segments[0], 14))
    done = CliRunner().invoke(cli, ["pipeline", "backfill", "--config", str(path)])
    assert done.exit_code == 0, done.output
    assert "the tables have all that the stream has" in done.output
    check_whole(tables)
    path.write_text(path.read_text().replace("start = ", 'start = "soon" #'))
    done = CliRunner().invoke(cli, ["pipeline", "run", "--config", str(path), "--once"])
    assert done.exit_code == 1
    assert 'pipeline.start = "soon": write a time such as' in str(done.exception)
