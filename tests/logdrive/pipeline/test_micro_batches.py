"""The driver's loop: one micro-batch is written while the one before it is committed, and whatever
fails on the way, what was written is committed or leaves nothing behind.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from bench.processes import free_port
from logdrive.errors import StorageError, TransientError, UnavailableError
from logdrive.pipeline import choose_tasks, micro_batches
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.table_pair import TablePair
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.metrics import RunMetrics, serve_metrics
from logdrive.pipeline.plan import Plan, RunResult
from logdrive.pipeline.range_task import RangeTask
from logdrive.pipeline.read.planner import Planner
from logdrive.pipeline.run import run_pipeline
from logdrive.pipeline.tasks import Item, Result
from tests.logdrive.pipeline.segments import STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.stopping import StopAfter
from tests.logdrive.pipeline.storing import store

TURNS = 30


class Elsewhere:
    """Tasks that run in the thread that asks, as Spark's do for all that the driver can tell."""

    slots = 2

    def __init__(self, on_run: Callable[[int], object] = lambda _: None) -> None:
        self.parts: list[int] = []
        self._on_run = on_run

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        self.parts.append(len(items))
        self._on_run(len(self.parts))
        return [work(item) for item in items]


def plan(tmp_path: Path, **more: Any) -> Plan:
    segment, at = Segment(), 0
    for turn in range(TURNS):
        at = segment.packed("a", lines("a", turn * 50, 50), at)
    uri = store(tmp_path / "store", segment)
    settings: dict[str, Any] = {"once": True, "max_bytes_per_batch": 3000, "driver_bytes": 0}
    return Plan(uri=uri, directory=str(tmp_path / "tables"), **(settings | more))


def all_is_there(tmp_path: Path) -> bool:
    (whole,) = source_pieces(str(tmp_path / "tables"), source_id("a"))
    return whole == (0, lines("a", 0, TURNS * 50))


def files_of_events(tmp_path: Path) -> tuple[set[str], set[str]]:
    """Return those that the table names, and those that are there."""
    named = set(open_tables(str(tmp_path / "tables"))[0].files)
    there = (tmp_path / "tables" / "bronze" / "events").rglob("*.parquet")
    return named, {str(path) for path in there if "_delta_log" not in path.parts}


@pytest.mark.parametrize("tasks", [None, "elsewhere"], ids=["driver", "elsewhere"])
def test_a_stop_amid_a_micro_batch_leaves_no_file_and_the_next_run_reads_it_again(
    tmp_path: Path, tasks: str | None
) -> None:
    more: dict[str, Any] = {"driver_bytes": 1 << 30} if tasks is None else {}
    planned, looks = plan(tmp_path, **more), 0
    while (outcome := _stopped(planned, tasks, looks)).waiting:
        named, there = files_of_events(tmp_path)
        assert there == named, f"stopped at look {looks}"
        looks += 1
    assert outcome.there
    assert looks > 2
    assert all_is_there(tmp_path)


def _stopped(planned: Plan, tasks: str | None, looks: int) -> RunResult:
    other = Elsewhere() if tasks else None
    return run_pipeline(planned, StopAfter(looks), tasks=other)


def test_the_next_micro_batch_is_written_while_one_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {number: threading.Event() for number in range(1, 100)}
    tasks, commits = Elsewhere(lambda number: begun[number].set()), list[int]()
    commit = Bronze.commit_ranges

    def commit_late(tables: Bronze, written: Any) -> Any:
        commits.append(len(commits) + 1)
        if commits[-1] < 5:
            assert begun[commits[-1] + 1].wait(60), "the next one does not begin"
        return commit(tables, written)

    monkeypatch.setattr(Bronze, "commit_ranges", commit_late)
    outcome = run_pipeline(plan(tmp_path), threading.Event(), tasks=tasks)
    assert outcome.micro_batches == len(tasks.parts) > 5
    assert set(tasks.parts[:-1]) == {2}, "a part for each slot"
    assert all_is_there(tmp_path)


def test_ranges_of_a_micro_batch_are_as_many_as_keep_all_slots_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = len(lines("a", 0, TURNS * 50))
    monkeypatch.setattr(
        micro_batches, "_RANGE_BYTES", whole * 2 // 5
    )  # three, of which one is small
    sizes: list[int] = []

    class Measured(Elsewhere):
        def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
            sizes.extend(item.range.raw_bytes for item in items if isinstance(item, RangeTask))
            return super().run(work, items)

    tasks = Measured()
    # all at once: the first micro-batches are small else
    monkeypatch.setattr(choose_tasks, "_FIRST_BYTES", 1 << 30)
    run_pipeline(plan(tmp_path, max_bytes_per_batch=1 << 30), threading.Event(), tasks=tasks)
    assert tasks.parts == [4]
    assert max(sizes) < whole / 3
    assert all_is_there(tmp_path)


