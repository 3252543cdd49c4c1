"""Single records, full, lean and foreign, each turned into one event (rules R1, R2): the forms that
cost Python per event.

About 4 µs each; what is said here in few calls and plain tests of types is so for speed.
"""

from base64 import b64decode
from typing import Any, Final

import orjson

from logdrive.model.limits import MAX_POSITION
from logdrive.pipeline.decode.exact import dump_as_written, may_have_lost_digits
from logdrive.pipeline.decode.schema import CHANGED, MALFORMED, NOT_JSON, NOT_OBJECT

BLOCK: Final = "block"
LEAN: Final = "lean"
FULL: Final = "full"
FOREIGN: Final = "foreign"
UNKNOWN: Final = "unknown"

TIMESTAMP: Final = "@timestamp"


class SingleEvents:
    """Columns of single events; None stands for what the batch's header says, or for null.

    *time* is text as the record had it.
    """

    NAMES: Final = (
        "message",
        "form",
        "start",
        "end",
        "eol",
        "host",
        "path",
        "original",
        "fields",
        "time",
        "flag",
    )

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """Return the columns by name; there must be rows."""
        return dict(zip(self.NAMES, zip(*self.rows, strict=True), strict=True))

    def add_quarantined(self, payload: bytes, flag: str) -> None:
        """Add the event that stands for bytes we can't read: nothing of them is lost."""
        self.rows.append(
            (
                payload.decode(errors="replace"),
                UNKNOWN,
                None,
                None,
                None,
                None,
                None,
                payload,
                None,
                None,
                flag,
            )
        )

    def add_line(self, message: str, start: int, end: int, eol: str) -> None:
        """Add a line of a block."""
        self.rows.append((message, BLOCK, start, end, eol, None, None, None, None, None, None))

    def add_own(self, payload: bytes, record: dict[str, Any]) -> None:
        """Add the event of a lean or full record that an agent of ours sent; its positions are in
        the file.
        """
        try:
            self._add(record, payload, FULL if TIMESTAMP in record else LEAN, placed=True)
        except (TypeError, ValueError):
            self.add_quarantined(payload, MALFORMED)

    def add_foreign(self, payload: bytes, record: dict[str, Any]) -> None:
        """Add the event of a record that another shipper sent, whatever its shape; or an agent of
        ours that speaks plain Lumberjack.
        """
        try:
            if "log.origin" in record:
                record = _unflattened(record)
            log = record.get("log")
            self._add(
                record,
                payload,
                FOREIGN,
                placed=type(log) is dict and "origin" in log and "offset" in log,
            )
        except (TypeError, ValueError):
            self.add_quarantined(payload, MALFORMED)

    def _add(self, record: dict[str, Any], payload: bytes, form: str, *, placed: bool) -> None:
        """Take from *record* what has a column of its own; the rest becomes `fields`.

        Raises ValueError where *placed* can't be.
        """
        message = record.pop("message", None)
        start, end, eol, path = _of_log(record) if "log" in record else (None, None, "\n", None)
        host = record.pop("host") if type(record.get("host")) is str else _of_host(record)
        if form is FOREIGN:
            message, start, path, host = _flat(record, payload, message, start, path, host)
        if type(message) is not str:
            raise ValueError("no message")
        original = _original(record) if "event" in record else None
        flag = None
        if placed:
            end, flag = _placed(message, start, end, eol, original)
        time = record.pop(TIMESTAMP, None)
        if time is not None and type(time) is not str:
            record[TIMESTAMP], time = time, None
        fields = None
        if record:
            dumped = orjson.dumps(record)
            fields = (
                dump_as_written(record, payload)
                if may_have_lost_digits(dumped)
                else dumped.decode()
            )
        self.rows.append((message, form, start, end, eol, host, path, original, fields, time, flag))


