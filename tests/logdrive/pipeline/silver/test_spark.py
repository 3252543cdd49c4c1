"""Silver filled by Spark's tasks has the same rows, and Spark reads them."""

from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.silver import writer
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.writer import Silver
from logdrive.pipeline.spark.tasks import SparkTasks
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import Stream, bronze_rows, grow, silver_rows


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


def test_spark_reads_a_rest_that_its_tasks_have_written_as_a_variant(
    tmp_path: Path, spark: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(writer, "_SMALL", 0)
    bare = b'{"message":"nothing more"}\n'
    line = b'{"message":"paid","user":{"id":%d,"name":"ann"},"price":1.25,"big":%d}\n'
    Stream(tmp_path).add(orders=bare + b"".join(line % (n, 2**70) for n in range(60)))
    with Silver(
        str(tmp_path),
        SilverConfig(rest="variant"),
        SparkTasks(spark.sparkContext),
        clock=SystemClock(),
        disk=SystemDisk(),
    ) as tables:
        assert tables.next_step() is not None

    files = DeltaTable(str(tmp_path / "silver" / "json")).file_uris()
    rows = spark.read.schema("message string, rest variant").parquet(*files)
    said = rows.selectExpr(
        "count(*)",
        "count(rest)",
        "sum(variant_get(rest, '$.user.id', 'bigint'))",
        "min(variant_get(rest, '$.user.name', 'string'))",
        "min(variant_get(rest, '$.price', 'string'))",
        "max(variant_get(rest, '$.big', 'decimal(38,0)'))",
    ).first()
    assert list(said) == [61, 60, sum(range(60)), "ann", "1.25", 2**70]
