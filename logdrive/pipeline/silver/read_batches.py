"""Reads files of bronze in batches of rows, none of which ends amid a stack trace."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from logdrive.pipeline.silver.runs import open_bronze_file
from logdrive.pipeline.tables.failures import name_read

BATCH_ROWS = 1 << 16
"""Rows of a batch, about."""


def read_batches(
    path: str,
    columns: Sequence[str],
    count_open: Callable[[pa.RecordBatch, pa.RecordBatch], int],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the file at *path*, in order.

    *count_open* is given a batch and the next one, and returns how many of the last rows of the
    first belong to the second. Raises `StorageError` if the file is gone or can't be read.
    """
    rows: pa.RecordBatch | None = None
    for following in _read(path, columns):
        if not following.num_rows:
            continue
        if rows is None:
            rows = following
            continue
        held = count_open(rows, following)
        whole = rows.num_rows - held
        if whole:
            yield rows.slice(0, whole)
        rows = _join(rows.slice(whole), following) if held else following
    if rows is not None:
        yield rows


def _read(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with name_read(path):
        yield from open_bronze_file(path).iter_batches(BATCH_ROWS, columns=list(columns))


def _join(rows: pa.RecordBatch, following: pa.RecordBatch) -> pa.RecordBatch:
    # their dictionaries may be others
    table = pa.Table.from_batches([rows, following]).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]
