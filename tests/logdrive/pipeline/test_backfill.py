"""Tables that begin at a time, and what lies before it, which is filled later: each byte once,
whatever is stopped, killed or done at the same time, and an audit that says what was asked for.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from logdrive.cli.main import cli
from logdrive.errors import ConfigError, StorageError
from logdrive.host import faults
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.model.batch_walker import BatchRef
from logdrive.pipeline.audit.audit import Verdict, audit
from logdrive.pipeline.audit.text import verdict_line
from logdrive.pipeline.backfill import Backfilled, check_backfill, run_backfill
from logdrive.pipeline.bronze.beginnings import Beginning, time_text
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.erase import erase_rows
from logdrive.pipeline.plan import Plan, RunResult
from logdrive.pipeline.read.start import parse_start
from logdrive.pipeline.rebuild_bronze import check_rebuild, rebuild_bronze
from logdrive.pipeline.run import run_pipeline
from logdrive.pipeline.silver.balance import silver_balance
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.fill import SilverFollower
from tests.logdrive.pipeline.filling import send, task
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.silver.filled import bronze_rows, fill, silver_rows
from tests.logdrive.pipeline.storing import cut_off, served, store

_TURNS = 20


def stream(count: int = 2, turns: int = _TURNS) -> list[Segment]:
    """Segments with a source each, and a foreign peer; a second from batch to batch."""
    segments = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(count)]
    for number, segment in enumerate(segments):
        grow(segment, f"s{number}", 0, turns)
    return segments


def grow(segment: Segment, source: str, first: int, turns: int) -> None:
    at = len(lines(source, 0, first * 50))
    for turn in range(first, first + turns):
        segment.clock += 1000
        at = send(segment, source, lines(source, turn * 50, 50), at)
        if turn % 5 == 0:
            segment.foreign("beats", [b'{"message":"x"}'] * 2)


def batches_of(segment: Segment) -> list[BatchRef]:
    return list(walk_batches(segment.name, 0, bytes(segment.data)))


def received(segment: Segment, number: int) -> int:
    header = batches_of(segment)[number].header
    assert header is not None
    return header.received


def plan(uri: str, directory: Path, start: int | None = None, **more: Any) -> Plan:
    started = None if start is None else parse_start(str(start))
    values: dict[str, Any] = {"once": True, "max_bytes_per_batch": 5000, "reader": ""} | more
    return Plan(uri=uri, directory=str(directory), start=started, **values)


def run(planned: Plan, stop: threading.Event | None = None, **more: Any) -> RunResult:
    return run_pipeline(planned, stop or threading.Event(), **more)


def backfill(planned: Plan, stop_after: int = 0, **more: Any) -> Backfilled:
    stop = threading.Event()

    def on_commit(so_far: RunResult) -> None:
        if so_far.micro_batches == stop_after:
            stop.set()

    return run_backfill(replace(planned, start=None), stop, on_commit, **more)


def judged(directory: Path) -> Verdict:
    return audit(str(directory))


def check_whole(directory: Path, count: int = 2, turns: int = _TURNS) -> None:
    """Demand the whole stream in the tables, each byte once, and an audit that says just that."""
    verdict = judged(directory)
    assert verdict.complete, verdict
    assert (verdict.begins, verdict.unfilled, verdict.not_asked_bytes) == (None, [], 0)
    assert verdict.events == count * (turns * 50 + (turns + 4) // 5 * 2)
    assert verdict_line(verdict).startswith("complete: ")
    assert [source.complete_from for source in verdict.by_source] == [0] * verdict.sources
    for number in range(count):
        data = lines(f"s{number}", 0, turns * 50)
        assert list(source_pieces(str(directory), source_id(f"s{number}"))) == [(0, data)]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return tmp_path / "tables"


# Beginning at a time ----------------------------------------------------------------------------


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
    last = len(lines("s0", 0, _TURNS * 50))
    assert named[source_id("s0")] == (first, last)
    assert list(source_pieces(str(tables), source_id("s0"))) == [
        (first, lines("s0", 0, _TURNS * 50)[first:])
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


# Filling what lies before -----------------------------------------------------------------------


def test_a_backfill_brings_what_lies_before_once_and_then_has_nothing_to_do(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    planned = plan(store(tmp_path / "store", *segments), tables, received(segments[0], 14))
    run(planned)
    scope = check_backfill(planned)
    begin = batches_of(segments[0])[14].offset
    assert {part.segment: (part.first, part.end) for part in scope.parts} == {
        one.name: (0, begin) for one in segments
    }
    assert judged(tables).begins is not None  # that was only a look
    done = backfill(planned)
    assert done.result.offsets == done.result.there == scope.to_read
    assert done.result.micro_batches > 1
    check_whole(tables)
    again = backfill(planned)
    assert again.result == RunResult()
    assert again.scope.nothing.startswith("the tables have all that lies before ")


def test_a_backfill_that_is_stopped_goes_on_where_it_was_and_the_audit_stays_true(
    tmp_path: Path, tables: Path
) -> None:
    """Also of a source of which it has a part, and one that lies before the start as a whole."""
    segments = stream()
    over = Segment(name=segments[0].name)
    over.clock = segments[0].clock
    grow(over, "over", 0, 6)
    grow(over, "s0", 0, _TURNS)
    segments[0] = over
    start = received(over, 20)
    planned = plan(store(tmp_path / "store", *segments), tables, start)
    run(planned)
    parts = 0
    while not check_backfill(planned).nothing:
        verdict = judged(tables)
        assert verdict.complete, verdict.gaps
        assert verdict.begins == time_text(start)
        for source in verdict.by_source:
            assert source.lost_bytes == 0
            assert source.complete_from <= source.complete_to == source.last
        backfill(planned, stop_after=1)
        parts += 1
    assert parts > 3
    verdict = judged(tables)
    assert (verdict.complete, verdict.begins) == (True, None)
    assert list(source_pieces(str(tables), source_id("over"))) == [(0, lines("over", 0, 300))]


def test_until_fills_what_was_received_before_a_time_and_the_rest_later(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 14)))
    command = ["pipeline", "backfill", "--from", uri, "--to", str(tables)]
    dry = CliRunner().invoke(cli, [*command, "--until", str(received(segments[0], 6)), "--dry-run"])
    assert dry.exit_code == 0, dry.output
    size = batches_of(segments[0])[6].offset
    assert f"{segments[0].name}: {size:,} bytes, from 0 to {size:,}" in dry.output
    assert f"would read {2 * size:,} bytes of the stream" in dry.output
    part = CliRunner().invoke(cli, [*command, "--until", str(received(segments[0], 6))])
    assert part.exit_code == 0, part.output
    assert "filled up to the time given; run this without --until to fill the rest" in part.output
    verdict = judged(tables)
    assert verdict.complete
    assert [one.start for one in verdict.unfilled] == [size, size]
    again = CliRunner().invoke(cli, [*command, "--until", str(received(segments[0], 6))])
    assert "nothing to fill: nothing that was received before the time given" in again.output
    rest = CliRunner().invoke(cli, [*command, "--json"])
    assert rest.exit_code == 0, rest.output
    assert json.loads(rest.stdout)["waiting"] == 0
    check_whole(tables)


def test_tables_that_were_begun_with_the_stream_have_nothing_to_fill(
    tmp_path: Path, tables: Path
) -> None:
    uri = store(tmp_path / "store", *stream())
    run(plan(uri, tables))
    done = CliRunner().invoke(cli, ["pipeline", "backfill", "--from", uri, "--to", str(tables)])
    assert done.exit_code == 0
    assert "nothing to fill: these tables were begun with the stream" in done.output
    check_whole(tables)


def test_a_backfill_without_tables_or_with_another_stream_is_refused(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    with pytest.raises(StorageError, match="is not a table: run `logdrive pipeline run"):
        backfill(plan(uri, tables))
    assert not tables.exists()
    run(plan(uri, tables, received(segments[0], 14)))
    elsewhere = store(tmp_path / "other", Segment("logs/other/0.#epoch.0"))
    with pytest.raises(ConfigError, match="have nothing of logs/other"):
        backfill(plan(elsewhere.replace(STREAM, "logs/other"), tables))


def test_what_retention_removed_before_it_was_filled_is_told_and_lost(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 14)))
    cut = batches_of(segments[0])[4]
    cut_off(tmp_path / "store", segments[0].name, cut.offset)
    assert judged(tables).complete  # it was not asked for
    command = ["pipeline", "backfill", "--from", uri, "--to", str(tables)]
    dry = CliRunner().invoke(cli, [*command, "--dry-run"])
    assert (
        f"{segments[0].name}: {cut.offset:,} bytes before that were removed by retention, and "
        "would be a gap in the audit"
    ) in dry.output
    backfill(plan(uri, tables), stop_after=1)
    backfill(plan(uri, tables))
    verdict = judged(tables)
    first = cut.header.previous if cut.header else None
    assert [(gap.source, gap.start, gap.end) for gap in verdict.gaps] == [
        (source_id("s0"), 0, first)
    ]
    assert (verdict.complete, verdict.begins) == (False, None)


def test_where_nothing_is_left_to_fill_nothing_is_done_and_nothing_lost(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream(count=1)
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 14)))
    cut_off(tmp_path / "store", segments[0].name, batches_of(segments[0])[16].offset)
    done = backfill(plan(uri, tables))
    assert done.scope.nothing.startswith("the stream no longer has anything from before ")
    assert judged(tables).complete


def test_of_a_segment_that_is_gone_as_a_whole_a_backfill_does_not_wait(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 14)))
    cut_off(tmp_path / "store", segments[0].name, batches_of(segments[0])[16].offset)
    done = backfill(plan(uri, tables))
    assert done.scope.removed == batches_of(segments[0])[14].offset
    verdict = judged(tables)
    assert (verdict.complete, verdict.begins) == (False, None)
    assert {gap.source for gap in verdict.gaps} == {source_id("s0")}
    assert backfill(plan(uri, tables)).scope.nothing


def test_a_store_that_went_back_is_read_again_by_a_run_before_it_is_filled_from__R5(
    tmp_path: Path, tables: Path
) -> None:
    """Restored to before the tables' beginning: that moves with the time to where it is now."""
    (whole,) = stream(count=1)
    start = received(whole, 14)
    run(plan(store(tmp_path / "store", whole), tables, start))
    backfill(plan(f"file://{tmp_path / 'store'}#{STREAM}", tables), stop_after=1)
    cut = batches_of(whole)[10]
    restored = Segment(data=bytearray(whole.data[: cut.offset]), clock=whole.clock + 5000)
    assert cut.header is not None
    assert cut.header.previous is not None
    data = lines("s0", 0, 2000)
    send(restored, "s0", data[cut.header.previous :], cut.header.previous)
    uri = store(tmp_path / "restored", restored)
    with pytest.raises(StorageError, match="let `logdrive pipeline run` read it again before"):
        backfill(plan(uri, tables))
    run(plan(uri, tables, start))
    assert judged(tables).complete
    backfill(plan(uri, tables))
    assert list(source_pieces(str(tables), source_id("s0"))) == [(0, data)]
    verdict = judged(tables)
    assert (verdict.complete, verdict.begins, verdict.duplicate_events) == (True, None, 0)


