"""Rows of a table by a condition in SQL, which delta-rs answers."""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from logdrive.pipeline.decode.schema import plain_schema
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.failures import storage_error


def select_rows(table: AppendTable, columns: Sequence[str], condition: str) -> pa.Table:
    """Return *columns* of the rows of *table* for which *condition* is true.

    Raises ValueError for a condition that is none.
    """
    names = ", ".join(f'"{name}"' for name in columns)
    query = f"SELECT {names} FROM rows WHERE ({condition})"  # noqa: S608 - the owner's own
    try:
        tables = QueryBuilder().register("rows", DeltaTable(table.path, version=table.version))
        found = pa.table(tables.execute(query).read_all())
    except (DeltaError, OSError, ValueError) as error:
        text = str(storage_error(table.path, error))
        raise ValueError(text.partition("read or written: ")[2] or text) from error
    schema = plain_schema(table.schema)
    return found.cast(pa.schema([schema.field(name).with_nullable(True) for name in columns]))
