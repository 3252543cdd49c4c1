"""What the gold tables say, added up: for reports, and for readers without SQL at hand."""

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.errors import StorageError
from logdrive.pipeline.gold.schema import (
    ERRORS,
    GOLD_SCHEMAS,
    LATENCIES,
    MINUTES,
    TALKERS,
    gold_directory,
)
from logdrive.pipeline.gold.summarize import add_rows
from logdrive.pipeline.tables.open_table import is_table, open_table

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def has_gold(directory: str) -> bool:
    """Return whether *directory* has gold tables."""
    return all(is_table(os.path.join(gold_directory(directory), name)) for name in GOLD_SCHEMAS)


def read_gold(directory: str, table: str, where: Any = None) -> pa.Table:
    """Return the rows of the gold table *table*, one for each of its keys.

    *where* is an expression of Arrow. Raises `StorageError` if there is no such table.
    """
    schema = GOLD_SCHEMAS[table]
    path = os.path.join(gold_directory(directory), table)
    if not is_table(path):
        raise StorageError(f"{path} is not a table: run `logdrive pipeline gold {directory}` first")
    rows = open_table(path, schema).read_rows(schema.names, where)
    return add_rows(table, rows.cast(schema))


def read_minutes(directory: str, since: datetime | None = None) -> pa.Table:
    """Return lines, errors, bytes and latencies by minute, service and silver table, sorted.

    The columns p50, p90 and p99 are seconds, right within 5 %; null where no line says how long it
    took. Raises `StorageError`.
    """
    where = None if since is None else pc.field("minute") >= since
    minutes = read_gold(directory, MINUTES, where)
    keys = ["minute", "service", "table"]
    quantiles = add_quantiles(read_gold(directory, LATENCIES, where), keys)
    return _join(minutes, quantiles, keys).sort_by([(key, "ascending") for key in keys])


def read_services(directory: str, since: datetime | None = None) -> pa.Table:
    """Return what `read_minutes` does, of all minutes since *since* together.

    Raises `StorageError`.
    """
    where = None if since is None else pc.field("minute") >= since
    keys = ["service", "table"]
    sums = ["lines", "errors", "bytes", "timed", "seconds"]
    minutes = read_gold(directory, MINUTES, where)
    summed = minutes.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in sums])
    summed = summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])
    quantiles = add_quantiles(read_gold(directory, LATENCIES, where), keys)
    return _join(summed, quantiles, keys).sort_by([("lines", "descending")])


def read_talkers(directory: str, count: int, since: datetime | None = None) -> pa.Table:
    """Return the *count* clients with most lines, with lines, errors and bytes.

    Raises `StorageError`.
    """
    where = None if since is None else pc.field("hour") >= since
    rows = read_gold(directory, TALKERS, where)
    sums = [(name, "sum") for name in ("lines", "errors", "bytes")]
    summed = rows.group_by("client", use_threads=False).aggregate(sums)
    summed = summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])
    named = summed.filter(pc.field("client").is_valid())
    return named.sort_by([("lines", "descending"), ("client", "ascending")]).slice(0, count)


def read_errors(directory: str, new_since: datetime | None = None) -> pa.Table:
    """Return the errors by fingerprint, the newest first.

    With *new_since* only those that were never seen before it. Raises `StorageError`.
    """
    rows = read_gold(directory, ERRORS).sort_by([("first", "descending")])
    return rows if new_since is None else rows.filter(pc.field("first") >= new_since)


def add_quantiles(latencies: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return p50, p90 and p99 of *latencies*, rows of that table, by *keys*."""
    rows = latencies.group_by([*keys, "seconds"], use_threads=False).aggregate([("lines", "sum")])
    rows = rows.sort_by([*((key, "ascending") for key in keys), ("seconds", "ascending")])
    count = rows.num_rows
    changed = np.zeros(count, np.bool_)
    changed[:1] = True
    for key in keys:
        codes = pc.fill_null(rows[key].combine_chunks().dictionary_encode().indices, -1)
        numbers = codes.to_numpy(zero_copy_only=False)
        changed[1:] |= numbers[1:] != numbers[:-1]
    first = np.flatnonzero(changed)
    lines = rows["lines_sum"].to_numpy()
    upto = np.cumsum(lines)
    before = upto[first] - lines[first]
    whole = np.diff(np.append(before, upto[-1:]))
    found = rows.select(list(keys)).take(pa.array(first))
    for name, share in _QUANTILES.items():
        # the bucket in which the line of that rank is
        place = np.searchsorted(upto, before + np.maximum(np.ceil(whole * share), 1))
        found = found.append_column(name, rows["seconds"].take(pa.array(place)))
    return found


def _join(sums: pa.Table, quantiles: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return *sums* with the columns of *quantiles*; null keys are equal, too."""
    values = {tuple(row[key] for key in keys): row for row in quantiles.to_pylist()}
    rows = [
        values.get(key, {}) for key in zip(*(sums[key].to_pylist() for key in keys), strict=True)
    ]
    for name in _QUANTILES:
        column = pa.array([row.get(name) for row in rows], pa.float64())
        sums = sums.append_column(name, column)
    return sums
