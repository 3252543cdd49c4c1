"""`spark.read.text → parquet`: the least that Spark itself needs to make a table of lines.

No decompression, no coordinates, no Delta log, no sync, one column. In one JVM, again and again,
since its first rounds compile its code. `python -m bench.peers.read_text OUT ROUNDS FILE…` is the
program whose rounds are measured; it prints a round's usage as a line of JSON.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.process_tree import tree_usage
from bench.processes import Child, demand_success, family

WARM_UP = 2
"""Rounds that are not counted."""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class Round:
    """What one round took."""

    seconds: float
    cpu_seconds: float  # of driver and JVM


def rounds(files: list[Path], work: Path, count: int, seconds: float) -> list[Round]:
    """Return *count* warm rounds over *files*, each of which is read whole."""
    out = work / "read_text.parquet"
    command = [sys.executable, "-m", "bench.peers.read_text", out, WARM_UP + count, *files]
    log = work / "read_text.err"
    try:
        with family() as children:
            child = Child(list(map(str, command)), log=log, stdout=subprocess.PIPE)
            children.append(child)
            child.wait(seconds)
            demand_success(children)
            lines = child.output.read().splitlines()
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return [Round(**json.loads(line)) for line in lines[WARM_UP:]]


def _main(out: str, count: int, files: list[str]) -> None:
    # not a session of the pipeline's, whose JVM compiles quickly and not well
    from pyspark.sql import SparkSession

    from logdrive.pipeline.spark.java import find_java_home

    os.environ["JAVA_HOME"] = str(find_java_home(os.environ))
    builder = SparkSession.builder.master(f"local[{len(os.sched_getaffinity(0))}]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        for _ in range(count):
            before, began = tree_usage(os.getpid()).cpu_seconds, time.monotonic()
            writer = spark.read.text(files).write.option("compression", "snappy")
            writer.mode("overwrite").parquet(out)
            used = tree_usage(os.getpid()).cpu_seconds - before
            print(
                json.dumps({"seconds": time.monotonic() - began, "cpu_seconds": used}), flush=True
            )
    finally:
        spark.stop()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
