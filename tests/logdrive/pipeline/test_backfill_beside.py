"""A backfill beside a run that follows, in any order, and either killed: each byte once."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.bronze.beginnings import Beginning
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.erase import erase_rows
from logdrive.pipeline.plan import Plan, RunResult
from logdrive.pipeline.rebuild_bronze import rebuild_bronze
from logdrive.pipeline.run import run_pipeline
from logdrive.pipeline.silver.balance import silver_balance
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.fill import SilverFollower
from tests.logdrive.pipeline.begun import (
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
from tests.logdrive.pipeline.filling import send, task
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.silver.filled import bronze_rows, silver_rows
from tests.logdrive.pipeline.storing import served, store


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


def test_a_backfill_waits_for_the_commit_that_is_under_way__A1(
    tmp_path: Path, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one half of it alone, it would take a crash for the reason, and make the other."""
    (segment,) = stream(count=1)
    begin, clock, disk = batches_of(segment)[14].offset, SystemClock(), SystemDisk()

    def fill_before() -> None:
        with Bronze(str(tables), clock=clock, disk=disk, backfill=True) as before:
            before.commit_ranges([task(tables, segment, 0, begin)])

    thread = threading.Thread(target=fill_before)

    def on_reach(point: str) -> None:
        if point == "pipeline.commit.between" and not thread.ident:
            thread.start()
            thread.join(0.3)
            assert thread.is_alive()

    with Bronze(str(tables), clock=clock, disk=disk) as follow:
        follow.begin_at([Beginning(STREAM, SEGMENT, begin, received(segment, 14))])
        monkeypatch.setattr(faults, "on_reach", on_reach)
        follow.commit_ranges([task(tables, segment, begin)])
        thread.join(30)
    check_whole(tables, count=1)


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
