"""Files rebuilt from all rows of the tables at once: from bronze's, and from those in silver."""

import pyarrow as pa

from logdrive.pipeline.bronze.rebuild import COLUMNS, rebuild
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.silver.balance import row_tables
from logdrive.pipeline.silver.schema import silver_directory

COORDINATES = ("batch", "ordinal")


def bronze_rows(directory: str) -> pa.Table:
    """Return the rows of bronze that are a line of a file."""
    rows = open_tables(directory)[0].read_rows([*COORDINATES, "source", *COLUMNS])
    return rows.filter(rows["start"].is_valid())


def rows_in_silver(directory: str) -> pa.Table:
    """Return the row of bronze that stands at the coordinates of each row of silver.

    What silver has twice is there twice; what it lacks is missing.
    """
    tables = row_tables(silver_directory(directory)).values()
    coordinates = pa.concat_tables([table.read_rows(COORDINATES) for table in tables])
    return coordinates.join(bronze_rows(directory), list(COORDINATES), join_type="left outer")


def rebuild_files(rows: pa.Table) -> dict[str, list[tuple[int, bytes]]]:
    """Return the contiguous pieces of each source's file, by source, as (position, bytes).

    Raises ValueError if a line is there twice.
    """
    ordered, at, files = rows.sort_by("source"), 0, {}
    for run in ordered["source"].value_counts().to_pylist():
        files[run["values"]] = list(rebuild(ordered.slice(at, run["counts"])))
        at += run["counts"]
    return files
