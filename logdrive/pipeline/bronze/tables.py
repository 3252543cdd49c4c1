"""The two tables in DIR/bronze: where they are, and how they are opened."""

import os

from logdrive.pipeline.decode.schema import BATCHES, EVENTS
from logdrive.pipeline.tables.day_files import DAY
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.open_table import create_table, is_table, open_table


def table_paths(directory: str) -> tuple[str, str]:
    """Return the paths of the tables `events` and `batches` of *directory*."""
    bronze = os.path.join(os.path.abspath(directory), "bronze")
    return os.path.join(bronze, "events"), os.path.join(bronze, "batches")


def has_tables(directory: str) -> bool:
    """Return whether *directory* has both tables: a run killed amid making them leaves one."""
    return all(is_table(path) for path in table_paths(directory))


def open_tables(directory: str) -> tuple[AppendTable, AppendTable]:
    """Open the tables `events` and `batches` of *directory*. Raises `StorageError` if missing."""
    events, batches = table_paths(directory)
    return open_table(events, EVENTS), open_table(batches, BATCHES)


def create_tables(directory: str) -> tuple[AppendTable, AppendTable]:
    """Open the tables `events` and `batches` of *directory* for writing; create those missing.

    New ones are partitioned by day; those of earlier versions stay as they are. Raises
    `StorageError`.
    """
    events, batches = table_paths(directory)
    return (
        create_table(events, EVENTS.append(DAY), [DAY.name]),
        create_table(batches, BATCHES.append(DAY), [DAY.name]),
    )
