"""Rows of a table by a condition in SQL, which delta-rs answers."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from logdrive.pipeline.decode.schema import plain_schema
from logdrive.pipeline.tables.check_files import check_file
from logdrive.pipeline.tables.condition import check_condition
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.failures import storage_error

_OF_FILES: Final = ("Parquet error", "Object Store error", "ObjectStore")
"""Signs in messages of delta-rs that a file can't be read, and not the condition."""


def select_rows(table: AppendTable, columns: Sequence[str], condition: str) -> pa.Table:
    """Return *columns* of the rows of *table* for which *condition* is true.

    Raises ValueError for a condition that is none.
    """
    check_condition(condition)
    return _selected(table, columns, _query(columns, condition))


def select_first_rows(
    table: AppendTable, columns: Sequence[str], condition: str, order: Sequence[str], count: int
) -> pa.Table:
    """Return *columns* of the first *count* such rows in the order of the columns *order*.

    Raises ValueError as `select_rows`.
    """
    check_condition(condition)
    ordered = f"{_query(columns, condition)} ORDER BY {_names(order)} LIMIT {count}"
    return _selected(table, columns, ordered)


def count_rows(table: AppendTable, keys: Sequence[str], condition: str) -> pa.Table:
    """Return how many such rows there are with the same *keys*, as the column `count`, most first.

    Raises ValueError as `select_rows`.
    """
    check_condition(condition)
    query = (
        f"SELECT {_names(keys)}, count(*) AS count FROM ({_query(keys, condition)}) WHERE wanted "  # noqa: S608 - the owner's own
        f"GROUP BY {_names(keys)} ORDER BY count DESC, {_names(keys)}"
    )
    return _answer(table, query)


def _query(columns: Sequence[str], condition: str) -> str:
    # the condition twice: an engine may leave one out of WHERE that it can't evaluate, as 1/0=1
    whole = f"({condition}\n)"  # which may end with a comment
    return f"SELECT {_names(columns)}, {whole} AS wanted FROM rows WHERE {whole}"  # noqa: S608 - the owner's own


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _selected(table: AppendTable, columns: Sequence[str], query: str) -> pa.Table:
    """Return *columns* of what *query* finds in *table*, where `wanted` is true."""
    found = _answer(table, query)
    if found["wanted"].type != pa.bool_():
        raise ValueError("it is neither true nor false")
    schema = plain_schema(table.schema)
    asked = pa.schema([schema.field(name).with_nullable(True) for name in columns])
    return found.select(list(columns)).cast(asked).filter(found["wanted"])


def _answer(table: AppendTable, query: str) -> pa.Table:
    """Return what *query* finds. Raises ValueError for one that is none, `UnreadableFileError`."""
    try:
        tables = QueryBuilder().register("rows", DeltaTable(table.path, version=table.version))
        return pa.table(tables.execute(query).read_all())
    except Exception as error:  # delta-rs has no class for what fails in the midst of a query
        text = str(storage_error(table.path, error))
        if any(sign in text for sign in _OF_FILES):  # it does not say of which one
            for path in table.files:
                check_file(path)
        raise ValueError(text.partition("read or written: ")[2] or text) from error
