"""Fills the gold tables from silver: each row of silver is counted once, whatever crashes.

A step reads the files that silver's tables have added, and commits the sums to each gold table. The
commit sets, for each silver table, the mark `silver/<table>` to the version that it has counted. So
each gold table knows by itself what it has, and those that a crash left behind catch up.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.host.disk import Disk
from logdrive.pipeline.gold.backlog import STEP_BYTES, SilverPart, next_part, silver_tables
from logdrive.pipeline.gold.schema import GOLD_SCHEMAS, TALKERS, gold_directory
from logdrive.pipeline.gold.summarize import (
    SILVER_COLUMNS,
    Summary,
    add_up,
    keep_talkers,
    summarize_rows,
)
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.failures import MissingFileError, name_read
from logdrive.pipeline.tables.files import DEFAULT_COMPRESSION, write_file
from logdrive.pipeline.tables.lock import make_and_lock_tables
from logdrive.pipeline.tables.open_table import create_table, open_table_as_it_is
from logdrive.pipeline.tables.upkeep import TableUpkeep
from logdrive.pipeline.tasks import check_stop

REBUILD_GOLD = "make it anew with `logdrive pipeline rebuild DIR --table gold`"

_BATCH_ROWS = 1 << 18
_WAITING_ROWS = 1 << 20  # of sums that are held before they are added up
_IDS = "silver"  # key of the note: ids of the silver tables that were read


@dataclass(frozen=True, slots=True)
class GoldStep:
    """What one step has counted."""

    lines: int
    """Rows of silver."""
    rows: int
    """Rows that were added to gold's tables."""
    seconds: float
    """Time that it took."""


@dataclass(frozen=True, slots=True)
class _NewFile:
    """A file that is to be added to a table."""

    table: str  # its path
    version: int  # of the table when the file was written
    name: str


