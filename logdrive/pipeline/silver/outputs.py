"""Files of silver rows, one for each table and day, as a task writes them."""

import os
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.silver.schema import DAY
from logdrive.pipeline.tables.files import AddedFile, EventFile, sync_file

_GROUP_ROWS = 1 << 17  # rows that are collected before a row group is written
_NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # directory of rows without a day


class SilverFiles:
    """Collects rows by table and day; the files are durable once the context ends well.

    With an error all of them are removed.
    """

    def __init__(self, directory: str, compression: str) -> None:
        self._directory = directory  # of the silver tables
        self._compression = compression
        # (table, day) -> what is still to be written, and the file
        self._waiting: dict[tuple[str, str | None], list[pa.Table]] = {}
        self._files: dict[tuple[str, str | None], EventFile] = {}

    def __enter__(self) -> Self:
        return self

    def add_rows(self, table: str, rows: pa.Table) -> None:
        """Add *rows* to *table*; their schema is the table's."""
        days = rows[DAY].combine_chunks()
        bare = rows.drop_columns(DAY)
        met = pc.unique(days).to_pylist()
        for day in met:
            mine = bare
            if len(met) > 1:
                is_day = pc.is_null(days) if day is None else pc.equal(days, day)
                mine = bare.filter(is_day)
            key = (table, None if day is None else day.isoformat())
            waiting = self._waiting.setdefault(key, [])
            waiting.append(mine)
            if sum(part.num_rows for part in waiting) >= _GROUP_ROWS:
                self._write_group(key)

    def _write_group(self, key: tuple[str, str | None]) -> None:
        waiting = self._waiting.pop(key, [])
        if not waiting:
            return
        # dictionaries of several parts would be written as plain strings
        rows = pa.concat_tables(waiting).unify_dictionaries().combine_chunks()
        if key not in self._files:
            self._files[key] = EventFile(self._make_place(key), rows.schema, self._compression)
        self._files[key].write_row_group(rows)

    def _make_place(self, key: tuple[str, str | None]) -> str:
        """Return the directory of a table's day; it is durable."""
        table = os.path.join(self._directory, key[0])
        place = os.path.join(table, f"{DAY}={key[1] or _NO_DAY}")
        if not os.path.isdir(place):
            os.makedirs(place, exist_ok=True)
            sync_file(place)
            sync_file(table)
        return place

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            for key in list(self._waiting):
                self._write_group(key)
        for file in self._files.values():
            file.__exit__(kind, error, trace)

    def added(self) -> dict[str, list[AddedFile]]:
        """Return the finished files by table, after the context has ended."""
        tables: dict[str, list[AddedFile]] = {}
        for (table, day), file in self._files.items():
            done = file.added_file
            if done is not None:
                name = os.path.join(f"{DAY}={day or _NO_DAY}", done.name)
                tables.setdefault(table, []).append(
                    AddedFile(name, done.size, done.rows, {DAY: day})
                )
        return tables
