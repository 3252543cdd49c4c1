"""Adds up bronze and silver: of each source, every row of bronze is one row of silver.

The rows themselves are counted, not what commits say of them. Only the column `source` is read.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from logdrive.errors import StorageError
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.silver.backlog import NOTHING
from logdrive.pipeline.silver.schema import (
    DUPLICATES,
    LEDGERS,
    QUARANTINE,
    SOURCES,
    SOURCES_SCHEMA,
    silver_directory,
)
from logdrive.pipeline.silver.step_note import STEP, StepNote, read_step_note
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.failures import name_read
from logdrive.pipeline.tables.open_table import is_table, open_table, open_table_as_it_is

_TRIES = 20  # looks at tables that another process fills, until two agree

RowsBySource = Counter[str | None]
"""Rows by source; None is the source of rows without one."""
RowCounter = Callable[[str], RowsBySource]
"""Counts the rows of the file at a path. Raises `StorageError`."""


@dataclass(frozen=True, slots=True)
class SourceBalance:
    """The rows of one source in bronze, and what became of them."""

    source: str | None
    bronze: int
    silver: int  # in the tables of formats, and in `text`
    quarantine: int
    duplicates: int

    @property
    def missing(self) -> int:
        """Rows of bronze that are in no table of silver; below 0: that are there twice."""
        return self.bronze - self.silver - self.quarantine - self.duplicates


@dataclass(frozen=True, slots=True)
class SilverBalance:
    """What silver holds of bronze."""

    version: int | None
    """The version of `bronze.events` up to which silver is; None while silver is being made and
    has come to none yet, as after `rebuild` was killed: then nothing can be said.
    """
    waiting: int
    """Rows of bronze behind that version."""
    tables: dict[str, int]
    """Rows of each table, by its name."""
    sources: list[SourceBalance] = field(default_factory=list)
    """By source; empty if there is no version."""

    @property
    def adds_up(self) -> bool:
        """Whether nothing is missing, and nothing there twice."""
        return all(not one.missing for one in self.sources)


def silver_balance(directory: str, count_rows: RowCounter | None = None) -> SilverBalance | None:
    """Return what silver holds of bronze in *directory*, None if there is no silver.

    Silver may be filled meanwhile. *count_rows* counts the rows of one file; files never change.
    Raises `StorageError`.
    """
    place = silver_directory(directory)
    if not is_table(os.path.join(place, SOURCES)):
        return None
    count_rows = count_rows or count_sources
    note, files = _consistent_files(place)
    rows = {table: _add_up(paths, count_rows) for table, paths in files.items()}
    totals = {table: sources.total() for table, sources in sorted(rows.items())}
    events, _ = open_tables(directory)
    # before the first step, too: it need not read what bronze's past versions had, of which files
    # may be gone, as after an erasure
    is_new = note.position.done == NOTHING and bool(events.files)
    if note.position.filling is not None or is_new:
        return SilverBalance(None, 0, totals)

    behind = [
        os.path.join(events.path, file.name)
        for _, added in events.added_since(note.position.done)
        for file in added
    ]
    waiting = _add_up(behind, count_rows)
    bronze = _add_up(events.files, count_rows)
    bronze.subtract(waiting)
    quarantine, duplicates = rows.pop(QUARANTINE, Counter()), rows.pop(DUPLICATES, Counter())
    silver: RowsBySource = Counter()
    for counted in rows.values():
        silver.update(counted)
    met = bronze.keys() | silver.keys() | quarantine.keys() | duplicates.keys()
    balances = [
        SourceBalance(one, bronze[one], silver[one], quarantine[one], duplicates[one])
        for one in sorted(met, key=lambda source: source or "")
    ]
    shown = [one for one in balances if one.bronze or one.missing]
    return SilverBalance(note.position.done, waiting.total(), totals, shown)


def row_tables(place: str) -> dict[str, AppendTable]:
    """Return the tables of rows in the silver directory *place*, by name. Raises `StorageError`."""
    return {
        name: open_table_as_it_is(os.path.join(place, name))
        for name in sorted(os.listdir(place))
        if name not in LEDGERS and is_table(os.path.join(place, name))
    }


def _consistent_files(place: str) -> tuple[StepNote, dict[str, list[str]]]:
    """Return the note of the last step, and the files of all tables after that step.

    Files that a table does not have yet are durable, and count.
    """
    for _ in range(_TRIES):
        note = read_step_note(open_table(os.path.join(place, SOURCES), SOURCES_SCHEMA))
        tables = row_tables(place)
        again = read_step_note(open_table(os.path.join(place, SOURCES), SOURCES_SCHEMA))
        if again.step == note.step:
            break
    else:
        raise StorageError(f"{place} is being filled too fast to be looked at: try again")
    files = {name: table.files for name, table in tables.items()}
    for name, added in note.tables.items():
        behind = name not in tables or tables[name].mark(STEP) != note.step
        if behind and name not in LEDGERS:
            paths = [os.path.join(place, name, file.name) for file in added]
            files[name] = files.get(name, []) + paths
    return note, files


def _add_up(paths: Iterable[str], count_rows: RowCounter) -> RowsBySource:
    """Return how many rows of each source the files at *paths* have together."""
    rows: RowsBySource = Counter()
    for path in paths:
        rows.update(count_rows(path))
    return rows


def count_sources(path: str) -> RowsBySource:
    """Return how many rows of each source the file at *path* has. Raises `StorageError`."""
    with name_read(path):
        column = pq.read_table(
            path, columns=["source"], read_dictionary=["source"], partitioning=None
        )["source"]
    rows: RowsBySource = Counter()
    for chunk in column.chunks:
        for one in chunk.value_counts().to_pylist():
            rows[one["values"]] += one["counts"]
    return rows
