"""Rows of bronze by what decides on their format: few runs of rows instead of many rows.

The rows of a batch stand next to each other in bronze, so that a file has about as many runs as
batches. Nothing here looks at a row by itself, but for foreign peers' rows of many paths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from logdrive.errors import StorageError
from logdrive.pipeline.decode.records import FOREIGN
from logdrive.pipeline.silver.decisions import DecisionKey
from logdrive.pipeline.tables.failures import MissingFileError, name_read

KEY_COLUMNS = ("source", "path", "form")
"""The columns that decide on the format."""
LINE_COLUMNS = ("message", "received", "fields", "source", "start", "end")
"""The columns of `LogLines`, in its order."""
_LABELS = ("source", "host", "path", "form", "flag")
_NULL = -1

RowNumbers = npt.NDArray[np.int64]
NO_ROWS: RowNumbers = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class BronzeFile:
    """A file of `bronze.events`, and which of its rows are duplicates."""

    path: str
    size: int  # bytes
    duplicates: RowNumbers = field(default_factory=lambda: NO_ROWS)
    """Numbers of rows, in rising order."""


@dataclass(frozen=True, slots=True)
class RowRun:
    """Rows that follow one another and share what decides on their format."""

    first: int
    count: int
    key: DecisionKey


def open_bronze_file(path: str) -> pq.ParquetFile:
    """Open a file of events, to be read with `name_read`. Raises `StorageError`."""
    try:
        with name_read(path):
            return pq.ParquetFile(
                path,
                read_dictionary=list(_LABELS),
                pre_buffer=False,
                page_checksum_verification=True,  # else changed bytes would go to silver
            )
    except MissingFileError as error:
        raise StorageError(
            f"{path} is gone: silver was left behind for longer than replaced files are kept; make "
            "it anew with `logdrive pipeline rebuild DIR --table silver`"
        ) from error


def key_runs(rows: pa.RecordBatch) -> Iterator[RowRun]:
    """Yield the runs of *rows*, which have `KEY_COLUMNS` as dictionaries."""
    count = rows.num_rows
    if not count:
        return
    source, path, form = (_LabelCodes(rows.column(name)) for name in KEY_COLUMNS)
    changed = np.zeros(count, np.bool_)
    changed[0] = True
    for column in (source, path, form):
        changed[1:] |= column.codes[1:] != column.codes[:-1]
    starts = np.flatnonzero(changed)
    counts = np.diff(np.append(starts, count))
    for first, length in zip(starts.tolist(), counts.tolist(), strict=True):
        by_path = form.value(first) == FOREIGN
        yield RowRun(first, length, (source.value(first), path.value(first) if by_path else None))


class _LabelCodes:
    """A dictionary column as numbers, of which equal ones are equal values."""

    def __init__(self, column: pa.DictionaryArray) -> None:
        self.codes: npt.NDArray[np.int32] = (
            column.indices.fill_null(_NULL).to_numpy(zero_copy_only=False).astype(np.int32)
        )
        self._values: Sequence[str | None] = column.dictionary.to_pylist()

    def value(self, row: int) -> str | None:
        code = self.codes[row]
        return None if code == _NULL else self._values[code]


def even_parts(files: Sequence[BronzeFile], count: int) -> list[tuple[BronzeFile, ...]]:
    """Return *files* in at most *count* parts of about the same size; none is empty."""
    parts: list[list[BronzeFile]] = [[] for _ in range(min(count, len(files)))]
    sizes = [0] * len(parts)
    for file in sorted(files, key=lambda one: one.size, reverse=True):
        least = sizes.index(min(sizes))
        parts[least].append(file)
        sizes[least] += file.size
    return [tuple(part) for part in parts]