# At the same time -------------------------------------------------------------------------------


class Following:
    """A run that follows the stream in a thread, and fills silver, too, as `run --silver` does."""

    def __init__(self, planned: Plan) -> None:
        self.committed = threading.Event()
        self._planned = replace(planned, once=False, trigger_seconds=0.01)
        self._stop = threading.Event()
        self._failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with SilverFollower(self._planned.directory, SilverConfig(), self._stop) as silver:

                def on_commit(_: RunResult) -> None:
                    silver.catch_up()
                    self.committed.set()

                run_pipeline(self._planned, self._stop, on_commit, on_idle=silver.catch_up)
        except BaseException as error:
            self._failure.append(error)

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._failure, self._failure


@pytest.mark.parametrize("seed", range(3))
def test_a_follower_and_a_backfill_that_commit_in_any_order_keep_each_byte_once__A2(
    tmp_path: Path, tables: Path, seed: int
) -> None:
    """Also bytes that were sent twice: once before the tables' beginning, and once behind it."""
    pick, segment = random.Random(seed), Segment()
    grow(segment, "s0", 0, 12)
    data = lines("s0", 0, 2000)
    for _ in range(4):  # sent again, as after a restore
        first = data.index(b"\n", pick.randrange(len(lines("s0", 0, 400)))) + 1
        last = data.index(b"\n", first + 300) + 1
        send(segment, "s0", data[first:last], first)
    start = segment.clock + 1
    for _ in range(4):
        first = data.index(b"\n", pick.randrange(len(lines("s0", 0, 400)))) + 1
        last = data.index(b"\n", first + 300) + 1
        send(segment, "s0", data[first:last], first)
    grow(segment, "s0", 12, 12)
    run(plan(store(tmp_path / "store", Segment(data=bytearray())), tables))  # no tables yet
    begin = next(
        hop.offset for hop in batches_of(segment) if hop.header and hop.header.received >= start
    )
    hops = [hop.next for hop in batches_of(segment)]
    before = [hop for hop in hops if hop <= begin]
    behind = [hop for hop in hops if hop > begin]

    clock, disk = SystemClock(), SystemDisk()
    with (
        Bronze(str(tables), clock=clock, disk=disk) as follow,
        Bronze(str(tables), clock=clock, disk=disk, backfill=True) as fill_before,
    ):
        follow.begin_at([Beginning(STREAM, SEGMENT, begin, start)])
        turns = [(follow, end) for end in behind] + [(fill_before, end) for end in before]
        pick.shuffle(turns)
        ends = {follow: behind, fill_before: before}
        for which, _ in turns:
            end = ends[which].pop(0)
            at = which.next_offset(SEGMENT)
            which.commit_ranges([task(tables, segment, at, end)])
    verdict = judged(tables)
    assert (verdict.complete, verdict.begins, verdict.duplicate_events) == (True, None, 0)
    assert list(source_pieces(str(tables), source_id("s0"))) == [(0, lines("s0", 0, 24 * 50))]


