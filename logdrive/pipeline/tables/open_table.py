"""Opens Delta tables, and makes them: with the columns of this version."""

import os
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from logdrive.errors import StorageError
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.delta_log import append_entry, entry_path
from logdrive.pipeline.tables.failures import is_listed, storage_error
from logdrive.pipeline.tables.features import (
    check_writable,
    delta_schema,
    has_variant,
    new_variant_table,
)
from logdrive.pipeline.tables.files import sync_directory, sync_file

_PROPERTIES: Final = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
"""Of new tables: a trickle makes up to 864,000 entries and files a day. What derived tables have
not processed for longer may be gone.
"""


def create_table(path: str, schema: pa.Schema, partition_by: Sequence[str] = ()) -> AppendTable:
    """Open the table at *path* for writing rows of *schema*; create it if there is none.

    A new one is partitioned by the columns *partition_by* of *schema*. One that an earlier version
    made gets the columns that it lacks, but stays partitioned as it is: without a column to be
    partitioned by, it does without. Raises `StorageError` if something else is there, it has
    columns that *schema* lacks, or it can't be written.
    """
    try:
        if has_variant(schema) and not is_table(path):
            os.makedirs(os.path.join(path, "_delta_log"), exist_ok=True)
            append_entry(path, 0, new_variant_table(schema, partition_by, _PROPERTIES))
        delta = DeltaTable.create(
            path,
            schema=delta_schema(schema),
            mode="ignore",
            partition_by=list(partition_by),
            configuration=_PROPERTIES,
        )
        check_writable(path, delta)
        if not delta.version():  # delta-rs does not sync what it writes
            sync_file(entry_path(path, 0))
            sync_directory(path)
            sync_directory(os.path.dirname(path))
        missing = _missing_fields(path, schema, delta)
        if unknown := set(_columns(delta)) - set(schema.names):
            raise StorageError(
                f"{path} has columns that this version does not write: "
                f"{', '.join(sorted(unknown))}; use the version that made them, or fill another "
                "directory"
            )
        if added := [field for field in missing if field.name not in partition_by]:
            _add_columns(path, delta, added)
    except (DeltaError, OSError) as error:
        raise storage_error(path, error) from error
    return AppendTable(path, schema, delta)


def open_table(path: str, schema: pa.Schema) -> AppendTable:
    """Open the table at *path* for reading rows of *schema*.

    A column that a table of an earlier version lacks is null. Raises `StorageError` if there is no
    table, or one of other columns.
    """
    try:
        delta = DeltaTable(path)
        _missing_fields(path, schema, delta)
        return AppendTable(path, schema, delta)
    except TableNotFoundError as error:
        log = os.path.join(path, "_delta_log")
        if not is_listed(log):  # there may well be a table
            raise StorageError(
                f"{path} can't be read: run this as the user who owns the tables"
            ) from error
        raise StorageError(
            f"{path} is not a table: run `logdrive pipeline run --to DIR` first"
        ) from error
    except (DeltaError, OSError) as error:
        raise storage_error(path, error) from error


def is_table(path: str) -> bool:
    """Return whether there is a table at *path*."""
    return os.path.isdir(path) and bool(DeltaTable.is_deltatable(path))


def open_table_as_it_is(path: str, version: int | None = None) -> AppendTable:
    """Open the table at *path*, whatever columns it has, as of *version* or now.

    Raises `StorageError` if there is none.
    """
    try:
        delta = DeltaTable(path, version=version)
        return AppendTable(path, pa.schema(delta.schema().to_arrow()), delta)
    except (DeltaError, OSError) as error:
        raise storage_error(path, error) from error


def _columns(delta: DeltaTable) -> dict[str, Any]:
    return {field.name: field for field in delta.schema().fields}


def _missing_fields(path: str, schema: pa.Schema, delta: DeltaTable) -> list[Any]:
    """Return the columns of *schema* that the table lacks, as Delta's fields.

    Raises `StorageError` unless they may be null, and the others are of the same types.
    """
    columns = _columns(delta)
    wanted = delta_schema(schema).fields
    missing = [field for field in wanted if field.name not in columns]
    wrong = [field.name for field in missing if not field.nullable] + [
        field.name
        for field in wanted
        if field.name in columns and columns[field.name].type != field.type
    ]
    if wrong:
        raise StorageError(
            f"{path} has other columns than this version knows: {', '.join(wrong)} "
            f"{'is' if len(wrong) == 1 else 'are'} missing or of another type"
        )
    return missing


def _add_columns(path: str, delta: DeltaTable, fields: list[Any]) -> None:
    delta.alter.add_columns(fields)
    delta.update_incremental()
    sync_file(entry_path(path, int(delta.version())))
