"""Lines of one file that are there under two sources: of clones, restored hosts, renamed
certificates (rules A4, D6, ADR 16).

A source is a life of a file as one client told it, so what two of them say is never compared
otherwise, and each may be complete by itself. Two kinds of pairs are: sources of one origin, which
two client identities spoke for, and a source that says that it may send again (`resend`) beside the
others of its path. Rows are doubled up to where the two part. Runs in Spark, and only where there
are such pairs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from logdrive.pipeline.audit.sources import AuditedSource
from logdrive.pipeline.audit.verify_rows import rows_of
from logdrive.pipeline.bronze.tables import BronzeTable

TWO_CLIENTS: Final = "two_clients"
SENT_AGAIN: Final = "sent_again"
_RESENT: Final = "resent"
"""How the first one of two ends where somebody had the file sent again on purpose (rule A4)."""
_FEWEST_AGAIN: Final = 2
"""Lives that look alike share their first line; only more than that is a copy."""


@dataclass(frozen=True, slots=True)
class CopiedSource:
    """The first *lines* of *source*, which are those of *other*, too; *why* they are compared."""

    source: str
    other: str
    path: str | None
    lines: int
    bytes: int
    why: str


SourcePair = tuple[AuditedSource, AuditedSource, str]
"""The source that came later, the other one, and why the two are compared."""


def pairs(sources: Iterable[AuditedSource]) -> list[SourcePair]:
    """Return which sources are to be compared."""
    by_origin: dict[str, list[AuditedSource]] = {}
    by_path: dict[str, list[AuditedSource]] = {}
    for source in sources:
        if source.origin is not None and source.path is not None and not source.foreign:
            by_origin.setdefault(source.origin, []).append(source)
            by_path.setdefault(source.path, []).append(source)
    found: list[SourcePair] = []
    for alike in by_origin.values():
        first, *later = sorted(alike, key=lambda source: (source.first_heard, source.source))
        found += [(source, first, TWO_CLIENTS) for source in later]
    for alike in by_path.values():
        if not any(source.ended == _RESENT for source in alike):
            found += [
                (again, other, SENT_AGAIN)
                for again in alike
                if again.resend
                for other in _others(again, alike)
            ]
    return found


def _others(again: AuditedSource, alike: Sequence[AuditedSource]) -> list[AuditedSource]:
    """Return what *again* may have sent once more: the sources of its host, of any host where a
    clone has a new name.
    """
    others = [
        source
        for source in alike
        if source is not again and source.first_heard <= again.first_heard
    ]
    return [source for source in others if source.host == again.host] or others


def copies(spark: Any, events: BronzeTable, found: Sequence[SourcePair]) -> list[CopiedSource]:
    """Return for each source of the pairs *found* how far it is the other one's copy."""
    from pyspark.sql import functions as f

    if not found:
        return []
    which = spark.createDataFrame(
        [(source.source, other.source) for source, other, _ in found], "a string, b string"
    )
    line = (
        rows_of(spark, events)
        .selectExpr("source", "start", "end", "xxhash64(message, original) as text")
        .filter("start is not null")
    )
    ours = f.broadcast(which).join(line.withColumnRenamed("source", "a"), "a")
    theirs = (
        f.broadcast(which)
        .join(line.withColumnRenamed("source", "b"), "b")
        .withColumn("both", f.lit(True))
    )
    matched = ours.join(theirs, ["a", "b", "start", "end", "text"], "left")
    part = matched.groupBy("a", "b").agg(
        f.expr("min(start) filter (where both is null)").alias("part")
    )
    equal = matched.join(part, ["a", "b"]).filter("both and (part is null or start < part)")
    counted = (
        equal.groupBy("a", "b")
        .agg(f.count("*").alias("lines"), f.expr("sum(end - start)").alias("bytes"))
        .collect()
    )
    sizes = {(row["a"], row["b"]): (int(row["lines"]), int(row["bytes"])) for row in counted}
    return _longest([(pair, sizes.get((pair[0].source, pair[1].source), (0, 0))) for pair in found])


def _longest(sized: Iterable[tuple[SourcePair, tuple[int, int]]]) -> list[CopiedSource]:
    """Return one copy a source, the longest: no line of it is counted twice."""
    best: dict[str, CopiedSource] = {}
    for (source, other, why), (lines, size) in sized:
        if lines < (_FEWEST_AGAIN if why == SENT_AGAIN else 1):
            continue
        known = best.get(source.source)
        if known is None or lines > known.lines:
            best[source.source] = CopiedSource(
                source.source, other.source, source.path, lines, size, why
            )
    return sorted(best.values(), key=lambda copy: (copy.path or "", copy.source))
