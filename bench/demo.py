"""`logdrive demo` as README has it, `--no-system-logs`: from log files to an audited table."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import orjson

from bench.commands import output_of
from bench.measure import Benchmark, Sample, Setting
from bench.processes import BenchmarkError
from bench.tables.silver import missing_tables


def _work(setting: Setting) -> Path:
    return setting.work / "demo"


def _run(setting: Setting) -> Mapping[str, Sample]:
    """Time the whole command; it makes and writes lines of its own, always as many."""
    began = time.monotonic()
    said = output_of(["demo", "--no-system-logs", "--json", "--work", _work(setting)], setting.work)
    seconds = time.monotonic() - began
    found = orjson.loads(said)
    if not found["complete"] or found["machine_files"]:
        raise BenchmarkError(f"the demo was another one, or not complete: {said.decode()}")
    return {"seconds": Sample(seconds, "s")}


BENCHMARKS = (
    Benchmark(
        "demo",
        "logdrive demo --no-system-logs, from start to end",
        _run,
        missing_tables,
        finish=lambda setting: shutil.rmtree(_work(setting), ignore_errors=True),
    ),
)
