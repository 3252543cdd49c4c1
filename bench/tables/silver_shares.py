"""The format of each file, the silver tables of its lines, and the share of them that are read.

By itself it prints them of the tables in a directory:

    python -m bench.tables.silver_shares DIR
"""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping

import pyarrow.compute as pc

from logdrive.pipeline.silver.balance import row_tables
from logdrive.pipeline.silver.schema import QUARANTINE, SOURCES, silver_directory
from logdrive.pipeline.tables.open_table import open_table_as_it_is


def count_rows(directory: str) -> Mapping[str, Counter[str]]:
    """Return how many rows of each silver table in *directory* are lines of each file, by path."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    has_path = pc.field("path").is_valid()
    for name, table in row_tables(silver_directory(directory)).items():
        for one in table.read_rows(["path"], has_path)["path"].value_counts().to_pylist():
            rows[one["values"]][name] += one["counts"]
    return rows


def read_formats(directory: str) -> dict[str, str]:
    """Return the format that was decided for each file, by path."""
    sources = open_table_as_it_is(os.path.join(silver_directory(directory), SOURCES))
    rows = sources.read_rows(["path", "format"]).to_pylist()
    return {row["path"]: row["format"] for row in rows}


def main() -> None:
    """Print a line for each file whose lines are in the tables of the directory that is named."""
    formats = read_formats(sys.argv[1])
    for path, tables in sorted(count_rows(sys.argv[1]).items()):
        lines, quarantined = tables.total(), tables[QUARANTINE]
        names = ", ".join(sorted(tables.keys() - {QUARANTINE})) or "none"
        print(
            f"{path}: {formats.get(path)}, table {names}, {lines:,} lines, "
            f"{quarantined:,} in quarantine, {1 - quarantined / lines:.2%} read"
        )


if __name__ == "__main__":
    main()
