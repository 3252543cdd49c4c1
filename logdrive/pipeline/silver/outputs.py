"""Files of silver rows, as a task writes them: of each table, and of each day one."""

import os
from types import TracebackType
from typing import Self

import pyarrow as pa

from logdrive.pipeline.tables.day_files import DayFiles
from logdrive.pipeline.tables.files import AddedFile

_GROUP_ROWS = 1 << 17  # rows that are collected before a row group is written

_Shape = tuple[str, tuple[str, ...]]
"""A table, and the columns of a file of it: sources that were decided earlier may have others."""


class SilverFiles:
    """Collects rows by table; the files are durable once the context ends well.

    With an error all of them are removed.
    """

    def __init__(self, directory: str, compression: str, label: str = "") -> None:
        """Write files below *directory*, that of all silver tables, with *label* in their names."""
        self._directory = directory
        self._compression = compression
        self._label = label
        # rows that are still to be written, and the files
        self._waiting: dict[_Shape, list[pa.Table]] = {}
        self._files: dict[_Shape, DayFiles] = {}

    def __enter__(self) -> Self:
        return self

    def add_rows(self, table: str, rows: pa.Table) -> None:
        """Add *rows* to *table*; those of other columns than rows before them get other files."""
        shape = (table, tuple(rows.column_names))
        waiting = self._waiting.setdefault(shape, [])
        waiting.append(rows)
        if sum(part.num_rows for part in waiting) >= _GROUP_ROWS:
            self._write_group(shape)

    def _write_group(self, shape: _Shape) -> None:
        # dictionaries of several parts would be written as plain strings
        rows = pa.concat_tables(self._waiting.pop(shape)).unify_dictionaries().combine_chunks()
        if shape not in self._files:
            place = os.path.join(self._directory, shape[0])
            self._files[shape] = DayFiles(place, rows.schema, self._compression, self._label)
        self._files[shape].write_row_group(rows)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._remove(error)
            return
        try:
            for shape in list(self._waiting):
                self._write_group(shape)
            for files in self._files.values():
                files.__exit__(None, None, None)
        except BaseException as failure:
            self._remove(failure)
            raise

    def _remove(self, error: BaseException) -> None:
        """Remove all files, because of *error*; those of a table that has ended, too."""
        for files in self._files.values():
            files.__exit__(type(error), error, error.__traceback__)

    def added(self) -> dict[str, list[AddedFile]]:
        """Return the finished files by table, after the context has ended."""
        added: dict[str, list[AddedFile]] = {}
        for (table, _), files in self._files.items():
            added.setdefault(table, []).extend(files.added_files)
        return added
