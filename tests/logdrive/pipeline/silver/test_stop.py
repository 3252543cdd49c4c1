"""A step of silver that is stopped or fails leaves no file and commits nothing; the next one does
all of it.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from logdrive.errors import StorageError, TransientError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.silver import read_batches, writer
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.fill import fill_silver
from logdrive.pipeline.silver.writer import Silver
from logdrive.pipeline.tables.open_table import open_table_as_it_is
from logdrive.pipeline.tasks import InProcess, InThreads, Item, Result, Tasks
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import (
    bronze_rows,
    fill,
    foreign,
    grow,
    silver_rows,
    tables_of,
)
from tests.logdrive.pipeline.stopping import StopAfter

PARTS = 4


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bronze in several files, of which one step is to be made."""
    monkeypatch.setattr(writer, "_SMALL", 0)  # else so little stays in one thread
    monkeypatch.setattr(read_batches, "BATCH_ROWS", 32)
    segment = Segment()
    for part in range(PARTS):
        placed = {"log": {"offset": 9 * part, "file": {"path": "/p", "inode": 1}}}
        foreign(segment, [{"message": "placed"} | placed])
        grow(tmp_path, segment, part)
    return tmp_path


def opened(directory: Path, tasks: Tasks) -> Silver:
    return Silver(str(directory), SilverConfig(), tasks, clock=SystemClock(), disk=SystemDisk())


def files_of_rows(directory: Path) -> tuple[set[str], set[str]]:
    """Return those that silver's tables name, and those that are there."""
    place = directory / "silver"
    named = {
        path
        for table in (*tables_of(directory), "sent")
        if (place / table / "_delta_log").is_dir()
        for path in open_table_as_it_is(str(place / table)).files
    }
    there = {str(path) for path in place.rglob("part-*") if "day=" in str(path)}
    return named, there


@pytest.mark.parametrize("tasks", [InProcess(), InThreads(3)], ids=["process", "threads"])
def test_a_stop_amid_a_step_leaves_nothing_and_the_next_start_makes_each_row_once(
    tables: Path, tasks: Tasks
) -> None:
    for looks in range(1000):
        with opened(tables, tasks) as silver:
            totals = fill_silver(silver, StopAfter(looks))
        named, there = files_of_rows(tables)
        assert named == there, f"stopped at look {looks}"
        if totals.steps:
            break
        assert not named
    assert looks > 2 * PARTS, "it looks more often than at the start of a step"
    fill(tables)
    assert silver_rows(tables) == bronze_rows(tables)


def test_a_step_of_which_one_task_fails_leaves_no_file_of_the_others(
    tables: Path,
) -> None:
    others = threading.Event()

    class OneFails(InThreads):
        def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
            def work_but_once(item: Item) -> Result:
                if item is items[-1]:
                    assert others.wait(60)
                    raise StorageError("the last task fails")
                result = work(item)
                others.set()
                return result

            return super().run(work_but_once, items)

    with opened(tables, OneFails(2)) as silver:
        with pytest.raises(StorageError, match="the last task fails"):
            silver.next_step()
        assert others.is_set()
        assert files_of_rows(tables) == (set(), set())
        silver.reload_tables()
    fill(tables)
    assert silver_rows(tables) == bronze_rows(tables)


@pytest.mark.spark
def test_files_that_tasks_of_spark_have_finished_go_when_another_one_fails(
    tables: Path, spark: Any
) -> None:
    from logdrive.pipeline.spark.tasks import SparkTasks

    class OneFails(SparkTasks):
        def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
            super().run(work, items)  # its files are there, and nobody gets their names
            raise TransientError("the JVM was killed")

    with opened(tables, OneFails(spark.sparkContext)) as silver:
        with pytest.raises(TransientError, match="the JVM was killed"):
            silver.next_step()
        assert files_of_rows(tables) == (set(), set())
    fill(tables)
    assert silver_rows(tables) == bronze_rows(tables)
