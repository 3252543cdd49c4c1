"""Rows of a table by a condition in SQL, which delta-rs answers."""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from logdrive.pipeline.decode.schema import plain_schema
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.failures import storage_error


def select_rows(table: AppendTable, columns: Sequence[str], condition: str) -> pa.Table:
    """Return *columns* of the rows of *table* for which *condition* is true.

    Raises ValueError for a condition that is none.
    """
    names = ", ".join(f'"{name}"' for name in columns)
    # the condition twice: an engine may leave one out of WHERE that it can't evaluate, as 1/0=1
    query = f"SELECT {names}, ({condition}) AS wanted FROM rows WHERE ({condition})"  # noqa: S608 - the owner's own
    try:
        tables = QueryBuilder().register("rows", DeltaTable(table.path, version=table.version))
        found = pa.table(tables.execute(query).read_all())
    except Exception as error:  # delta-rs has no class for what fails in the midst of a query
        text = str(storage_error(table.path, error))
        raise ValueError(text.partition("read or written: ")[2] or text) from error
    if found["wanted"].type != pa.bool_():
        raise ValueError("it is neither true nor false")
    schema = plain_schema(table.schema)
    asked = pa.schema([schema.field(name).with_nullable(True) for name in columns])
    return found.select(list(columns)).cast(asked).filter(found["wanted"])
