"""Single records, full, lean and foreign, each turned into one event (rules R1, R2): the forms that cost Python per event."""

from base64 import b64decode
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson

from logdrive.limits import MAX_POSITION
from logdrive.pipeline.schema import MALFORMED, NOT_JSON, NOT_OBJECT

BLOCK: Final = "block"
LEAN: Final = "lean"
FULL: Final = "full"
FOREIGN: Final = "foreign"
UNKNOWN: Final = "unknown"


class Single(NamedTuple):
    """One event of a record by itself. What is None is taken from the batch's header, or is null."""

    message: str
    form: str
    start: int | None = None
    end: int | None = None
    eol: str | None = "\n"
    host: str | None = None
    path: str | None = None
    original: bytes | None = None
    fields: str | None = None
    time: datetime | None = None
    flag: str | None = None


def quarantined(payload: bytes, flag: str) -> Single:
    """Return the event that stands for bytes we can't read: nothing of them is lost."""
    return Single(payload.decode(errors="replace"), UNKNOWN, eol=None, original=payload, flag=flag)


def parsed(payload: bytes) -> dict[str, Any] | Single:
    """Return the object in *payload*, or the event that stands for what is none."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return quarantined(payload, NOT_JSON)
    return value if isinstance(value, dict) else quarantined(payload, NOT_OBJECT)


def own_event(payload: bytes, record: dict[str, Any]) -> Single:
    """Return the event of a lean or full record that an agent of ours sent; its positions are in the file."""
    try:
        return _placed(_single(record, FULL if "@timestamp" in record else LEAN))
    except (TypeError, ValueError, KeyError):
        return quarantined(payload, MALFORMED)


def foreign_event(payload: bytes, record: dict[str, Any]) -> Single:
    """Return the event of a record that another shipper sent, whatever its shape."""
    try:
        event = _single(record, FOREIGN)
        log = record.get("log")
        ours = isinstance(log, dict) and "origin" in log and event.start is not None  # an agent of ours that speaks plain Lumberjack
        return _placed(event) if ours else event
    except (TypeError, ValueError, KeyError):
        return quarantined(payload, MALFORMED)


def _single(record: dict[str, Any], form: str) -> Single:
    """Take from *record* what has a column of its own; the rest becomes `fields`."""
    log = record.get("log")
    log = log if isinstance(log, dict) else {}
    message = _taken(record, "message", "line")
    if not isinstance(message, str):
        if form != FOREIGN:
            raise ValueError("no message")
        message = "" if message is None else orjson.dumps(message).decode()
    start = _position((log, "offset"), (record, "log.offset"), (record, "offset"))
    end = _position((log, "end"), (record, "log.end"))
    eol = log.pop("eol") if isinstance(log.get("eol"), str) else "\n"
    host, path = _host(record), _path(record, log)
    original = _original(record)
    time = _time(record.get("@timestamp"))
    if time is not None:
        del record["@timestamp"]
    if not log and isinstance(record.get("log"), dict):
        del record["log"]
    fields = orjson.dumps(record).decode() if record else None
    return Single(message, form, start, end, eol, host, path, original, fields, time)


def _placed(event: Single) -> Single:
    """Return *event* with both positions, the end of a full record being where its bytes end. Raises ValueError without a start."""
    if event.start is None:
        raise ValueError("no position")
    length = len(event.original if event.original is not None else event.message.encode()) + len(event.eol or "")
    end = event.start + length if event.end is None else event.end
    if end <= event.start:
        raise ValueError("no bytes")
    return event._replace(end=end)


def _taken(values: dict[str, Any], *names: str) -> Any:
    """Remove and return the first of *names* that is there."""
    for name in names:
        if name in values:
            return values.pop(name)
    return None


def _position(*candidates: tuple[dict[str, Any], str]) -> int | None:
    """Remove and return the first candidate that is a position; Lumberjack v1 writes numbers as text."""
    for holder, name in candidates:
        value = holder.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_POSITION:
            del holder[name]
            return value
    return None


def _host(record: dict[str, Any]) -> str | None:
    host = record.get("host")
    if isinstance(host, dict) and isinstance(host.get("name"), str):
        name = host.pop("name")
        if not host:
            del record["host"]
        return str(name)
    if isinstance(host, str):
        return str(record.pop("host"))
    flat = record.get("host.name")
    return str(record.pop("host.name")) if isinstance(flat, str) else None


def _path(record: dict[str, Any], log: dict[str, Any]) -> str | None:
    file = log.get("file")
    if isinstance(file, dict) and isinstance(file.get("path"), str):
        path = file.pop("path")
        if not file:
            del log["file"]
        return str(path)
    for name in ("log.file.path", "source", "file"):
        if isinstance(record.get(name), str):
            return str(record.pop(name))
    return None


def _original(record: dict[str, Any]) -> bytes | None:
    event = record.get("event")
    if not isinstance(event, dict) or not isinstance(event.get("original_base64"), str):
        return None
    exact = b64decode(event.pop("original_base64"), validate=True)
    if not event:
        del record["event"]
    return exact


def _time(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
