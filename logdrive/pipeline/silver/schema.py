"""Columns and places of the silver tables; `docs/tables.md` explains them.

Each row of `bronze.events` becomes one row of one silver table: of its format's, of `text` if it
has none, of `quarantine` if its format can't read it, of `duplicates` if it was sent again.
"""

import os
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from logdrive.pipeline.decode.schema import LABEL, TIME
from logdrive.pipeline.tables.day_files import DAY

TEXT: Final = "text"
"""Table of the lines of sources without a format."""
QUARANTINE: Final = "quarantine"
"""Table of the lines that their format can't read, and of bronze's quarantined rows."""
DUPLICATES: Final = "duplicates"
"""Table of the lines that a foreign peer sent again: where they are in bronze, not their text."""
SOURCES: Final = "sources"
"""Table of the formats that were decided; its commits are the steps of the others."""
SENT: Final = "sent"
"""Table of what foreign peers have sent: the coordinates by which a line that comes again is
recognized.
"""
LEDGERS: Final = (SOURCES, SENT)
"""Tables whose rows are not rows of bronze."""

TABLES_OF_OURS: Final = (TEXT, QUARANTINE, DUPLICATES, SOURCES, SENT)
"""Tables that are no format's."""

BRONZE: Final = "bronze"
"""Name of the mark that a silver table has: the version of `bronze.events` processed last."""

COMMON: Final = (
    pa.field("batch", pa.int64(), nullable=False),
    pa.field("ordinal", pa.int32(), nullable=False),
    pa.field("source", LABEL),
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
    pa.field("host", LABEL),
    pa.field("path", LABEL),
    pa.field("service", LABEL),
    pa.field("time", TIME),
    pa.field("received", TIME),
)
"""The first columns of every table of rows; the last one is `day`, which its files don't have."""

REST: Final = "rest"
"""The column of what a format has no column for: JSON as text, or as VARIANT."""

TEXT_COLUMNS: Final = (pa.field("message", pa.string()), pa.field(REST, pa.string()))

QUARANTINE_COLUMNS: Final = (
    pa.field("format", LABEL),
    pa.field("reason", LABEL),
    pa.field("message", pa.string()),
    pa.field("original", pa.binary()),
)

DUPLICATES_COLUMNS: Final = (pa.field("reason", LABEL),)

SOURCES_SCHEMA: Final = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("path", pa.string()),
        pa.field("by_path", pa.bool_(), nullable=False),
        pa.field("host", pa.string()),
        pa.field("format", pa.string(), nullable=False),
        pa.field("service", pa.string()),
        pa.field("service_by", pa.string(), nullable=False),
        pa.field("options", pa.string()),
        pa.field("table", pa.string(), nullable=False),
        pa.field("decided", TIME, nullable=False),
    ]
)
"""One row for each source, or path of a foreign peer, whose format was decided."""


def rows_schema(own: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of files of rows whose own columns are *own*.

    One of these that is named like a column of all tables gets the prefix `line_`.
    """
    common = {field.name for field in (*COMMON, DAY)}
    named = (
        field.with_name(f"line_{field.name}") if field.name in common else field for field in own
    )
    return pa.schema([*COMMON, *named])


def silver_directory(directory: str) -> str:
    """Return where the silver tables are in *directory*, that of all tables."""
    return os.path.join(os.path.abspath(directory), "silver")