def parse_record(payload: bytes) -> dict[str, Any] | str:
    """Return the object in *payload*, or the flag that says why there is none."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return NOT_JSON
    return value if type(value) is dict else NOT_OBJECT


def _of_log(record: dict[str, Any]) -> tuple[int | None, int | None, str, str | None]:
    """Take the start, the end, the line end and the path from `log`."""
    log, path, eol = record["log"], None, "\n"
    if type(log) is not dict:
        return None, None, eol, None
    start, end = _position(log, "offset"), _position(log, "end")
    if type(log.get("eol")) is str:
        eol = log.pop("eol")
    file = log.get("file")
    if type(file) is dict and type(file.get("path")) is str:
        path = file.pop("path")
        if not file:
            del log["file"]
    if not log:
        del record["log"]
    return start, end, eol, path


def _unflattened(record: dict[str, Any]) -> dict[str, Any]:
    """Return what an agent of ours sent as Lumberjack v1's pairs in the shape of a full record; any
    other as it is.
    """
    named = {
        "line",
        "offset",
        "file",
        "log.origin",
        "log.eol",
        "log.flags",
        "event.original_base64",
    } & record.keys()
    ours = {name: record[name] for name in named}
    if len(named & {"line", "offset", "file"}) < 3 or any(
        type(value) is not str for value in ours.values()
    ):
        return record
    rest = {name: value for name, value in record.items() if name not in named}
    log: dict[str, Any] = {
        "file": {"path": ours["file"]},
        "origin": ours["log.origin"],
        "offset": ours["offset"],
    }
    if "log.eol" in named:
        log["eol"] = ours["log.eol"]
    if "log.flags" in named:
        log["flags"] = ours["log.flags"].split(",")
    if "event.original_base64" in named:
        rest["event"] = {"original_base64": ours["event.original_base64"]}
    return {"message": ours["line"], "log": log} | rest


def _of_host(record: dict[str, Any]) -> str | None:
    host = record.get("host")
    if type(host) is not dict or type(host.get("name")) is not str:
        return None
    name = host.pop("name")
    if not host:
        del record["host"]
    return str(name)


def _flat(
    record: dict[str, Any],
    payload: bytes,
    message: Any,
    start: int | None,
    path: str | None,
    host: str | None,
) -> tuple[str, int | None, str | None, str | None]:
    """Fill in what is missing from the names that Lumberjack v1 and old shippers use."""
    name = "message"
    if message is None:
        name, message = "line", record.pop("line", "")
    if type(message) is not str:
        dumped = orjson.dumps(message)
        message = (
            dump_as_written(message, payload, name)
            if may_have_lost_digits(dumped)
            else dumped.decode()
        )
    if start is None:
        start = _position(record, "log.offset")
        start = _position(record, "offset") if start is None else start
    for name in ("log.file.path", "source", "file") if path is None else ():
        if type(record.get(name)) is str:
            path = record.pop(name)
            break
    if host is None and type(record.get("host.name")) is str:
        host = record.pop("host.name")
    return message, start, path, host


def _position(values: dict[str, Any], name: str) -> int | None:
    """Take a position; one written as text too, as Lumberjack v1 does.

    What is none stays where it is.
    """
    value = values.get(name)
    if type(value) is str and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if type(value) is not int or not 0 <= value < MAX_POSITION:
        return None
    del values[name]
    return value


def _original(record: dict[str, Any]) -> bytes | None:
    event = record["event"]
    if type(event) is not dict or type(event.get("original_base64")) is not str:
        return None
    exact = b64decode(event.pop("original_base64"), validate=True)
    if not event:
        del record["event"]
    return exact


def _placed(
    message: str, start: int | None, end: int | None, eol: str, original: bytes | None
) -> tuple[int, str | None]:
    """Return the end of an event in its file, and a flag where its message is not as long as that;
    a full record ends where its bytes do.

    Raises ValueError where there is no end, or the exact bytes are not those of their interval
    (rule R2).
    """
    if start is None:
        raise ValueError("no position")
    exact = (
        (len(message) if message.isascii() else len(message.encode()))
        if original is None
        else len(original)
    )
    ends = start + exact + (len(eol) if eol.isascii() else len(eol.encode()))
    if end is None:
        end = ends
    if end <= start:
        raise ValueError("no bytes")
    if end == ends:
        return end, None
    if original is not None:
        raise ValueError("the exact bytes are not as many as their interval")
    return end, CHANGED
