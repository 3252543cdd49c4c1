"""Verifies that `events` has exactly the rows that `batches` says were kept (rule A3).

Runs in Spark, batch by batch. The method is a path cover, checked by a multiset hash:

- Rows, dropped intervals and kept intervals are edges from their start to their end.
- Every edge goes from a smaller to a larger position, so the graph has no cycle.
- If, at each position, as many edges of rows and dropped intervals begin as end, except at the ends
  of the kept intervals, then they form a path through each kept interval: they tile it, with no gap
  and no overlap.
- Counting edges per position would need a join. Instead positions are hashed, and per batch the
  hashes of starts minus those of ends are summed: the sum over rows and dropped intervals must
  equal the sum over kept intervals. Sums that should differ are equal with a probability of 2^-40
  per batch.

Nothing is sorted, and messages are not read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from logdrive.pipeline.decode.schema import BATCHES, EVENTS, plain_schema
from logdrive.pipeline.tables.delta import AppendTable

# of a hash: sums over the rows of a batch then stay within 64 bits
_BITS = (1 << 40) - 1
_HASH = "(xxhash64({0}) & {1}L)"

_QUARANTINED = (
    "flag in "
    "('headless', 'not_json', 'not_object', 'malformed', 'incomplete', 'torn', 'damaged_pack')"
)
# column -> SQL for what one row of `events` adds to it
_OF_ROWS = {
    "found": "1L",
    "row_bytes": "end - start",
    "unplaced": "int(start is null or end is null)",
    "empty": "int(end <= start)",
    "quarantined": f"int({_QUARANTINED})",
    "damaged": "int(flag = 'damaged_pack')",
    "changed": "int(flag in ('changed', 'whole'))",
    "cut": "int(flag = 'cut')",
    "whole": "int(flag = 'whole')",
    "unended": "int(eol = '')",
}
# column -> SQL for what one row of `batches` adds to it
_OF_HEADERS = {
    "expected": "rows",
    "kept_bytes": "aggregate(kept, 0L, (a, x) -> a + x.end - x.start)",
    "dropped_bytes": "aggregate(dropped, 0L, (a, x) -> a + x.end - x.start)",
}

_WHAT = """
  case
    when kind is null then null
    when damaged > 0 then 'a pack that does not hold what its header says'
    when found <> expected then 'rows are missing or duplicated'
    when kind = 'foreign' and expected <> events then 'rows do not match the header'
    when kind <> 'data' then null
    when kept_bytes = wide and expected <> events then 'rows do not match the header'
    when kept_bytes = wide and dropped_bytes <> skipped then 'dropped bytes do not match the header'
    when unplaced > 0 then 'records that contradict their form'
    when empty > 0 then 'rows without bytes'
    when changed > 0 then 'rows that are not the bytes of their file'
    when row_bytes + dropped_bytes <> kept_bytes then 'rows do not fill their interval'
    when arrows <> 0 then 'rows do not tile their interval'
  end"""
"""SQL for what is wrong with a batch; null if nothing is.

Rows without a header belong to a commit whose second half is missing.
"""

_MISSING = (
    "case when kind = 'data' then greatest(0L, kept_bytes - dropped_bytes - row_bytes) else 0L end"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A batch whose rows are not those that its header and the kept intervals require."""

    batch: int
    source: str | None
    path: str | None
    kind: str
    # the bytes of the file that its header speaks of; None if it has no positions
    previous: int | None
    position: int | None
    expected: int  # rows, by the header
    found: int  # rows
    missing_bytes: int
    what: str  # is wrong
    reason: str | None = None  # why a pack can't be opened


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of comparing rows with headers; counts are rows."""

    rows: int
    quarantined: int  # could not be decoded
    cut: int  # hold a part of an event
    whole: int  # hold a whole event, of which a part was there before
    uncommitted: int  # of a commit to `events` without the one to `batches`
    faults: list[Fault]
    unended: int = 0  # without a line end
    # rows that could not be decoded, by source; "" is that of rows without one
    quarantined_of: Mapping[str, int] = field(default_factory=dict)


def prove_rows(spark: Any, events: AppendTable, batches: AppendTable) -> Proof:
    """Compare the rows with the headers.

    Open *batches* before *events*, whose commit comes first: rows may then be ahead of headers, but
    never behind.
    """
    rows = _frame(spark, events, EVENTS)
    totals = _judge_batches(_sum_by_batch(rows, _frame(spark, batches, BATCHES)))
    faults = [Fault(**fault.asDict()) for fault in totals["faults"]]
    if totals["damaged"]:
        reasons = _damage_reasons(rows)
        faults = [replace(fault, reason=reasons.get(fault.batch)) for fault in faults]
    faults.sort(key=lambda fault: (fault.source or "", fault.previous or 0, fault.batch))
    return Proof(
        totals["found"],
        totals["quarantined"],
        totals["cut"],
        totals["whole"],
        totals["uncommitted"],
        faults,
        totals["unended"],
        _quarantined_by_source(rows) if totals["quarantined"] else {},
    )


def _damage_reasons(rows: Any) -> dict[int, str]:
    """Return why the packs of damaged batches can't be opened, by batch."""
    found = rows.filter("flag = 'damaged_pack'").selectExpr(
        "batch", "get_json_object(fields, '$.error.message') as reason"
    )
    return {row["batch"]: row["reason"] for row in found.collect()}


