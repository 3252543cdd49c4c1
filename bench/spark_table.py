"""Segments to table: `logdrive pipeline run --once` from a store's directory into new Delta tables.

The store holds the log several times over, each time as another source, 1.1 GB in all, so that
Spark reads it in several micro-batches of its usual size. The figure is what came between the first
commit and the last: start-up takes no part in it.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from uuid import UUID

from bench.commands import LOGDRIVE
from bench.decode import batches
from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError, Child, demand_success, family
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.numbers import ABSENT
from logdrive.store.engine import Store

_SEGMENT = "bench/nginx/0.#epoch.0"
_STORED_BYTES = 1_100_000_000  # more than four micro-batches
_LIMIT_SECONDS = 600.0


def _missing() -> str | None:
    absent = [name for name in ("pyspark", "deltalake") if find_spec(name) is None]
    return f"no {', '.join(absent)} here: pip install 'logdrive[spark]'" if absent else None


async def _fill(path: Path, setting: Setting, copies: int) -> None:
    executor = ThreadExecutor("store")
    try:
        store = await Store.open(
            str(path), disk=SystemDisk(), executor=executor, clock=SystemClock()
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(store.run(asyncio.Event()))
            await store.create(_SEGMENT)
            for copy in range(copies):
                source, expected = UUID(int=1 + copy), ABSENT
                for data, number in batches(setting, source):
                    await store.append(
                        _SEGMENT, data, writer=source, expected=expected, number=number, events=1
                    )
                    expected = number
            await store.close()
    finally:
        executor.close()


def _copies(setting: Setting) -> int:
    return -(-_STORED_BYTES // setting.log.stat().st_size)


def _prepare(setting: Setting) -> None:
    path = setting.work / "spark_store"
    shutil.rmtree(path, ignore_errors=True)
    asyncio.run(_fill(path, setting, _copies(setting)))


@dataclass(frozen=True, slots=True)
class _Commit:
    """One commit that added rows to the table: when, on the clock of the machine, and how many."""

    ms: int
    rows: int


def _commits(events: Path) -> list[_Commit]:
    """Return them from the table's own log, in order."""
    commits = []
    for path in sorted((events / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        rows = sum(
            json.loads(action["add"]["stats"])["numRecords"]
            for action in actions
            if "add" in action
        )
        if rows:
            commits.append(
                _Commit(
                    next(
                        action["commitInfo"]["timestamp"]
                        for action in actions
                        if "commitInfo" in action
                    ),
                    rows,
                )
            )
    return commits


def _run(setting: Setting) -> Mapping[str, Sample]:
    tables = setting.work / "spark_tables"
    shutil.rmtree(tables, ignore_errors=True)
    address = f"file://{setting.work / 'spark_store'}#bench/nginx"
    try:
        with family() as children:
            began = time.time()
            children.append(
                Child(
                    [*LOGDRIVE, "pipeline", "run", "--from", address, "--to", tables, "--once"],
                    log=setting.work / "spark.err",
                )
            )
            children[0].wait(_LIMIT_SECONDS)
            demand_success(children)
        commits = _commits(tables / "bronze" / "events")
    finally:
        shutil.rmtree(tables, ignore_errors=True)
    rows = sum(commit.rows for commit in commits)
    if rows != setting.lines * _copies(setting):
        raise BenchmarkError(
            f"the table has {rows} rows, not {_copies(setting)} times {setting.lines}"
        )
    first, last = commits[0], commits[-1]
    if first is last:
        raise BenchmarkError("all came in one micro-batch, so there is no time between commits")
    seconds, line_bytes = (last.ms - first.ms) / 1e3, setting.log.stat().st_size / setting.lines
    return {
        "raw_bytes": Sample((rows - first.rows) * line_bytes / seconds / 1e6, "MB/s"),
        "rows_per_second": Sample((rows - first.rows) / seconds, "rows/s"),
        "first_commit": Sample(first.ms / 1e3 - began, "s"),
    }


def _finish(setting: Setting) -> None:
    shutil.rmtree(setting.work / "spark_store", ignore_errors=True)


BENCHMARKS = (
    Benchmark(
        "spark.table",
        "Spark: segments of block records → Delta table, one row a line",
        _run,
        _missing,
        _prepare,
        _finish,
    ),
)
