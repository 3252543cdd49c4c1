"""Turns single records into events: full, lean and foreign ones (rules R1, R2).

These forms cost Python per event, about 4 µs each. Hence few calls, and tests of types with
`type(…) is`.
"""

from base64 import b64decode
from typing import Any, Final

import orjson

from logdrive.model.limits import MAX_POSITION
from logdrive.model.records import ENTRY, encode_text
from logdrive.pipeline.decode.coverage import Interval
from logdrive.pipeline.decode.exact import dump_as_written, may_have_lost_digits
from logdrive.pipeline.decode.schema import (
    CHANGED,
    DAMAGED_PACK,
    MALFORMED,
    NOT_JSON,
    NOT_OBJECT,
    REDACTED,
)

TEXT: Final = "text"
BLOCK: Final = "block"
LEAN: Final = "lean"
FULL: Final = "full"
FOREIGN: Final = "foreign"
UNKNOWN: Final = "unknown"

TIMESTAMP: Final = "@timestamp"


class SingleEvents:
    """Collects single events as rows of `NAMES`.

    None stands for the value of the batch's header, or for null. *time* is the record's own text.
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
        """Return the columns by name; there must be at least one row."""
        return dict(zip(self.NAMES, zip(*self.rows, strict=True), strict=True))

    def last_intervals(self, count: int) -> list[Interval]:
        """Return where the last *count* events are in their file, without those that don't say."""
        start, end = self.NAMES.index("start"), self.NAMES.index("end")
        last = self.rows[len(self.rows) - count :]
        return [(row[start], row[end]) for row in last if None not in (row[start], row[end])]

    def add_quarantined(self, payload: bytes, flag: str) -> None:
        """Add an event for a record that can't be decoded; `original` keeps all its bytes."""
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

    def add_damaged(self, pack: bytes, why: str) -> None:
        """Add the one event of a pack that does not hold what its batch says (rule R8).

        `original` keeps the pack as it is stored.
        """
        fields = orjson.dumps({"error": {"message": why}}).decode()
        row = ("", UNKNOWN, None, None, None, None, None, pack, fields, None, DAMAGED_PACK)
        self.rows.append(row)

    def add_own(self, payload: bytes, record: dict[str, Any]) -> None:
        """Add the event of a lean or full record of our own agents, with positions in its file."""
        try:
            self._add(record, payload, _own_form(record), placed=True)
        except (TypeError, ValueError):
            self.add_quarantined(payload, MALFORMED)

    def add_foreign(self, payload: bytes, record: dict[str, Any]) -> None:
        """Add the event of a foreign record, whatever its shape.

        Another shipper sent it, or an agent of ours over plain Lumberjack; the latter's have
        positions in their file.
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
        """Move what has a column of its own out of *record*; the rest becomes `fields`.

        *placed*: the event must have positions in its file. Raises ValueError if it has none.
        """
        # positions, path and host, wherever this form has them
        redacted = placed and _has_flag(record, REDACTED)
        is_entry = placed and _has_flag(record, ENTRY)
        original = _encoded(record) if placed else None
        message = record.pop("message", None)
        start, end, eol, path = _of_log(record) if "log" in record else (None, None, "\n", None)
        host = record.pop("host") if type(record.get("host")) is str else _of_host(record)
        if form is FOREIGN:
            message, start, path, host = _flat(record, payload, message, start, path, host)
        if type(message) is not str:
            raise ValueError("no message")

        # exact bytes, and where they end in the file
        if "event" in record:
            original = _original(record, placed=placed)
        flag = None
        if redacted and not is_entry:
            end, flag = _redacted_end(message, start, end, eol), REDACTED
        elif is_entry:
            end, flag = _entry_end(start), REDACTED if redacted else None
        elif placed:
            end, flag = _placed(message, start, end, eol, original)

        # what is left has no column of its own
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
    """Return the JSON object in *payload*, or the flag for the event if it is none."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return NOT_JSON
    return value if type(value) is dict else NOT_OBJECT


