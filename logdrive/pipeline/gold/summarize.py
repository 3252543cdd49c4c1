"""Rows of silver as the sums that gold keeps of them, by columns.

What a table of silver has decides what is kept: every row counts as a line; a `level` or `status`
may make it an error, `seconds` a latency, a `client` a talker, a `fingerprint` an error by itself.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.decode.schema import TIME
from logdrive.pipeline.formats.levels import ERROR_LEVELS
from logdrive.pipeline.gold.schema import (
    ADDING,
    ERRORS,
    GOLD_KEYS,
    GOLD_SCHEMAS,
    LATENCIES,
    MINUTES,
    TALKERS,
)

SILVER_COLUMNS: Final = {
    "source": pa.string(),
    "start": pa.int64(),
    "service": pa.string(),
    "time": TIME,
    "received": TIME,
    "service_name": pa.string(),
    "level": pa.string(),
    "status": pa.int16(),
    "bytes": pa.int64(),
    "seconds": pa.float64(),
    "client": pa.string(),
    "trace": pa.int64(),
    "fingerprint": pa.string(),
    "message": pa.string(),
    "error": pa.string(),
}
"""What is read of silver's rows, where a table has it. A configured column of such a name, but of
another type, is something else.
"""

TALKERS_KEPT: Final = 100
"""Clients of a service and hour that a step names; the others are one row, without a name."""

_MINUTE, _HOUR = 60_000_000, 3_600_000_000  # microseconds
_SERVER_ERROR = 500
_GROWTH = 1.1  # of the latencies that count as one: no more than 5 % off
_LEAST, _MOST = 1e-6, 1e6  # seconds
_MESSAGE = 500  # characters that are kept of an error's first line

Summary = Mapping[str, pa.Table]
"""Rows of gold, by table."""


def summarize_rows(rows: pa.Table, table: str) -> Summary:
    """Return what gold keeps of *rows* of the silver table *table*, with some `SILVER_COLUMNS`.

    Costs about 0.3 µs a row.
    """
    count = rows.num_rows
    if not count:
        return {name: schema.empty_table() for name, schema in GOLD_SCHEMAS.items()}
    columns = {name: _whole(rows[name]) for name in rows.column_names}
    columns = {
        name: column for name, column in columns.items() if column.type == SILVER_COLUMNS[name]
    }
    nothing = pa.nulls(count)
    time = pc.coalesce(columns["time"], columns["received"])
    service = columns.get("service", nothing).cast(pa.string())
    named = {
        "service": pc.coalesce(service, columns.get("service_name", nothing).cast(pa.string())),
        "table": pa.repeat(pa.scalar(table, pa.string()), count),
    }
    counts = {
        "lines": pa.repeat(pa.scalar(1, pa.int64()), count),
        "errors": _errors(columns, count).cast(pa.int64()),
        "bytes": pc.fill_null(columns.get("bytes", nothing).cast(pa.int64()), 0),
    }
    seconds = columns.get("seconds", nothing).cast(pa.float64())
    minutes = (
        named
        | counts
        | {
            "minute": _floor(time, _MINUTE),
            "timed": seconds.is_valid().cast(pa.int64()),
            "seconds": pc.fill_null(seconds, 0.0),
        }
    )
    summary = {MINUTES: _sum(MINUTES, minutes)}
    summary[LATENCIES] = _latencies(minutes, seconds)
    summary[TALKERS] = GOLD_SCHEMAS[TALKERS].empty_table()
    if "client" in columns:
        talkers = named | counts | {"hour": _floor(time, _HOUR), "client": columns["client"]}
        summary[TALKERS] = _sum(TALKERS, talkers)
    summary[ERRORS] = GOLD_SCHEMAS[ERRORS].empty_table()
    if "fingerprint" in columns:
        summary[ERRORS] = _fingerprints(columns, named, time)
    return summary


def add_up(parts: Sequence[Summary]) -> Summary:
    """Return the sums of *parts*."""
    return {
        name: add_rows(name, pa.concat_tables([part[name] for part in parts]))
        for name in GOLD_SCHEMAS
    }


def add_rows(name: str, rows: pa.Table) -> pa.Table:
    """Return *rows* of the gold table *name*, one for each of its keys."""
    keys = list(GOLD_KEYS[name])
    values = [column for column in GOLD_SCHEMAS[name].names if column not in keys]
    summed = rows.group_by(keys, use_threads=False).aggregate(
        [(value, ADDING[value]) for value in values]
    )
    columns = [summed[key] for key in keys]
    columns += [summed[f"{value}_{ADDING[value]}"] for value in values]
    named = pa.table(columns, names=[*keys, *values])
    return named.select(GOLD_SCHEMAS[name].names).cast(GOLD_SCHEMAS[name])


def keep_talkers(rows: pa.Table) -> pa.Table:
    """Return *rows* of `talkers`: of each service and hour the first `TALKERS_KEPT`, and one more
    for all others, without a client.
    """
    if not rows.num_rows:
        return rows
    groups = np.zeros(rows.num_rows, np.int64)
    for name in GOLD_KEYS[TALKERS][:-1]:
        codes = _whole(rows[name]).dictionary_encode().indices.fill_null(-1)
        numbers = codes.to_numpy(zero_copy_only=False).astype(np.int64) + 1
        groups = groups * (int(numbers.max()) + 1) + numbers
    # by group, the most lines first, and clients by name where these are equal; no client is last
    clients = _whole(rows["client"])
    names = pc.fill_null(clients, "").to_numpy(zero_copy_only=False)
    lines = pc.if_else(clients.is_valid(), _whole(rows["lines"]), -1).to_numpy(zero_copy_only=False)
    order = np.lexsort((names, -lines, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    kept = pc.if_else(pa.array(rank < TALKERS_KEPT), clients, None)
    place = rows.column_names.index("client")
    return add_rows(TALKERS, rows.set_column(place, "client", kept))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return *column* in one piece, without a dictionary."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _errors(columns: Mapping[str, pa.Array], count: int) -> pa.BooleanArray:
    """Return which rows say an error: by their level, or a server's by its status."""
    errors = pa.repeat(pa.scalar(value=False), count)
    if "level" in columns:
        errors = pc.is_in(columns["level"], pa.array(ERROR_LEVELS))
    if "status" in columns:
        failed = pc.greater_equal(columns["status"], _SERVER_ERROR)
        errors = pc.or_(errors, pc.fill_null(failed, False))
    return errors


