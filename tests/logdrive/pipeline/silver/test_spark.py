"""Silver filled by Spark's tasks has the same rows."""

from pathlib import Path
from typing import Any

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.silver import writer
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.writer import Silver
from logdrive.pipeline.spark.tasks import SparkTasks
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import bronze_rows, grow, silver_rows


def test_tasks_of_spark_fill_silver(tmp_path: Path, spark: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(writer, "_SMALL", 0)  # else so little stays in this process
    segment = Segment()
    for part in range(3):
        grow(tmp_path, segment, part)
    with Silver(
        str(tmp_path),
        SilverConfig(),
        SparkTasks(spark.sparkContext),
        clock=SystemClock(),
        disk=SystemDisk(),
    ) as tables:
        step = tables.next_step()
    assert step is not None
    assert (step.bronze, step.quarantined) == (3 * 97, 6)
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)