def test_small_ranges_of_several_segments_stay_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part would be a file, for the sake of a moment in which a slot is idle."""
    segments = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(3)]
    for number, segment in enumerate(segments):
        at = 0
        for turn in range(10 * (number + 1)):
            at = segment.packed(f"s{number}", lines(f"s{number}", turn * 50, 50), at)
    uri = store(tmp_path / "store", *segments)
    monkeypatch.setattr(choose_tasks, "_FIRST_BYTES", 1 << 30)
    tasks = Elsewhere()
    planned = Plan(uri=uri, directory=str(tmp_path / "tables"), once=True, driver_bytes=0)
    assert run_pipeline(planned, threading.Event(), tasks=tasks).there
    assert tasks.parts == [3]


def test_a_commit_that_fails_leaves_no_files_of_the_next_micro_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, whole, calls = plan(tmp_path), TablePair.commit, list[int]()
    begun = threading.Event()

    def fail_at_third(tables: TablePair, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            assert begun.wait(60)
            raise StorageError("the disk is gone")
        whole(tables, *arguments)

    monkeypatch.setattr(TablePair, "commit", fail_at_third)
    tasks = Elsewhere(lambda number: begun.set() if number == 4 else None)
    with pytest.raises(StorageError, match="the disk is gone"):
        run_pipeline(planned, threading.Event(), tasks=tasks)
    named, there = files_of_events(tmp_path)
    assert len(tasks.parts) == 4
    assert len(there - named) == tasks.parts[2], "those of the third, none of the fourth"
    run_pipeline(planned, threading.Event(), tasks=Elsewhere())
    assert all_is_there(tmp_path)


def test_what_is_written_is_committed_though_the_next_can_not_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, cut = list[int](), Planner.plan_micro_batch
    planned_twice = threading.Event()

    def plan_once(planner: Planner, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            planned_twice.set()
            raise TransientError("the store is away")
        return cut(planner, *arguments)

    monkeypatch.setattr(Planner, "plan_micro_batch", plan_once)
    seen: list[int] = []
    with pytest.raises(TransientError, match="the store is away"):
        run_pipeline(
            plan(tmp_path),
            threading.Event(),
            lambda so_far: seen.append(so_far.events),
            tasks=Elsewhere(lambda _: planned_twice.wait(60)),
        )
    assert seen


def test_what_was_written_when_told_to_stop_is_committed_and_what_is_being_written_left_undone(
    tmp_path: Path,
) -> None:
    stop, totals = threading.Event(), list[RunResult]()
    tasks = Elsewhere(lambda number: stop.set() if number == 3 else None)
    outcome = run_pipeline(plan(tmp_path, once=False), stop, totals.append, tasks=tasks)
    assert (outcome.micro_batches, len(tasks.parts)) == (2, 3)
    assert outcome.waiting > 0
    named, there = files_of_events(tmp_path)
    assert named == there


class Counting(threading.Event):
    """An event that waits no time, and is set after some looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.waited: list[float] = []
        self._looks = looks

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        if len(self.waited) == self._looks:
            self.set()
        return self.is_set()


def test_where_nothing_comes_looks_become_rarer(tmp_path: Path) -> None:
    often, seldom = Counting(150), Counting(3)
    run_pipeline(plan(tmp_path, once=False), often, tasks=Elsewhere())
    assert often.waited[:100] == [0.1] * 100, "ten seconds"
    assert often.waited[102:] == [1.0] * 48
    planned = plan(tmp_path, once=False, trigger_seconds=30.0)
    run_pipeline(planned, seldom, tasks=Elsewhere())
    assert seldom.waited == [30.0] * 3


def test_a_range_that_is_no_whole_batch_is_told(tmp_path: Path) -> None:
    class Short(Elsewhere):
        def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
            for item in items:
                assert isinstance(item, RangeTask)
                object.__setattr__(item.range, "end", item.range.end - 1)
            return super().run(work, items)

    with pytest.raises(TransientError, match="are no whole batch"):
        run_pipeline(plan(tmp_path), threading.Event(), tasks=Short())


# Figures ----------------------------------------------------------------------------------------


def test_prometheus_gets_what_the_run_has_done(tmp_path: Path) -> None:
    address, pages = f"127.0.0.1:{free_port()}", list[str]()

    def fetch(_: RunResult) -> None:
        with urlopen(f"http://{address}/metrics", timeout=30) as page:
            pages.append(page.read().decode())

    metrics = RunMetrics()
    planned = plan(tmp_path, metrics=address, driver_bytes=1 << 20)
    outcome = run_pipeline(planned, threading.Event(), fetch, metrics=metrics)
    found = metrics.values()
    assert found["logdrive_pipeline_rows_total"] == outcome.events == TURNS * 50
    assert found["logdrive_pipeline_batches_total"] == outcome.batches
    assert found["logdrive_pipeline_stored_bytes_total"] == outcome.bytes
    assert found["logdrive_pipeline_commit_seconds_count"] == outcome.micro_batches
    assert found["logdrive_pipeline_waiting_offsets"] == 0
    for line in (
        f"logdrive_pipeline_rows_total {outcome.events}.0",
        f'logdrive_pipeline_micro_batches_total{{place="driver"}} {outcome.micro_batches}.0',
        f'logdrive_pipeline_task_stored_bytes_total{{place="driver"}} {outcome.bytes}.0',
        "logdrive_pipeline_spark_failed_tasks_total 0.0",
    ):
        assert line in pages[-1].splitlines()


def test_failures_are_counted(tmp_path: Path) -> None:
    metrics, stop = RunMetrics(), threading.Event()

    def fail_at_first(number: int) -> None:
        if number == 1:
            raise TransientError("no worker")

    run_pipeline(
        plan(tmp_path, once=False),
        stop,
        lambda so_far: stop.set() if not so_far.waiting else None,
        tasks=Elsewhere(fail_at_first),
        metrics=metrics,
    )
    assert metrics.values()["logdrive_pipeline_restarts_total"] == 1
    assert all_is_there(tmp_path)


def test_an_address_in_use_is_told() -> None:
    address = f"127.0.0.1:{free_port()}"
    with (
        serve_metrics(RunMetrics(), address),
        pytest.raises(UnavailableError, match=f"metrics = {address}: Address already in use"),
        serve_metrics(RunMetrics(), address),
    ):
        pass
