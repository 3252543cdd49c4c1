"""Parquet files of the tables.

A file is written and synced before a commit adds it to a table, so that no table names a torn file.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from logdrive.pipeline.decode.schema import LABEL, VARIANT
from logdrive.pipeline.tables.failures import name_written
from logdrive.pipeline.tables.parquet.writer import ParquetFileWriter

_PACKED = ("ordinal", "start", "end")  # columns that rise: encoded as deltas
_REPEATED = ("batch", "offset", "received")  # the same in all rows of a batch
_TEXTS = frozenset(("message", "fields", "rest", "error", "stack"))  # each value is another one
_COUNTED = ("batch", "offset", "start", "end", "received")  # with statistics
_DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}  # encodings
_LEVELS = {"zstd": 1}  # compression -> its level, if not the default
_NULL_PLACE = "__HIVE_DEFAULT_PARTITION__"  # in a path, as Hive writes it
DEFAULT_COMPRESSION = "snappy"


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A finished file, to be added to a table."""

    name: str  # relative to the table's directory
    size: int  # bytes
    rows: int
    # partition column -> its value, the same in all rows; it need not be in the file
    partition: Mapping[str, str | None] = field(default_factory=dict)


class EventFile:
    """A parquet file that grows by row groups.

    It is complete and durable once the context ends without an error. With an error, or without
    rows, it is removed.
    """

    def __init__(
        self,
        directory: str,
        schema: pa.Schema,
        compression: str = DEFAULT_COMPRESSION,
        partition: Mapping[str, str | None] = MappingProxyType({}),
        label: str = "",
    ) -> None:
        """Write rows of *schema* into a new file of the table in *directory*.

        With a *label* in its name it can be found by `remove_labelled`.
        """
        # values of the partition columns, which *schema* does not have
        self._partition = dict(partition)
        # relative to the table's directory
        self.name = os.path.join(
            *_partition_places(partition), f"{_prefix(label)}{uuid4()}.parquet"
        )
        self._directory = directory
        self._path = os.path.join(directory, self.name)
        options = parquet_options(schema, compression)
        with name_written(self._path):
            if partition:
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
            try:
                self._file = ParquetFileWriter(self._path, schema, options, _TEXTS)
            except BaseException:  # such as first bytes that do not fit the disk
                with suppress(FileNotFoundError):
                    os.unlink(self._path)
                raise
        # rows so far
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def write_row_group(self, table: pa.Table) -> None:
        """Add *table* as one row group."""
        if table.num_rows:  # an empty row group would be of no use to readers
            with name_written(self._path):
                self._file.write_row_group(table)
            self.rows += table.num_rows

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None or not self.rows:
            try:
                self._file.abandon()
            finally:
                os.unlink(self._path)
            return
        try:
            with name_written(self._path):
                self._file.finish()
                sync_directory(os.path.dirname(self._path))
                if self._partition:  # the directory of a new day
                    sync_directory(self._directory)
        except BaseException:  # such as an end that does not fit the disk, or memory
            os.unlink(self._path)
            raise

    @property
    def added_file(self) -> AddedFile | None:
        """The finished file, after the context has ended; None if there were no rows."""
        if not self.rows:
            return None
        return AddedFile(self.name, os.path.getsize(self._path), self.rows, self._partition)


def write_file(
    directory: str, table: pa.Table, compression: str = DEFAULT_COMPRESSION, label: str = ""
) -> AddedFile | None:
    """Write *table* as one durable file, with *label* in its name; None if it has no rows."""
    with EventFile(directory, table.schema, compression, label=label) as file:
        file.write_row_group(table)
    return file.added_file


def remove_labelled(directory: str, label: str) -> None:
    """Remove the files that were written with *label* below *directory*, and no table names.

    It looks at all names there are, so it is for steps that failed.
    """
    for place, _, names in os.walk(directory):
        for name in names:
            if name.startswith(_prefix(label)):
                with suppress(FileNotFoundError):  # the task that wrote it has removed it
                    os.unlink(os.path.join(place, name))


def _prefix(label: str) -> str:
    """Return how the names of files begin."""
    return f"part-{label}-" if label else "part-"


def _partition_places(partition: Mapping[str, str | None]) -> list[str]:
    """Return the directories of a partition, one in the other."""
    return [
        f"{name}={_NULL_PLACE if value is None else value}" for name, value in partition.items()
    ]


def labelled_schema(path: str) -> pa.Schema:
    """Return the schema of the file at *path*, texts that it has as dictionaries as `LABEL`."""
    with pq.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        group = metadata.row_group(0)
        chunks = [group.column(number) for number in range(group.num_columns)]
    encoded = {chunk.path_in_schema for chunk in chunks if _DICTIONARIES & set(chunk.encodings)}
    return pa.schema(
        [
            field.with_type(LABEL) if field.name in encoded and field.type == pa.string() else field
            for field in schema
        ]
    )


def parquet_options(schema: pa.Schema, compression: str) -> dict[str, Any]:
    """Return the arguments for `ParquetWriter`.

    Values that repeat are encoded as dictionaries, rising ones as deltas. Strings that are not
    known to differ are taken for repeated: the writer gives their dictionary up once it is too
    long. Only columns that queries filter by get statistics. Each page gets a CRC-32, by which
    `check_file` finds bytes that a disk has changed: no codec used here has a checksum of its own.
    """
    names = schema.names
    return {
        "compression": compression,
        "compression_level": _LEVELS.get(compression),
        "use_dictionary": [
            field.name
            for field in schema
            if field.type.equals(LABEL)
            or field.name in _REPEATED
            or (field.type == pa.string() and field.name not in _TEXTS)
        ]
        # the keys of objects, which are the same in most rows
        + [f"{field.name}.metadata" for field in schema if field.type.equals(VARIANT)],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in _PACKED if name in names},
        "write_statistics": [name for name in _COUNTED if name in names],
        "write_page_checksum": True,
        "store_schema": False,  # readers should see strings, not our dictionaries
    }


def sync_file(path: str) -> None:
    """Make the file at *path* and its directory entry durable."""
    _sync(path, os.O_RDONLY)
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make the names in the directory at *path* durable."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
