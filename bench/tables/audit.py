"""`logdrive pipeline audit` of the tables of 1 GB of lines: the first time, and again."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from bench.commands import LOGDRIVE
from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError, Child
from bench.tables.fill import missing_spark
from bench.tables.store import STREAM, copies, fill_store

_RAW_BYTES = 1_000_000_000
_LIMIT_SECONDS = 600.0


def _tables(setting: Setting) -> Path:
    return setting.work / "audited_tables"


def _prepare(setting: Setting) -> None:
    store = setting.work / "audited_store"
    shutil.rmtree(_tables(setting), ignore_errors=True)
    fill_store(store, setting, copies(setting, _RAW_BYTES))
    try:
        _logdrive(
            setting, "run", "--from", f"file://{store}#{STREAM}", "--to", _tables(setting), "--once"
        )
    finally:
        shutil.rmtree(store, ignore_errors=True)


def _finish(setting: Setting) -> None:
    shutil.rmtree(_tables(setting), ignore_errors=True)


def _logdrive(setting: Setting, *arguments: str | Path) -> tuple[float, float, int]:
    """Run a command of the pipeline; return its seconds, CPU seconds and peak memory."""
    began = time.monotonic()
    child = Child([*LOGDRIVE, "pipeline", *arguments], log=setting.work / "audit.err")
    usage = child.wait(_LIMIT_SECONDS)
    if usage.code != 0:
        raise BenchmarkError(f"pipeline {arguments[0]} ended with {usage.code}: {child.said()}")
    return usage.ended - began, usage.cpu_seconds, usage.peak_rss


def _run(setting: Setting) -> Mapping[str, Sample]:
    first = _logdrive(setting, "audit", _tables(setting), "--full")
    again = _logdrive(setting, "audit", _tables(setting))
    gigabytes = setting.log.stat().st_size * copies(setting, _RAW_BYTES) / 1e9
    return {
        "seconds": Sample(first[0] / gigabytes, "s/GB"),
        "cpu": Sample(first[1] / gigabytes, "s/GB"),
        "peak_rss": Sample(first[2] / 1e6, "MB"),
        "again": Sample(again[0], "s"),
    }


BENCHMARKS = (
    Benchmark(
        "tables.audit",
        "logdrive pipeline audit --full of tables of 1 GB of lines, from start to end",
        _run,
        missing_spark,
        _prepare,
        _finish,
    ),
)
