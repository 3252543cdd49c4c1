"""Removes lines from all tables: bronze, silver, quarantine, and what was sent.

An erasure is first recorded: a commit to `bronze/erased` says where its rows are. Then files that
have such rows are written again without them, in one commit a table, and the old files are deleted.
Gold, whose sums may have values of such rows, is dropped, and counted anew by its next run. What
interrupted commands have left half made is deleted as a whole. After a crash the next erasure
finishes the one that was recorded.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logdrive.errors import StorageError
from logdrive.host import faults
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.pipeline.bronze.erased import (
    ERASED_SCHEMA,
    ERASURE,
    FINISHED,
    PLACES,
    Erasure,
    find_unfinished,
    has_erasures,
    open_erased,
)
from logdrive.pipeline.bronze.follower import withdraw_parquet
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.gold.schema import gold_directory
from logdrive.pipeline.silver.balance import row_tables
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.schema import SENT, SOURCES, silver_directory
from logdrive.pipeline.silver.writer import Silver
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.dropping import drop_tables
from logdrive.pipeline.tables.failures import name_read
from logdrive.pipeline.tables.files import AddedFile, EventFile, labelled_schema, write_file
from logdrive.pipeline.tables.leftovers import find_leftovers, remove_leftovers
from logdrive.pipeline.tables.lock import BACKFILL, REBUILD, lock_tables
from logdrive.pipeline.tables.open_table import is_table, open_table_as_it_is
from logdrive.pipeline.tables.select import count_rows, select_first_rows, select_rows
from logdrive.pipeline.tasks import InProcess

_IN_ORDER: Final = ("received", "batch", "ordinal")
"""Columns that put rows of bronze in order."""

ErasedRows = Mapping[int, npt.NDArray[np.int64]]
"""Ordinals of the rows to erase, by batch."""


@dataclass(frozen=True, slots=True)
class ErasedCounts:
    """What an erasure removed, or would remove."""

    rows: int
    sources: int
    tables: dict[str, int]
    """Rows that were removed from each table; empty for a dry run."""
    gold: bool = False
    """Whether gold was dropped."""
    leftovers: Sequence[str] = ()
    """What interrupted commands had left, and was deleted: directories, relative to DIR."""
    finished: Erasure | None = None
    """An earlier erasure that was interrupted, and is finished by this one, before its own rows:
    what it had left in tables is among *tables*, too.
    """


@dataclass(frozen=True, slots=True)
class MatchedSource:
    """A source, or one of the files of a foreign peer, that has rows to erase."""

    source: str | None
    host: str | None
    path: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A row to erase."""

    source: str | None
    host: str | None
    path: str | None
    start: int | None  # in its file
    message: str


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """What an erasure would remove from bronze, for a person to look at."""

    files: Sequence[MatchedSource]  # those with most rows first
    samples: Sequence[MatchedLine]  # the rows that were received first


def erase_rows(
    directory: str, where: str, *, by: str, why: str | None, clock: Clock, disk: Disk
) -> ErasedCounts:
    """Remove the rows of `bronze.events` for which *where*, in SQL, is true, from all tables.

    No other process may write the tables. Raises `StorageError`, and ValueError for a condition
    that is none.
    """
    with _locked(directory, clock, disk):
        erased = open_erased(directory)
        number, before = erased.mark(ERASURE) or 0, ErasedCounts(0, 0, {})
        if (unfinished := find_unfinished(directory)) is not None:
            before = replace(_finish(directory, erased, number, disk), finished=unfinished)
        rows = places_of(directory, where)
        if not rows.num_rows:
            # what was left before an earlier erasure may have the rows of that one
            if number and unfinished is None:
                before = replace(before, leftovers=remove_leftovers(directory))
            return before
        number += 1
        staged = write_file(erased.path, _record(rows, number, clock.now_ms(), by, why))
        erased.add_files([staged] if staged else [], {}, None, {ERASURE: number})
        faults.reach("pipeline.erase.after_record")
        done = _add(before, _finish(directory, erased, number, disk))
        return replace(done, rows=rows.num_rows, sources=_count_sources(rows))


