"""The table `erased`: which rows were removed from `events`, by whom, and why.

It has where each row was, and not what it said. An audit counts these rows as if they were there.
"""

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.bronze.tables import table_paths
from logdrive.pipeline.decode.schema import LABEL, TIME, plain_schema
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.open_table import create_table, is_table, open_table

ERASURE: Final = "erasure"
"""Name of the mark that `erased` and `events` have: the number of the last erasure they know."""
FINISHED: Final = "finished"
"""Name of the mark of `erased`: the number of the last erasure that all tables have seen."""
PLACES: Final = ("batch", "ordinal", "source", "start", "end", "flag", "eol")
"""The columns that a row had in `events`."""

ERASED_SCHEMA: Final = pa.schema(
    [
        pa.field("erasure", pa.int64(), nullable=False),
        pa.field("at", TIME, nullable=False),
        pa.field("by", LABEL, nullable=False),
        pa.field("why", LABEL),
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("source", LABEL),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("flag", LABEL),
        pa.field("eol", LABEL),
    ]
)


@dataclass(frozen=True, slots=True)
class Erasure:
    """Rows that were erased at once."""

    at: datetime
    by: str
    why: str | None
    rows: int
    sources: int

    @property
    def who(self) -> str:
        """When it was recorded, by whom, and why, as text."""
        why = f" ({self.why})" if self.why else ""
        return f"at {self.at:%Y-%m-%d %H:%M:%S}+00:00 by {self.by}{why}"


def erased_path(directory: str) -> str:
    """Return where the table `erased` of *directory* is, or would be."""
    return os.path.join(os.path.dirname(table_paths(directory)[0]), "erased")


def open_erased(directory: str) -> AppendTable:
    """Open the table, and create it if there is none. Raises `StorageError`."""
    return create_table(erased_path(directory), ERASED_SCHEMA)


def has_erasures(directory: str) -> bool:
    """Return whether rows were ever erased from the tables in *directory*."""
    return bool(_read_mark(directory, ERASURE))


def last_finished(directory: str) -> int:
    """Return the number of the last erasure that all tables in *directory* have seen, 0 for none.

    Raises `StorageError`.
    """
    return _read_mark(directory, FINISHED)


def _read_mark(directory: str, name: str) -> int:
    path = erased_path(directory)
    return (open_table(path, ERASED_SCHEMA).mark(name) or 0) if is_table(path) else 0


def read_erased(directory: str, events: AppendTable) -> pa.Table:
    """Return the rows of `erased` that are gone from *events*; none if nothing was ever erased.

    Raises `StorageError`.
    """
    last = events.mark(ERASURE)
    if last is None or not is_table(erased_path(directory)):
        return plain_schema(ERASED_SCHEMA).empty_table()
    table = open_table(erased_path(directory), ERASED_SCHEMA)
    rows = table.read_rows(ERASED_SCHEMA.names, pc.field("erasure") <= last)
    return rows.cast(plain_schema(ERASED_SCHEMA))


def find_unfinished(directory: str) -> Erasure | None:
    """Return the erasure that was recorded, but which not all tables in *directory* have seen.

    None if there is none. Raises `StorageError`.
    """
    path = erased_path(directory)
    if not is_table(path):
        return None
    table = open_table(path, ERASED_SCHEMA)
    last = table.mark(ERASURE) or 0
    if (table.mark(FINISHED) or 0) == last:
        return None
    rows = table.read_rows(ERASED_SCHEMA.names, pc.field("erasure") == last)
    return list_erasures(rows.cast(plain_schema(ERASED_SCHEMA)))[0]


def list_erasures(rows: pa.Table) -> list[Erasure]:
    """Return the erasures in *rows* of `read_erased`, in their order."""
    grouped = rows.group_by(["erasure", "at", "by", "why"], use_threads=False).aggregate(
        [("batch", "count"), ("source", "count_distinct")]
    )
    return [
        Erasure(row["at"], row["by"], row["why"], row["batch_count"], row["source_count_distinct"])
        for row in grouped.sort_by("erasure").to_pylist()
    ]
