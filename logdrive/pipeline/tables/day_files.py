"""Files of rows, one for each day on which the receiver had them: what tables are partitioned by.

A day is a date of `received`, in UTC. Its files lie in a directory of their own, `day=2026-11-23`,
and don't repeat the day in a column: by Delta's convention, and Hive's, the place says it.
"""

import os
from collections.abc import Iterator
from datetime import date
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.tables.files import DEFAULT_COMPRESSION, AddedFile, EventFile

DAY: Final = pa.field("day", pa.date32())
"""The column of a table that its files' places say."""

_RECEIVED = "received"  # the column that a row's day comes from
_OPEN_FILES = 8  # limit on the days whose files are open at a time
_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1).toordinal()


class DayFiles:
    """Parquet files of one task, one a day, that grow by row groups.

    They are complete and durable once the context ends without an error. With an error they are
    removed.
    """

    def __init__(
        self,
        directory: str,
        schema: pa.Schema,
        compression: str = DEFAULT_COMPRESSION,
        label: str = "",
    ) -> None:
        self._directory = directory
        self._schema = schema
        self._compression = compression
        self._label = label  # in their names
        # day -> its file, the one that was written last at the end
        self._open: dict[str | None, EventFile] = {}
        self._finished: list[AddedFile] = []

    def __enter__(self) -> Self:
        return self

    def write_row_group(self, table: pa.Table) -> None:
        """Add *table* as one row group of the file of its day, or of those of its days."""
        for day, rows in _split_by_day(table):
            self._file_of(day).write_row_group(rows)

    def _file_of(self, day: str | None) -> EventFile:
        file = self._open.pop(day, None)
        if file is None:
            if len(self._open) >= _OPEN_FILES:
                self._finish(next(iter(self._open)))
            file = EventFile(
                self._directory, self._schema, self._compression, {DAY.name: day}, self._label
            )
        self._open[day] = file
        return file

    def _finish(self, day: str | None) -> None:
        file = self._open.pop(day)
        file.__exit__(None, None, None)
        if (added := file.added_file) is not None:
            self._finished.append(added)

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
            while self._open:
                self._finish(next(iter(self._open)))
        except BaseException as failure:
            self._remove(failure)
            raise

    def _remove(self, error: BaseException) -> None:
        """Remove all files, because of *error*."""
        files, self._open = self._open, {}
        finished, self._finished = self._finished, []
        for file in files.values():
            file.__exit__(type(error), error, error.__traceback__)
        for added in finished:
            os.unlink(os.path.join(self._directory, added.name))

    @property
    def added_files(self) -> list[AddedFile]:
        """The finished files, after the context has ended; none if there were no rows."""
        return self._finished


def write_day_files(
    directory: str, table: pa.Table, compression: str = DEFAULT_COMPRESSION, label: str = ""
) -> list[AddedFile]:
    """Write *table* as one durable file a day, with *label* in their names."""
    with DayFiles(directory, table.schema, compression, label) as files:
        files.write_row_group(table)
    return files.added_files


def _split_by_day(table: pa.Table) -> Iterator[tuple[str | None, pa.Table]]:
    """Yield the rows of each day, in their order; nearly always all are of one day."""
    if not table.num_rows:
        return
    received = table[_RECEIVED]
    bounds: dict[str, Any] = pc.min_max(received.cast(pa.int64())).as_py()
    first, last = (_days(np.array([bounds[name] or 0]))[0] for name in ("min", "max"))
    if first == last and received.null_count in (0, table.num_rows):
        yield None if received.null_count else _day_text(first), table
        return

    days = _days(received.cast(pa.int64()).fill_null(0).to_numpy())
    known = received.is_valid().to_numpy()
    for day in np.unique(days[known]):
        yield _day_text(day), table.filter(pa.array((days == day) & known))
    if not known.all():
        yield None, table.filter(pa.array(~known))


def _days(times: Any) -> Any:
    """Return the days since 1970 of *times* in µs; those that no calendar has are its edges."""
    return np.clip(times // _DAY_US, date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH)


def _day_text(day: int) -> str:
    return date.fromordinal(int(day) + _EPOCH).isoformat()