def _add(first: ErasedCounts, then: ErasedCounts) -> ErasedCounts:
    """Return *first* and what *then* has removed besides."""
    return replace(
        first,
        tables=dict(Counter(first.tables) + Counter(then.tables)),
        gold=first.gold or then.gold,
        leftovers=[*first.leftovers, *then.leftovers],
    )


def find_erased(directory: str, where: str) -> ErasedCounts:
    """Return what `erase_rows` would remove from bronze, which leftovers it would delete, and which
    erasure it would finish.
    """
    rows = places_of(directory, where)
    erases = rows.num_rows or has_erasures(directory)
    left = find_leftovers(directory) if erases else []
    return ErasedCounts(
        rows.num_rows,
        _count_sources(rows),
        {},
        leftovers=left,
        finished=find_unfinished(directory),
    )


def sample_erased(directory: str, where: str, count: int) -> MatchedRows:
    """Return what `erase_rows` would remove by file, and *count* of the rows at most."""
    events, names = open_tables(directory)[0], ("source", "host", "path")
    files = count_rows(events, names, where).to_pylist()
    columns = (*names, "start", "message", "original")
    rows = select_first_rows(events, columns, where, _IN_ORDER, count).to_pylist()
    return MatchedRows(
        [MatchedSource(one["source"], one["host"], one["path"], one["count"]) for one in files],
        [
            MatchedLine(one["source"], one["host"], one["path"], one["start"], _text_of(one))
            for one in rows
        ],
    )


def _text_of(row: Mapping[str, Any]) -> str:
    """Return the message of *row*; of one that could not be decoded, its bytes as text."""
    return row["message"] or (row["original"] or b"").decode(errors="replace")


def places_of(directory: str, where: str) -> pa.Table:
    """Return where the rows of bronze are for which *where* is true; see `erase_rows`."""
    return select_rows(open_tables(directory)[0], PLACES, where)


def _count_sources(rows: pa.Table) -> int:
    return len(pc.unique(rows["source"]))


@contextmanager
def _locked(directory: str, clock: Clock, disk: Disk) -> Iterator[None]:
    """Keep others from writing bronze and silver, which are repaired before."""
    open_tables(directory)
    with lock_tables(gold_directory(directory), disk):
        pass  # it is dropped in the end, when nobody may fill it: better said at once
    with ExitStack() as held:
        # before bronze: a rebuild would bring back what it has read already
        held.enter_context(lock_tables(directory, disk, REBUILD))
        bronze = Bronze(directory, clock=clock, disk=disk)
        held.enter_context(bronze)
        held.enter_context(lock_tables(os.path.dirname(bronze.events.path), disk, BACKFILL))
        if is_table(os.path.join(silver_directory(directory), SOURCES)):
            tables = Silver(directory, SilverConfig(), InProcess(), clock=clock, disk=disk)
            held.enter_context(tables)
            if tables.is_behind():
                raise StorageError(
                    f"{silver_directory(directory)} has not all lines of bronze yet, and could not "
                    "read them afterwards: run `logdrive pipeline silver DIR --once` first"
                )
        yield


def _record(rows: pa.Table, number: int, now_ms: int, by: str, why: str | None) -> pa.Table:
    constants = {
        "erasure": pa.scalar(number, pa.int64()),
        "at": pa.scalar(now_ms * 1000, ERASED_SCHEMA.field("at").type),
        "by": pa.scalar(by, pa.string()),
        "why": pa.scalar(why, pa.string()),
    }
    columns = [
        pa.array([constants[field.name].as_py()] * rows.num_rows, constants[field.name].type)
        if field.name in constants
        else rows[field.name]
        for field in ERASED_SCHEMA
    ]
    return pa.table(
        [
            column.cast(field.type) if column.type != field.type else column
            for column, field in zip(columns, ERASED_SCHEMA, strict=True)
        ],
        schema=ERASED_SCHEMA,
    )


