"""Segments to table: `logdrive pipeline run --once` from a store into new Delta tables.

The store holds the log several times over, each time as another source. What counts is what came
between the first commit that Spark's tasks had a part in and the last commit: start-up takes no
part in it. CPU seconds are those of the whole tree of processes: driver, JVM, Python workers.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from bench.commands import IN_PYTHON, LOGDRIVE
from bench.measure import Benchmark, Sample, Setting
from bench.peers import read_text
from bench.process_tree import TreeUsage, tree_usage
from bench.processes import BenchmarkError, Child, demand_success, family
from bench.store.served import served_directory
from bench.tables.commits import commits
from bench.tables.store import STREAM, copies, fill_store
from logdrive.model.units import MIB

_LIMIT_SECONDS = 600.0
_LOOK_SECONDS = 0.02
_LOOKS_A_USAGE = 10  # looks at the table's log for one at the processes, which takes a millisecond
LARGE_BYTES = 32 * MIB
"""Raw bytes of a commit that several tasks have written (`[spark] driver_bytes`)."""
_PIPELINE = """
[pipeline]
from = "{uri}"
to = "{tables}"
{more}
"""
Address = Callable[[Path, Setting], AbstractContextManager[str]]
"""Yields the address under which a store in a directory is read."""


def missing_spark() -> str | None:
    """Return what this machine lacks for a pipeline, and how to install that."""
    absent = [name for name in ("pyspark", "deltalake") if find_spec(name) is None]
    return f"no {', '.join(absent)} here: pip install 'logdrive[spark]'" if absent else None


def _prepare(setting: Setting) -> None:
    path = _store(setting)
    if not path.exists():  # the rows share it
        fill_store(path, setting, copies(setting))


def _finish(setting: Setting) -> None:
    shutil.rmtree(_store(setting), ignore_errors=True)


def _store(setting: Setting) -> Path:
    return setting.work / "tables_store"


@contextmanager
def _directory(store: Path, _: Setting) -> Iterator[str]:
    yield f"file://{store}#{STREAM}"


@contextmanager
def _network(store: Path, setting: Setting) -> Iterator[str]:
    with served_directory("pravega", store, setting) as (port, _):
        yield f"pravega://127.0.0.1:{port}/{STREAM}"


class _Watch:
    """Looks at a pipeline while it fills the table *events*: usage at each commit, peak memory.

    What it takes itself is little: both cores are the pipeline's, as they are the peer's.
    """

    def __init__(self, pid: int, events: Path) -> None:
        self._pid = pid
        self._events = events
        # usage when each version of the table was seen first
        self.seen: list[TreeUsage] = []
        self.peak = 0
        # how many entries the table's log had, and how many looks ago that was
        self._entries, self._since = 0, 0

    def look(self) -> None:
        entries = sum(1 for _ in (self._events / "_delta_log").glob("*.json"))
        self._since += 1
        if entries == self._entries and self._since < _LOOKS_A_USAGE:
            return
        usage = tree_usage(self._pid)
        self.peak = max(self.peak, usage.rss)
        if entries != self._entries:
            there = len(commits(self._events))
            self.seen += [usage] * (there - len(self.seen))
        self._entries, self._since = entries, 0


def _run(
    setting: Setting, address: Address, environment: Mapping[str, str] | None, *, local: bool
) -> Mapping[str, Sample]:
    tables = setting.work / "filled_tables"
    config = setting.work / "pipeline.toml"
    shutil.rmtree(tables, ignore_errors=True)
    try:
        with address(_store(setting), setting) as uri, family() as children:
            config.write_text(
                _PIPELINE.format(
                    uri=uri, tables=tables, more="" if local else "local_reads = false"
                )
            )
            began = time.time()
            child = Child(
                [*LOGDRIVE, "pipeline", "run", "--config", config, "--once"],
                log=setting.work / "pipeline.err",
                environment=None if environment is None else os.environ | environment,
            )
            children.append(child)
            watch = _Watch(child.pid, tables / "bronze" / "events")
            deadline = time.monotonic() + _LIMIT_SECONDS
            while child.poll() is None and time.monotonic() < deadline:
                watch.look()
                time.sleep(_LOOK_SECONDS)
            child.wait(1)
            demand_success(children)
            watch.look()
        return _figures(setting, tables, watch, began)
    finally:
        shutil.rmtree(tables, ignore_errors=True)


def _figures(setting: Setting, tables: Path, watch: _Watch, began: float) -> Mapping[str, Sample]:
    made = commits(tables / "bronze" / "events")
    rows, wanted = sum(commit.rows for commit in made), setting.lines * copies(setting)
    if rows != wanted:
        raise BenchmarkError(f"the table has {rows} rows, not {wanted}")
    line_bytes = setting.log.stat().st_size / setting.lines
    first = next(
        (at for at, commit in enumerate(made) if commit.rows * line_bytes >= LARGE_BYTES), None
    )
    if first is None or first == len(made) - 1:
        raise BenchmarkError("there were less than two large commits: more lines are needed")
    moved = sum(commit.rows for commit in made[first + 1 :]) * line_bytes
    seconds = made[-1].seconds - made[first].seconds
    cpu = watch.seen[len(made) - 1].cpu_seconds - watch.seen[first].cpu_seconds
    return {
        "raw_bytes": Sample(moved / seconds / 1e6, "MB/s"),
        "cpu": Sample(cpu / moved * 1e9, "s/GB"),
        "rows_per_second": Sample(moved / line_bytes / seconds, "rows/s"),
        "first_commit": Sample(made[0].seconds - began, "s"),
        "whole": Sample(made[-1].seconds - began, "s"),
        "peak_rss": Sample(watch.peak / 1e9, "GB"),
    }


def _benchmark(
    name: str,
    title: str,
    address: Address = _directory,
    environment: Mapping[str, str] | None = None,
    *,
    local: bool = True,
) -> Benchmark:
    return Benchmark(
        name,
        title,
        partial(_run, address=address, environment=environment, local=local),
        missing_spark,
        _prepare,
        _finish,
        peers=("spark.read_text",),
    )


_READ_TEXT_COPIES = 2
"""Copies of the log that Spark reads: the usage of a round does not depend on how many."""


def _read_text(setting: Setting) -> Mapping[str, Sample]:
    files = [setting.log] * _READ_TEXT_COPIES
    (made,) = read_text.rounds(files, setting.work, 1, _LIMIT_SECONDS)
    raw = setting.log.stat().st_size * len(files)
    return {
        "raw_bytes": Sample(raw / made.seconds / 1e6, "MB/s"),
        "cpu": Sample(made.cpu_seconds / raw * 1e9, "s/GB"),
    }


BENCHMARKS = (
    Benchmark(
        "spark.read_text",
        "Spark: spark.read.text → parquet (snappy), no other column, no table, in a warm JVM",
        _read_text,
        missing_spark,
    ),
    _benchmark("spark.table", "Spark: segments of packs → Delta table, one row a line"),
    _benchmark(
        "spark.table_network",
        "the same, all bytes over the store's network face",
        _network,
        local=False,
    ),
    _benchmark(
        "spark.table_python_loops",
        "the same as spark.table, with the loops in Python",
        environment=IN_PYTHON,
    ),
)