def _floor(time: pa.TimestampArray, unit: int) -> pa.TimestampArray:
    micros = time.cast(pa.int64())
    numbers = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    missing = pc.is_null(micros).to_numpy(zero_copy_only=False)
    return pa.array(numbers - numbers % unit, pa.int64(), mask=missing).cast(TIME)


def _sum(name: str, columns: Mapping[str, pa.Array]) -> pa.Table:
    schema = GOLD_SCHEMAS[name]
    return add_rows(name, pa.table({one: columns[one] for one in schema.names}, schema=schema))


def _latencies(minutes: Mapping[str, pa.Array], seconds: pa.FloatArray) -> pa.Table:
    timed = seconds.is_valid()
    here = {name: minutes[name].filter(timed) for name in ("minute", "service", "table", "lines")}
    return _sum(LATENCIES, here | {"seconds": _bucket(seconds.filter(timed))})


def _bucket(seconds: pa.FloatArray) -> pa.FloatArray:
    """Return the middle of the bucket of each of *seconds*: these grow by `_GROWTH`."""
    numbers = np.nan_to_num(seconds.to_numpy(zero_copy_only=False), nan=_LEAST)
    places = np.ceil(np.log(np.clip(numbers, _LEAST, _MOST)) / math.log(_GROWTH))
    # rounded, so that every machine names a bucket by the same number
    middles = [float(f"{2 * _GROWTH**place / (_GROWTH + 1):.6g}") for place in np.unique(places)]
    return pa.array(np.array(middles)[np.unique(places, return_inverse=True)[1]], pa.float64())


def _fingerprints(
    columns: Mapping[str, pa.Array], named: Mapping[str, pa.Array], time: pa.TimestampArray
) -> pa.Table:
    """Return the errors that rows begin: of a stack trace only the first line counts."""
    begins = columns["fingerprint"].is_valid()
    if "trace" in columns:
        first = pc.fill_null(pc.equal(columns["trace"], columns["start"]), False)
        # lines of foreign peers may have no place in a file
        alone = (
            pc.and_(columns["trace"].is_null(), columns["level"].is_valid())
            if ("level" in columns)
            else columns["trace"].is_null()
        )
        begins = pc.and_(begins, pc.or_(first, alone))
    here = {
        **named,
        "fingerprint": columns["fingerprint"],
        "times": pa.repeat(pa.scalar(1, pa.int64()), len(begins)),
        "first": time,
        "last": time,
        "source": columns["source"],
        "start": columns["start"],
        "message": pc.coalesce(
            *(columns[name] for name in ("message", "error") if name in columns),
            pa.nulls(len(begins), pa.string()),
        ),
    }
    here = {name: value.filter(begins) for name, value in here.items()}
    here["message"] = pc.utf8_slice_codeunits(here["message"], 0, _MESSAGE)
    return _sum(ERRORS, here)
