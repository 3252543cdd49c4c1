"""Joins small files of a table: which of them are worth it, and one file with the rows of all.

A trickle of micro-batches leaves a small file each. Files of about one size in one partition are
joined, so that a row is written again three times at most, and one join is bounded: it reads
`_JOINED_BYTES`, and takes a second or two.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from logdrive.model.units import KIB, MIB
from logdrive.pipeline.decode.schema import LABEL, VARIANT
from logdrive.pipeline.formats.variant import as_variants
from logdrive.pipeline.tables.failures import name_read
from logdrive.pipeline.tables.files import AddedFile, EventFile

JOIN_FILES: Final = 64
"""Files of about one size in one partition that are worth a join."""

_LATE_FILES = 8  # the same where the partition is not the latest, and hardly grows any more
_TIERS = (256 * KIB, 4 * MIB, 32 * MIB)  # bytes of a file: those of one tier are of about one size
_JOINED_BYTES = 64 * MIB  # limit on the files that one join reads
_GROUP_BYTES = 32 * MIB  # of a row group, in memory
_COMPRESSION = "zstd"  # files that stay are worth the time


def choose_files(files: Sequence[AddedFile]) -> list[AddedFile]:
    """Return which of *files*, in the order in which they were added, to join next; [] for none."""
    groups: dict[tuple[tuple[str, str], int], list[AddedFile]] = {}
    for file in files:
        tier = next((n for n, size in enumerate(_TIERS) if file.size < size), None)
        if tier is not None:
            groups.setdefault((_place(file), tier), []).append(file)

    latest = max((_place(file) for file in files), default=None)
    for (place, _), group in sorted(groups.items()):
        chosen = group[: _count_within(group, _JOINED_BYTES)]
        enough = JOIN_FILES if place == latest else _LATE_FILES
        if len(group) >= enough or (len(chosen) > 1 and len(chosen) < len(group)):
            return chosen
    return []


def _place(file: AddedFile) -> tuple[str, str]:
    """Return the file's partition, in an order in which days rise; null comes first."""
    values = list(file.partition.values())
    return ("", "") if None in values else ("partition", "/".join(map(str, values)))


def _count_within(files: Sequence[AddedFile], limit: int) -> int:
    """Return how many of *files* have no more than *limit* bytes together; at least two."""
    total = 0
    for count, file in enumerate(files):
        total += file.size
        if total > limit and count >= 2:
            return count
    return len(files)


def join_files(directory: str, schema: pa.Schema, files: Sequence[AddedFile]) -> AddedFile:
    """Write the rows of *files*, which are of one partition, into one durable file.

    *schema* is that of the rows; a column that a file lacks is null. Raises OSError, and
    `StorageError`, one of which is `UnreadableFileError`.
    """
    with EventFile(directory, schema, _COMPRESSION, files[0].partition) as target:
        for table in _row_groups(directory, schema, files):
            target.write_row_group(table)
    joined = target.added_file
    assert joined is not None, "files without rows are in no table"
    return joined


def _row_groups(
    directory: str, schema: pa.Schema, files: Sequence[AddedFile]
) -> Iterator[pa.Table]:
    """Yield the rows of *files* in order, in groups of bounded size."""
    labels = {field.name for field in schema if field.type.equals(LABEL)}
    held: list[pa.Table] = []
    for file in files:
        for table in _read(os.path.join(directory, file.name), labels):
            held.append(_with_columns(table, schema))
            if sum(table.nbytes for table in held) >= _GROUP_BYTES:
                yield pa.concat_tables(held).unify_dictionaries()
                held = []
    if held:
        yield pa.concat_tables(held).unify_dictionaries()


def _read(path: str, labels: set[str]) -> Iterator[pa.Table]:
    """Yield the row groups of the file at *path*, those of *labels* that it has as dictionaries.

    Bytes that a disk has changed must not get checksums that fit them.
    """
    with name_read(path):
        metadata = pq.read_metadata(path)
        there = sorted(labels & set(metadata.schema.to_arrow_schema().names))
        with pq.ParquetFile(
            path, metadata=metadata, read_dictionary=there, page_checksum_verification=True
        ) as source:
            for number in range(source.num_row_groups):
                yield source.read_row_group(number)


def _with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [_column(table, field) for field in schema]
    return pa.table(columns, names=schema.names).cast(schema)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """Return the column *field* of *table*, null if there is none."""
    if field.name in table.column_names:
        column = table[field.name]
    else:
        column = pa.chunked_array([pa.nulls(len(table), field.type)])
    if field.type.equals(VARIANT):  # no cast makes it of what Spark writes, or of null
        return pa.chunked_array([as_variants(part) for part in column.chunks], VARIANT)
    return column
