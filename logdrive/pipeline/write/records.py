"""Makes foreign records of rows: JSON objects that the decoder turns into such rows again.

Costs Python per row, some 3 µs.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import pyarrow as pa

from logdrive.errors import ConfigError, Mistake
from logdrive.pipeline.decode.exact import may_have_lost_digits
from logdrive.pipeline.decode.records import TIMESTAMP
from logdrive.pipeline.decode.schema import EVENTS

WRITTEN: Final = ("message", "host", "path", "fields", "time", "eol", "original")
"""The columns that become part of a record; the other columns of `events` belong to a stream."""

_SHOWN: Final = 100  # characters of a value in an error


def check_columns(names: Iterable[str]) -> list[Mistake]:
    """Return what is wrong with rows that have columns of these *names*."""
    given = set(names)
    known = f"{','.join(WRITTEN)}; other columns of events are left out"
    mistakes = [
        Mistake("column", name, f"choose among {known}: let others be in `fields`, as JSON")
        for name in sorted(given - set(EVENTS.names))
    ]
    if "message" not in given:
        mistakes.append(Mistake("column", "message", "let the rows have it, as a string"))
    return mistakes


def encode_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield a record for each row of *batches*, whose columns `check_columns` has seen.

    Raises `ConfigError` if a row's `fields` are no JSON object.
    """
    for batch in batches:
        columns = {
            name: batch.column(name).to_pylist() for name in WRITTEN if name in batch.schema.names
        }
        for values in zip(*columns.values(), strict=True):
            yield _encode(dict(zip(columns, values, strict=True)))


def _encode(row: dict[str, Any]) -> bytes:
    record: dict[str, Any] = {"message": row["message"] or ""}
    if (time := row.get("time")) is not None:
        record[TIMESTAMP] = time if type(time) is str else _time_text(time)
    if (host := row.get("host")) is not None:
        record["host"] = {"name": host}
    log: dict[str, Any] = {}
    if (path := row.get("path")) is not None:
        log["file"] = {"path": path}
    if (eol := row.get("eol")) is not None and eol != "\n":
        log["eol"] = eol
    if log:
        record["log"] = log
    if (original := row.get("original")) is not None:
        record["event"] = {"original_base64": b64encode(original).decode()}

    fields = row.get("fields")
    return orjson.dumps(record) if not fields else _with_fields(record, fields)


def _time_text(time: datetime) -> str:
    utc = time.astimezone(UTC) if time.tzinfo else time  # Spark's timestamps without zone are UTC
    return utc.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _with_fields(record: dict[str, Any], text: str) -> bytes:
    """Return *record* with the fields in *text*, which is a JSON object."""
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        fields = None
    if type(fields) is not dict:
        remedy = "let `fields` be a JSON object, or null"
        raise ConfigError("rows to append", [Mistake("fields", text[:_SHOWN], remedy)])
    if not fields:
        return orjson.dumps(record)
    if not fields.keys() & record.keys() and may_have_lost_digits(orjson.dumps(fields)):
        # as they are written: numbers of more digits than orjson keeps
        return orjson.dumps(record)[:-1] + b"," + text.strip()[1:].encode()
    return orjson.dumps(_merge(fields, record))


def _merge(fields: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Return *record* with what *fields* have besides; objects are merged, else *record* wins."""
    merged = record | {name: value for name, value in fields.items() if name not in record}
    for name in fields.keys() & record.keys():
        if type(fields[name]) is dict and type(record[name]) is dict:
            merged[name] = _merge(fields[name], record[name])
    return merged
