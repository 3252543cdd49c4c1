"""Reads and changes a Delta table by delta-spark, or by DuckDB's own reader of Delta.

Runs in an environment of its own (`peers.py`), which does not know logdrive. Takes lines of JSON,
each with the name of a function here and its arguments, and answers each with a line of JSON.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

SUMS = ("ordinal", "start", "end")


def duckdb_figures(path: str) -> Any:
    import duckdb

    (place,) = importlib.import_module("duckdb_ext").__path__
    (extension,) = Path(place).rglob("delta.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        sums = ", ".join(f'sum("{name}")' for name in SUMS)
        asked = f"SELECT count(*), {sums}, sum(length(message)) FROM delta_scan('{path}')"
        return connection.execute(asked).fetchone()


class Spark:
    """A session with delta-spark's extensions, from jars in a directory."""

    def __init__(self, jars: str) -> None:
        from pyspark.sql import SparkSession

        settings = {
            "spark.jars": ",".join(map(str, Path(jars).glob("*.jar"))),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "700m",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # of VACUUM
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._session = builder.getOrCreate()

    def figures(self, path: str) -> list[int]:
        table = self._session.read.format("delta").load(path)
        sums = [f"sum(`{name}`)" for name in SUMS]
        return list(table.selectExpr("count(*)", *sums, "sum(length(message))").first())

    def variant_figures(self, path: str) -> list[Any]:
        """Return figures of orders, of which `rest` is a VARIANT."""
        table = self._session.read.format("delta").load(path)
        asked = (
            "count(*)",
            "count(rest)",
            "min(typeof(rest))",
            "sum(variant_get(rest, '$.user.id', 'bigint'))",
            "min(variant_get(rest, '$.user.name', 'string'))",
            "string(max(variant_get(rest, '$.big', 'decimal(38,0)')))",
        )
        return list(table.selectExpr(*asked).first())

    def append(self, path: str, application: str) -> None:
        """Append a row of *path* once more, as a transaction of *application*."""
        rows = self._session.read.format("delta").load(path).limit(1)
        options = {"txnAppId": application, "txnVersion": 1}
        rows.write.format("delta").mode("append").options(**options).save(path)

    def optimize(self, path: str) -> Any:
        return self._session.sql(f"OPTIMIZE delta.`{path}`").count()

    def vacuum(self, path: str) -> Any:
        return self._session.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS").count()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # VACUUM prints
    spark: Spark | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        name, arguments = asked["call"], asked["with"]
        if name == "duckdb_figures":
            answer = duckdb_figures(*arguments)
        else:
            spark = spark or Spark(sys.argv[1])
            answer = getattr(spark, name)(*arguments)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
