"""Reads rows out of the files of `events`, in pieces of bounded size, and by several threads."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logdrive.pipeline.decode.schema import EVENTS, LABEL
from logdrive.pipeline.tables.failures import name_read

Item = TypeVar("Item")
Result = TypeVar("Result")

FilesProgress = Callable[[int, int], None]
"""Called with how many files of a table were read, and how many there are to read."""
PIECE_ROWS: Final = 1 << 17
"""Most rows that a thread has in memory at once; their columns fit a core's cache."""
_LABELS = [field.name for field in EVENTS if field.type.equals(LABEL)]


def read_pieces(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield *columns* of the rows of the parquet file at *path*, in order.

    Labels are dictionaries. Raises `StorageError`.
    """
    with name_read(path), _open(path) as file:
        yield from file.iter_batches(PIECE_ROWS, columns=list(columns), use_threads=False)


def read_source(
    path: str, source: str, columns: Sequence[str], piece_rows: int = PIECE_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield *columns* of the rows of *source* in the parquet file at *path*, *piece_rows* at most.

    Parts of the file without such rows are passed over. Labels are dictionaries. Raises
    `StorageError`.
    """
    names = ["source", *columns]
    with name_read(path), _open(path) as file:
        for group in range(file.num_row_groups):
            labels = file.read_row_group(group, ["source"], use_threads=False)["source"]
            if not any(source in chunk.dictionary.to_pylist() for chunk in labels.chunks):
                continue
            for rows in file.iter_batches(piece_rows, [group], names, use_threads=False):
                ours = rows.filter(pc.equal(rows["source"].cast(pa.string()), source))
                if ours.num_rows:
                    yield ours


def _open(path: str) -> pq.ParquetFile:
    return pq.ParquetFile(path, read_dictionary=_LABELS, page_checksum_verification=True)


def read_table(paths: Iterable[str], schema: pa.Schema) -> pa.Table:
    """Return all rows of the parquet files at *paths*, with the columns of *schema*.

    A column that a file of an earlier version lacks is null. Raises `StorageError`. For small
    tables: pyarrow's own way to read many files would import pandas.
    """

    def read(path: str) -> pa.Table:
        with name_read(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            there = set(file.schema_arrow.names)
            names = [name for name in schema.names if name in there]
            found = file.read(names, use_threads=False)
            columns = [
                found[field.name].cast(field.type)
                if field.name in there
                else pa.nulls(found.num_rows, field.type)
                for field in schema
            ]
            return _checked(pa.table(columns, schema=schema))

    return pa.concat_tables([schema.empty_table(), *map_files(read, sorted(paths))])


def _checked(table: pa.Table) -> pa.Table:
    """Return *table*, in which all values are what its schema says. Raises `ArrowInvalid`."""
    table.validate(full=True)
    for field in table.schema:
        if not field.nullable and table[field.name].null_count:
            raise pa.ArrowInvalid(f"{field.name} lacks values")
    return table


def map_files(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield what *work* returns for each of *items*, in order; a thread a core works ahead."""
    threads = ThreadPoolExecutor(len(os.sched_getaffinity(0)), "audit")
    try:
        yield from threads.map(work, items)
    finally:
        threads.shutdown(cancel_futures=True)
