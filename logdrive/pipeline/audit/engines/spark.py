"""Answers an audit's questions by a Spark session: for tables that a cluster holds."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from logdrive.pipeline.audit.engines.engine import FIGURES, SUMS, SourceNames
from logdrive.pipeline.audit.position_hash import HASH_BITS
from logdrive.pipeline.audit.unreadable import DamagedFile, find_damage, only_damaged
from logdrive.pipeline.decode.schema import (
    CHANGED,
    CUT,
    DAMAGED_PACK,
    EVENTS,
    QUARANTINED,
    REDACTED,
    WHOLE,
    plain_schema,
)
from logdrive.pipeline.tables.delta import AppendTable

_HASH = f"(xxhash64({{0}}) & {HASH_BITS}L)"
_OF_ROW: Final = {
    "found": "1L",
    "row_bytes": "end - start",
    "unplaced": "int(start is null or end is null)",
    "empty": "int(end <= start)",
    "quarantined": f"int(flag in {QUARANTINED!r})",
    "damaged": f"int(flag = '{DAMAGED_PACK}')",
    "changed": f"int(flag in ('{CHANGED}', '{WHOLE}'))",
    "cut": f"int(flag = '{CUT}')",
    "whole": f"int(flag = '{WHOLE}')",
    "redacted": f"int(flag = '{REDACTED}')",
    "unended": "int(eol = '')",
    "arrows": (
        "case when start is not null and end is not null "
        f"then {_HASH.format('start')} - {_HASH.format('end')} end"
    ),
}
"""Figure -> SQL for what one row adds to it; null adds nothing."""
_MOST_TASKS: Final = 1000
"""Tasks in which files are read whole."""


class SparkEngine:
    """Reads the rows with *spark*, a session.

    With *full* its tasks read all columns of all files first, as `ArrowEngine` does.
    """

    def __init__(self, spark: Any, events: AppendTable, *, full: bool = False) -> None:
        self._spark = spark
        self._unreadable = self._find_unreadable(events.files) if full else []
        damaged = {one.path for one in self._unreadable}
        self._rows = self._open([path for path in events.files if path not in damaged])

    def _find_unreadable(self, paths: Sequence[str]) -> list[DamagedFile]:
        if not paths:
            return []
        tasks = min(len(paths), _MOST_TASKS)
        found = self._spark.sparkContext.parallelize(paths, tasks).map(find_damage).collect()
        return only_damaged(found)

    def _open(self, paths: Sequence[str]) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        columns = from_arrow_schema(plain_schema(EVENTS))
        if not paths:
            return self._spark.createDataFrame([], columns)
        return self._spark.read.schema(columns).parquet(*paths)

    def unreadable_files(self) -> Sequence[DamagedFile]:
        """Return the files that can't be read; see `AuditEngine`."""
        return self._unreadable

    def sum_rows(self) -> pa.Table:
        """Return `SUMS` over all rows. The sums of all batches must fit the driver."""
        added = self._rows.selectExpr(
            "batch", "source", *(f"{_OF_ROW[name]} as {name}" for name in FIGURES)
        )
        from pyspark.sql import functions as f

        sums = added.groupBy("batch", "source").agg(
            *(f.expr(f"coalesce(sum({name}), 0L)").alias(name) for name in FIGURES)
        )
        return sums.toArrow().cast(SUMS)

    def damage_reasons(self) -> Mapping[int, str]:
        """Return why packs can't be opened, by batch."""
        found = self._rows.filter(f"flag = '{DAMAGED_PACK}'").selectExpr(
            "batch", "get_json_object(fields, '$.error.message') as reason"
        )
        return {row["batch"]: row["reason"] for row in found.collect()}

    def count_doubled(self, sources: Sequence[str]) -> int:
        """Return how many rows of *sources* share their start with another one of their source."""
        from pyspark.sql import functions as f

        doubled = (
            self._rows.filter(f.col("source").isin(list(sources)) & f.col("start").isNotNull())
            .groupBy("source", "start")
            .count()
            .filter("count > 1")
            .agg(f.sum(f.col("count") - 1))
            .first()
        )
        return int(doubled[0] or 0)

    def count_continuing(self) -> Mapping[str, int]:
        """Return, by source, how many rows continue the line of another row.

        Costs a join with the rows without a line end, which are few.
        """
        from pyspark.sql import functions as f

        path = "coalesce(if(form = 'foreign', path, ''), '') as file"
        rows = self._rows.filter("start is not null")
        unended = rows.filter("eol = ''").selectExpr("source", path, "end as start").distinct()
        places = rows.selectExpr("source", path, "start")
        counted = (
            places.join(f.broadcast(unended), ["source", "file", "start"], "left_semi")
            .groupBy("source")
            .count()
            .collect()
        )
        return {row["source"]: row["count"] for row in counted}

    def size_copies(self, pairs: Sequence[SourceNames]) -> Mapping[SourceNames, tuple[int, int]]:
        """Return how many rows and bytes the two sources of each pair begin with alike."""
        from pyspark.sql import functions as f

        which = self._spark.createDataFrame(list(pairs), "a string, b string")
        # the messages themselves are not compared, only their hashes
        line = self._rows.selectExpr(
            "source", "start", "end", "xxhash64(message, original) as text"
        ).filter("start is not null")
        ours = f.broadcast(which).join(line.withColumnRenamed("source", "a"), "a")
        theirs = (
            f.broadcast(which)
            .join(line.withColumnRenamed("source", "b"), "b")
            .distinct()
            .withColumn("both", f.lit(True))
        )

        # the first row of a source that the other one lacks is where the two part
        matched = ours.join(theirs, ["a", "b", "start", "end", "text"], "left")
        part = matched.groupBy("a", "b").agg(
            f.expr("min(start) filter (where both is null)").alias("part")
        )
        equal = matched.join(part, ["a", "b"]).filter("both and (part is null or start < part)")

        counted = (
            equal.groupBy("a", "b")
            .agg(f.count("*").alias("rows"), f.expr("sum(end - start)").alias("bytes"))
            .collect()
        )
        return {(row["a"], row["b"]): (int(row["rows"]), int(row["bytes"])) for row in counted}