def test_a_backfill_beside_a_run_that_follows_and_fills_silver__A1_A2(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream(turns=60)
    with served(tmp_path / "store", *segments) as face:
        start, token = received(segments[0], 50), face.target.token
        planned = plan(face.uri, tables, start, max_bytes_per_batch=2500, token=token)
        following = Following(planned)
        assert following.committed.wait(30)
        done = backfill(planned)
        # the run has read all of its part, and waits for new data
        while bronze_rows(tables).total() < 2 * (60 * 50 + 24) or (
            silver_rows(tables) != bronze_rows(tables)
        ):
            time.sleep(0.05)
        following.finish()
    assert done.result.micro_batches > 10
    check_whole(tables, turns=60)
    balance = silver_balance(str(tables))
    assert balance is not None
    assert balance.adds_up


def test_silver_takes_the_rows_of_a_backfill_once(tmp_path: Path, tables: Path) -> None:
    segments = stream()
    planned = plan(store(tmp_path / "store", *segments), tables, received(segments[0], 14))
    run(planned)
    fill(tables)
    while not backfill(planned, stop_after=1).scope.nothing:
        fill(tables)
    assert silver_rows(tables) == bronze_rows(tables)
    balance = silver_balance(str(tables))
    assert balance is not None
    assert (balance.adds_up, balance.waiting) == (True, 0)


def test_one_backfill_at_a_time_and_none_while_tables_are_replaced_or_lines_erased(
    tmp_path: Path, tables: Path
) -> None:
    segments = stream()
    planned = plan(store(tmp_path / "store", *segments), tables, received(segments[0], 14))
    run(planned)
    clock, disk = SystemClock(), SystemDisk()
    with Bronze(str(tables), clock=clock, disk=disk, backfill=True):
        with pytest.raises(StorageError, match="in use by another backfill"):
            backfill(planned)
        with pytest.raises(StorageError, match="in use by a backfill: stop it"):
            rebuild_bronze(replace(planned, start=None), threading.Event(), disk)
        with pytest.raises(StorageError, match="in use by a backfill: stop it"):
            erase_rows(
                str(tables), "message LIKE 's0%'", by="test", why=None, clock=clock, disk=disk
            )
    backfill(planned)
    check_whole(tables)


# Killed -----------------------------------------------------------------------------------------

_POINTS = [point for point in faults.POINTS if point.startswith("pipeline.commit.")]


def _command(uri: str, tables: Path, fault: str = "") -> "subprocess.Popen[bytes]":
    """Start a backfill of small micro-batches."""
    config = tables.parent / "pipeline.toml"
    config.write_text(
        f'[pipeline]\nfrom = "{uri}"\nto = "{tables}"\nmax_bytes_per_batch = 1048576\n'
    )
    return subprocess.Popen(
        [sys.executable, "-m", "logdrive.cli.main", "pipeline", "backfill", "--config", config],
        env=os.environ | {"LOGDRIVE_FAULT": fault},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


_MANY = 1500  # turns that make several micro-batches of the smallest size


@pytest.mark.process
@pytest.mark.parametrize("point", _POINTS)
def test_a_backfill_that_is_killed_at_a_fault_point_is_finished_by_the_next_one__A1_A2(
    tmp_path: Path, tables: Path, point: str
) -> None:
    segments = stream(turns=_MANY)
    uri = store(tmp_path / "store", *segments)
    run(plan(uri, tables, received(segments[0], 1600), max_bytes_per_batch=1 << 20))
    killed = _command(uri, tables, f"{point}:2")
    assert killed.wait(120) == -signal.SIGKILL, killed.communicate()[1].decode()
    verdict = judged(tables)
    assert (verdict.lost_bytes, verdict.duplicate_events, verdict.faults) == (0, 0, [])
    assert verdict.begins is not None
    again = _command(uri, tables)
    _, said = again.communicate(timeout=120)
    assert again.returncode == 0, said.decode()
    check_whole(tables, turns=_MANY)


@pytest.mark.process
def test_a_follower_finishes_the_half_commit_of_a_backfill_that_was_killed_beside_it__A1(
    tmp_path: Path, tables: Path
) -> None:
    (segment,) = stream(count=1, turns=_MANY)
    cut = batches_of(segment)[-3].offset
    uri = store(tmp_path / "store", Segment(data=segment.data[:cut]))
    run(plan(uri, tables, received(segment, 1600), max_bytes_per_batch=1 << 20))
    with Bronze(str(tables), clock=SystemClock(), disk=SystemDisk()) as follower:
        killed = _command(uri, tables, "pipeline.commit.between:2")
        assert killed.wait(120) == -signal.SIGKILL, killed.communicate()[1].decode()
        assert judged(tables).uncommitted_rows
        follower.commit_ranges([task(tables, segment, cut)])
        assert not judged(tables).uncommitted_rows
        again = _command(uri, tables)
        _, said = again.communicate(timeout=120)
        assert again.returncode == 0, said.decode()
    check_whole(tables, count=1, turns=_MANY)


# Rebuilt, and replayed --------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [0, 1, 100])
def test_tables_made_anew_begin_where_the_old_ones_do_and_are_filled_as_far(
    tmp_path: Path, tables: Path, commits: int
) -> None:
    segments = stream()
    planned = plan(store(tmp_path / "store", *segments), tables, received(segments[0], 14))
    run(planned)
    if commits:
        backfill(planned, stop_after=commits)
    before, rows = judged(tables), bronze_rows(tables)
    planned = replace(planned, start=None)
    stop = threading.Event()

    def stop_it(_: RunResult) -> None:
        stop.set()

    assert not rebuild_bronze(planned, stop, SystemDisk(), stop_it).swapped
    done = rebuild_bronze(planned, threading.Event(), SystemDisk())
    assert done.swapped
    assert (judged(tables).begins, judged(tables).unfilled) == (before.begins, before.unfilled)
    assert bronze_rows(tables) == rows
    assert check_rebuild(planned).stream_offsets == sum(len(one.data) for one in segments) - sum(
        part.end - part.start for part in before.unfilled
    )
    backfill(planned)
    check_whole(tables)
