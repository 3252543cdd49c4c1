"""Gold filled without Spark, and what it has to be: the same sums, in plain Python."""

from collections import Counter
from pathlib import Path

from logdrive.host.disk import SystemDisk
from logdrive.pipeline.gold.read import read_gold
from logdrive.pipeline.gold.schema import LATENCIES, MINUTES, TALKERS
from logdrive.pipeline.gold.writer import Gold, GoldStep
from logdrive.pipeline.silver.schema import DUPLICATES
from tests.logdrive.pipeline.silver.filled import read, tables_of

Sums = Counter[tuple[object, ...]]


def count(directory: Path) -> list[GoldStep]:
    """Run all steps there are."""
    steps = []
    with Gold(str(directory), disk=SystemDisk()) as tables:
        while (step := tables.next_step()) is not None:
            steps.append(step)
    return steps


def expected_lines(directory: Path) -> Sums:
    """Return the lines by minute, service and table, of all rows of silver."""
    sums: Sums = Counter()
    for table in tables_of(directory) - {DUPLICATES}:
        for row in read(directory, table).select(["time", "received", "service"]).to_pylist():
            minute = (row["time"] or row["received"]).replace(second=0, microsecond=0)
            sums[minute, row["service"], table] += 1
    return sums


def counted_lines(directory: Path) -> Sums:
    """Return what gold has counted of these."""
    rows = read_gold(str(directory), MINUTES).to_pylist()
    return Counter({(row["minute"], row["service"], row["table"]): row["lines"] for row in rows})


def total(directory: Path, table: str) -> int:
    """Return the lines of all rows of the gold table *table*."""
    return int(sum(read_gold(str(directory), table)["lines"].to_pylist()))


def check(directory: Path) -> None:
    """Compare gold with silver."""
    assert counted_lines(directory) == expected_lines(directory)
    access = read(directory, "access")
    assert total(directory, TALKERS) == access.num_rows
    assert total(directory, LATENCIES) == len(access["seconds"].drop_null())