def _quarantined_by_source(rows: Any) -> dict[str, int]:
    counted = rows.filter(_QUARANTINED).groupBy("source").count().collect()
    return {row["source"] or "": row["count"] for row in counted}


def _sum_by_batch(events: Any, batches: Any) -> Any:
    """Return a row for each batch: the sums over its rows and its header, and header columns."""
    from pyspark.sql import functions as f

    both = _rows(events).unionByName(_headers(batches), allowMissingColumns=True)
    return both.groupBy("batch").agg(
        *(
            f.expr(f"coalesce(sum({name}), 0L)").alias(name)
            for name in (*_OF_ROWS, *_OF_HEADERS, "arrows")
        ),
        # a batch has one header, so its greatest value is its only one; null without a header
        *(
            f.max(name).alias(name)
            for name in (
                *("source", "path", "kind", "previous", "position"),
                *("events", "skipped", "wide"),
            )
        ),
    )


def _judge_batches(sums: Any) -> Any:
    """Return one row: the totals of *sums* over all batches, and the faults among the batches."""
    from pyspark.sql import functions as f

    fault = f.struct(
        "batch",
        "source",
        "path",
        "kind",
        "previous",
        "position",
        "expected",
        "found",
        f.expr(_MISSING).alias("missing_bytes"),
        f.expr(_WHAT).alias("what"),
    )
    return (
        sums.select(*_OF_ROWS, "kind", fault.alias("fault"))
        .agg(
            *(f.expr(f"coalesce(sum({name}), 0L)").alias(name) for name in _OF_ROWS),
            f.expr("coalesce(sum(found) filter (where kind is null), 0L)").alias("uncommitted"),
            f.expr("collect_list(fault) filter (where fault.what is not null)").alias("faults"),
        )
        .first()
    )


def doubled_rows(spark: Any, events: AppendTable, sources: Sequence[str]) -> int:
    """Return how many rows of *sources* share their start with another row of the same source.

    Of the rows at one position all but one are counted.
    """
    from pyspark.sql import functions as f

    rows = _frame(spark, events, EVENTS).filter(
        f.col("source").isin(list(sources)) & f.col("start").isNotNull()
    )
    doubled = (
        rows.groupBy("source", "start")
        .count()
        .filter("count > 1")
        .agg(f.sum(f.col("count") - 1))
        .first()
    )
    return int(doubled[0] or 0)


def events_frame(spark: Any, events: AppendTable) -> Any:
    """Return the rows of *events* as a data frame."""
    return _frame(spark, events, EVENTS)


def continuing_rows(spark: Any, events: AppendTable) -> dict[str, int]:
    """Return, by source, how many rows continue the line of another row.

    That row has no line end, and ends where they start. Costs a join with the rows without a line
    end, which are few.
    """
    from pyspark.sql import functions as f

    path = "coalesce(if(form = 'foreign', path, ''), '') as file"  # a foreign peer has many files
    rows = _frame(spark, events, EVENTS).filter("start is not null")
    unended = rows.filter("eol = ''").selectExpr("source", path, "end as start").distinct()
    places = rows.selectExpr("source", path, "start")
    counted = (
        places.join(f.broadcast(unended), ["source", "file", "start"], "left_semi")
        .groupBy("source")
        .count()
        .collect()
    )
    return {row["source"]: row["count"] for row in counted}


def _frame(spark: Any, table: AppendTable, schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = from_arrow_schema(plain_schema(schema))
    files = table.files
    return (
        spark.read.schema(columns).parquet(*files) if files else spark.createDataFrame([], columns)
    )


def _arrow(start: str, end: str) -> str:
    return f"({_HASH.format(start, _BITS)} - {_HASH.format(end, _BITS)})"


def _rows(events: Any) -> Any:
    return events.selectExpr(
        "batch",
        *(f"{sql} as {name}" for name, sql in _OF_ROWS.items()),
        f"{_arrow('start', 'end')} as arrows",
    )


def _headers(batches: Any) -> Any:
    """Return what each header adds to the sums.

    A header that was read again, after the store was restored, keeps nothing and so adds nothing.
    """
    arrows = f"a + {_arrow('x.start', 'x.end')}"
    return batches.selectExpr(
        "batch",
        "source",
        "path",
        "kind",
        "previous",
        "position",
        "events",
        "skipped",
        "position - previous as wide",
        *(f"{sql} as {name}" for name, sql in _OF_HEADERS.items()),
        f"coalesce(aggregate(dropped, 0L, (a, x) -> {arrows}), 0L) - "
        f"coalesce(aggregate(kept, 0L, (a, x) -> {arrows}), 0L) as arrows",
    )