class Gold:
    """The gold tables of one directory, locked for writing inside the context."""

    def __init__(
        self,
        directory: str,
        *,
        disk: Disk,
        compression: str = DEFAULT_COMPRESSION,
        on_read: Callable[[int], object] = lambda _: None,
    ) -> None:
        """*on_read* is called many times in a step, with how many more rows of silver were read."""
        self._directory = directory
        self._place = gold_directory(directory)
        self._disk = disk
        self._compression = compression
        self._on_read = on_read
        # holds the lock on the directory inside the context
        self._held = ExitStack()
        self._tables: dict[str, AppendTable] = {}
        # by name of the table; does its work in a thread inside the context
        self._upkeeps: dict[str, TableUpkeep] = {}
        self._executor: Executor
        # the file that was written last, until its commit is made
        self._uncommitted: _NewFile | None = None

    def __enter__(self) -> Self:
        """Take the lock and open the tables.

        Raises `StorageError` if there is no silver, or another process fills gold.
        """
        if not silver_tables(self._directory):
            raise StorageError(
                f"{self._directory} has no silver tables: run `logdrive pipeline silver` first"
            )
        self._held.enter_context(make_and_lock_tables(self._place, self._disk))
        thread = ThreadPoolExecutor(1, thread_name_prefix="upkeep-gold")
        self._executor = self._held.enter_context(thread)
        try:
            self.reload_tables()
        except BaseException:  # `__exit__` is not called then
            self._held.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._remove_uncommitted()
            for upkeep in self._upkeeps.values():
                if error is None:
                    upkeep.finish()
                else:
                    upkeep.abandon()
        finally:
            self._held.close()

    def count_waiting_rows(self) -> int:
        """Return how many rows of silver are still to be read, by its log. Raises `StorageError`.

        Where a step crashed, some are read more than once.
        """
        _, behind = self._find_behind(sys.maxsize)
        return sum(part.rows for parts in behind for part in parts)

    def reload_tables(self) -> None:
        """Open the tables again, as they are on the disk; needed after a step that failed.

        Raises `StorageError`.
        """
        for upkeep in self._upkeeps.values():
            upkeep.abandon()
        self._remove_uncommitted()
        self._upkeeps = {}
        self._tables = {
            name: create_table(os.path.join(self._place, name), schema)
            for name, schema in GOLD_SCHEMAS.items()
        }
        self._upkeeps = {
            name: TableUpkeep(table, self._executor) for name, table in self._tables.items()
        }

    def next_step(self) -> GoldStep | None:
        """Count what silver has added; None if nothing is new.

        After any failure call `reload_tables` before the next one. Raises `StorageError`, OSError
        and `StoppedError`.
        """
        began = time.monotonic()
        ids, behind = self._find_behind(STEP_BYTES)
        if not behind:
            return None

        lines = rows = 0
        for parts, names in behind.items():
            counted, summary = _summarize(parts, self._on_read)
            lines = max(lines, counted)
            for name in names:
                self._commit(name, summary[name], parts, ids)
                rows += summary[name].num_rows
        return GoldStep(lines, rows, time.monotonic() - began)

    def _find_behind(
        self, limit: int
    ) -> tuple[Mapping[str, str], Mapping[tuple[SilverPart, ...], Sequence[str]]]:
        """Return the ids of silver's tables, and the gold tables by what they have still to count.

        That is the same of all, unless a step crashed. *limit* is that of `next_part`.
        """
        silver = silver_tables(self._directory)
        ids = {name: table.table_id for name, table in silver.items()}
        behind: dict[tuple[SilverPart, ...], list[str]] = {}
        for name, table in self._tables.items():
            self._check_ids(table, ids)
            parts = [
                next_part(one, key, table.mark(_mark(key)), limit) for key, one in silver.items()
            ]
            if new := tuple(part for part in parts if part is not None):
                behind.setdefault(new, []).append(name)
        return ids, behind

    def _check_ids(self, table: AppendTable, ids: Mapping[str, str]) -> None:
        known = table.read_last_note().get(_IDS, {})
        for name, number in known.items():
            if ids.get(name) != number:
                raise StorageError(
                    f"{table.path} was made from another silver table {name}: {REBUILD_GOLD}"
                )

    def _commit(
        self, name: str, rows: pa.Table, parts: Sequence[SilverPart], ids: Mapping[str, str]
    ) -> None:
        table = self._tables[name]
        file = write_file(table.path, rows, self._compression)
        if file is not None:
            self._uncommitted = _NewFile(table.path, table.version, file.name)
        faults.reach("pipeline.gold.before_commit")
        # also without rows: the marks say that these versions were counted
        table.add_files(
            [file] if file else [],
            {},
            {_IDS: dict(ids)},
            {_mark(part.table): part.version for part in parts},
        )
        self._uncommitted = None
        self._upkeeps[name].after_commit()
        faults.reach("pipeline.gold.after_commit")

    def _remove_uncommitted(self) -> None:
        """Remove the file of a commit that failed, unless it was made all the same."""
        if self._uncommitted is None:
            return
        new, self._uncommitted = self._uncommitted, None
        with suppress(OSError, StorageError):  # the upkeep removes it later
            added = open_table_as_it_is(new.table).added_since(new.version)
            if all(file.name != new.name for _, files in added for file in files):
                os.unlink(os.path.join(new.table, new.name))


def _mark(table: str) -> str:
    """Return the name of the mark of the silver table *table*."""
    return f"silver/{table}"


def _summarize(
    parts: Sequence[SilverPart], on_read: Callable[[int], object]
) -> tuple[int, Summary]:
    """Return how many rows the files of *parts* have, and their sums."""
    lines, waiting = 0, 0
    summaries = [summarize_rows(pa.table({}), "")]
    for part in parts:
        for path in part.files:
            for rows in _read_rows(path):
                check_stop()
                lines += rows.num_rows
                summaries.append(summarize_rows(rows, part.table))
                waiting += sum(table.num_rows for table in summaries[-1].values())
                if waiting >= _WAITING_ROWS:
                    summaries, waiting = [_add_up(summaries)], 0
                on_read(rows.num_rows)
    return lines, _add_up(summaries)


def _add_up(summaries: Sequence[Summary]) -> Summary:
    summary = add_up(summaries)
    return {**summary, TALKERS: keep_talkers(summary[TALKERS])}


def _read_rows(path: str) -> Iterable[pa.Table]:
    """Yield the rows of a file of silver. Raises `StorageError` if it is gone or can't be read."""
    try:
        with name_read(path), pq.ParquetFile(path) as file:
            names = [name for name in SILVER_COLUMNS if name in file.schema_arrow.names]
            for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                yield pa.Table.from_batches([batch])
    except MissingFileError as error:
        raise StorageError(
            f"{path} is gone: gold was left behind for longer than replaced files are kept; "
            f"{REBUILD_GOLD}"
        ) from error