def _finish(directory: str, erased: AppendTable, number: int, disk: Disk) -> ErasedCounts:
    """Remove the rows of erasure *number*; return what was done, but for the rows of bronze."""
    rows = erased.read_rows(["batch", "ordinal"], pc.field("erasure") == number)
    wanted = _by_batch(rows)
    place = silver_directory(directory)
    tables = {"bronze/events": open_tables(directory)[0]}
    if os.path.isdir(place):
        tables |= {f"silver/{name}": table for name, table in row_tables(place).items()}
        if is_table(os.path.join(place, SENT)):
            tables[f"silver/{SENT}"] = open_table_as_it_is(os.path.join(place, SENT))

    counts = {}
    for name, table in tables.items():
        if (table.mark(ERASURE) or 0) < number:
            counts[name] = _erase_in(table, wanted, number)
            faults.reach("pipeline.erase.between_tables")
    for table in tables.values():
        table.delete_old_files()
    withdraw_parquet(directory)
    left = remove_leftovers(directory)
    faults.reach("pipeline.erase.after_tables")
    gold = drop_tables(gold_directory(directory), disk)
    erased.add_files([], {}, None, {FINISHED: number})
    removed = {name: count for name, count in counts.items() if count}
    return ErasedCounts(0, 0, removed, gold, left)


def _by_batch(rows: pa.Table) -> ErasedRows:
    batch, ordinal = rows["batch"].to_numpy(), rows["ordinal"].cast(pa.int64()).to_numpy()
    order = np.argsort(batch, kind="stable")
    batch, ordinal = batch[order], ordinal[order]
    ids, first = np.unique(batch, return_index=True)
    parts = np.split(ordinal, first[1:])
    return {int(one): part for one, part in zip(ids, parts, strict=True)}


def _erase_in(table: AppendTable, wanted: ErasedRows, number: int) -> int:
    """Remove the rows *wanted* from *table*, in one commit; return how many it had."""
    old, new, count = [], [], 0
    for file in table.live_files():
        path = os.path.join(table.path, file.name)
        found = _find_rows(path, wanted)
        if found.any():
            old.append(file)
            count += int(found.sum())
            kept = _write_without(table.path, file, found)
            new += [kept] if kept else []
    table.take_rows_out(old, new, {ERASURE: number})
    return count


def _find_rows(path: str, wanted: ErasedRows) -> npt.NDArray[np.bool_]:
    """Return which rows of the file at *path* are *wanted*."""
    with name_read(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        rows = file.read(["batch", "ordinal"])
    batch, ordinal = rows["batch"].to_numpy(), rows["ordinal"].to_numpy()
    found = np.zeros(rows.num_rows, np.bool_)
    for one in np.unique(batch).tolist():
        if one in wanted:
            places = np.flatnonzero(batch == one)
            found[places] = np.isin(ordinal[places], wanted[one])
    return found


def _write_without(place: str, file: AddedFile, erased: npt.NDArray[np.bool_]) -> AddedFile | None:
    """Write *file* of the table at *place* again without the rows *erased*; None if none is left.

    It has the same columns, compression and partition.
    """
    path = os.path.join(place, file.name)
    with name_read(path):
        schema = labelled_schema(path)
    # read as plain strings: dictionaries as they are in the file would keep erased values
    with pq.ParquetFile(path, page_checksum_verification=True) as source:
        codec = source.metadata.row_group(0).column(0).compression.lower()
        compression = "none" if codec == "uncompressed" else codec
        with EventFile(place, schema, compression, file.partition) as target:
            first = 0
            for number in range(source.num_row_groups):
                with name_read(path):  # what a disk has changed must not get a fitting checksum
                    rows = source.read_row_group(number)
                keep = ~erased[first : first + rows.num_rows]
                first += rows.num_rows
                target.write_row_group(rows.filter(pa.array(keep)).cast(schema))
    return target.added_file
