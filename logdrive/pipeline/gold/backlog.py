"""Which files of silver a gold table has not read yet."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from logdrive.pipeline.silver.balance import row_tables
from logdrive.pipeline.silver.schema import DUPLICATES, silver_directory
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.files import AddedFile

STEP_BYTES = 1 << 30
"""Limit on the files of one silver table in a step, if it has several versions."""


@dataclass(frozen=True, slots=True)
class SilverPart:
    """Versions of one silver table that are still to be read."""

    table: str
    version: int
    """The last of them."""
    files: tuple[str, ...]
    """Paths of the files that they added."""
    rows: int
    """Rows of these files, as far as the log tells."""


def silver_tables(directory: str) -> Mapping[str, AppendTable]:
    """Return the tables of silver that gold is made from, by name; none if there is no silver."""
    place = silver_directory(directory)
    if not os.path.isdir(place):
        return {}
    return {name: table for name, table in row_tables(place).items() if name != DUPLICATES}


def next_part(
    table: AppendTable, name: str, done: int | None, limit: int = STEP_BYTES
) -> SilverPart | None:
    """Return what the silver table *name* has behind version *done*; None if there is nothing.

    That is up to the version with which it reaches *limit* bytes. A table of which nothing was read
    yet is read as it is, whatever its past. Raises `StorageError` if the past is needed and gone.
    """
    if done is None:
        return _part(table, name, table.version, table.live_files())
    files: list[AddedFile] = []
    size, version = 0, done
    for version, added in table.added_since(done):  # noqa: B007 - the last one counts
        files += added
        size += sum(file.size for file in added)
        if size >= limit:
            break
    return _part(table, name, version, files) if version > done else None


def _part(table: AppendTable, name: str, version: int, files: Sequence[AddedFile]) -> SilverPart:
    paths = tuple(os.path.join(table.path, file.name) for file in files)
    # a file of another writer may have no count in the log
    return SilverPart(name, version, paths, sum(file.rows or 0 for file in files))