def _of_log(record: dict[str, Any]) -> tuple[int | None, int | None, str, str | None]:
    """Move start, end, line end and path out of `log`."""
    log, path, eol = record["log"], None, "\n"
    if type(log) is not dict:
        return None, None, eol, None
    start, end = _position(log, "offset"), _position(log, "end")
    if type(log.get("eol")) is str:
        eol = log.pop("eol")
    file = log.get("file")
    if type(file) is dict and type(file.get("path")) is str:
        path = file.pop("path")
        # an object that has become empty is not kept in `fields`
        if not file:
            del log["file"]
    if not log:
        del record["log"]
    return start, end, eol, path


def _unflattened(record: dict[str, Any]) -> dict[str, Any]:
    """Return *record* as a full record if an agent of ours sent it as Lumberjack v1's pairs.

    Any other record is returned as it is.
    """
    named = {
        "line",
        "offset",
        "file",
        "log.origin",
        "log.eol",
        "log.flags",
        "log.encoding",
        "log.end",
        "log.parts",
        "event.original",
        "event.original_base64",
    } & record.keys()
    ours = {name: record[name] for name in named}
    # another shipper may use some of these names; ours sends all of them, and as text
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
    if "log.parts" in named:
        spans = (span.partition("-") for span in ours["log.parts"].split(","))
        log["parts"] = [[int(start), int(end)] for start, _, end in spans]
    for name in ("log.encoding", "log.end"):
        if name in named:
            log[name.removeprefix("log.")] = ours[name]
    for name in ("event.original", "event.original_base64"):
        if name in named:
            rest["event"] = {name.removeprefix("event."): ours[name]}
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
    """Fill in what is missing from the keys that Lumberjack v1 and old shippers use."""
    name = "message"
    if message is None:  # Lumberjack v1 calls it "line"
        name, message = "line", record.pop("line", "")
    if type(message) is not str:  # kept as JSON
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
    """Move the position *name* out of *values*; it may be text, as in Lumberjack v1.

    A value that is no position stays, and None is returned.
    """
    value = values.get(name)
    # 15 digits are enough for any position, so a longer text need not be parsed
    if type(value) is str and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if type(value) is not int or not 0 <= value < MAX_POSITION:
        return None
    del values[name]
    return value


def _own_form(record: dict[str, Any]) -> str:
    """Return the form of a record of our own agents; a lean one may have a time, too."""
    if TIMESTAMP not in record:
        return LEAN
    log = record.get("log")
    return LEAN if type(log) is dict and "end" in log and "origin" not in log else FULL


def _has_flag(record: dict[str, Any], flag: str) -> bool:
    log = record.get("log")
    flags = log.get("flags") if type(log) is dict else None
    return type(flags) is list and flag in flags


def _encoded(record: dict[str, Any]) -> bytes | None:
    """Return the exact bytes of a message in another encoding than UTF-8, None for all others.

    Raises ValueError if it can't be.
    """
    log = record.get("log")
    if type(log) is not dict or type(encoding := log.get("encoding")) is not str:
        return None
    message = record.get("message")
    return encode_text(message, encoding) if type(message) is str else None


def _original(record: dict[str, Any], *, placed: bool) -> bytes | None:
    """Move an event's exact bytes out of `event`: in Base64, or as text in our own records."""
    event = record["event"]
    if type(event) is not dict:
        return None
    if type(event.get("original_base64")) is str:
        exact = b64decode(event.pop("original_base64"), validate=True)
    elif placed and type(event.get("original")) is str:
        exact = event.pop("original").encode()
    else:
        return None
    if not event:
        del record["event"]
    return exact


def _redacted_end(message: str, start: int | None, end: int | None, eol: str) -> int:
    """Return the end of an event whose message was changed on purpose. Raises ValueError."""
    if end is None:
        end, _ = _placed(message, start, None, eol, None)
    if start is None or end <= start:
        raise ValueError("no bytes")
    return end


def _entry_end(start: int | None) -> int:
    """Return the end of an entry, of which each has one position. Raises ValueError without any."""
    if start is None:
        raise ValueError("no position")
    return start + 1


def _placed(
    message: str, start: int | None, end: int | None, eol: str, original: bytes | None
) -> tuple[int, str | None]:
    """Return the end of an event in its file, and a flag if its message has another length.

    A full record has no *end* of its own: it ends where its bytes do. Raises ValueError if there is
    no position, or if the exact bytes don't fill the interval (rule R2).
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

    # A message may have been changed; exact bytes may not.
    if original is not None:
        raise ValueError("the exact bytes don't fill their interval")
    return end, CHANGED
