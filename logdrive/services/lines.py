"""Lines of a stream as a person reads them, and what a segment of it holds."""

from base64 import b64decode
from dataclasses import dataclass
from typing import Any

import orjson

from logdrive.model.records import file_bytes
from logdrive.services.reader import SegmentState


@dataclass(frozen=True, slots=True)
class SegmentContents:
    """A segment's state and the sums over its batches: batches, events, distinct sources."""

    state: SegmentState
    batches: int
    events: int
    sources: int


def foreign_line(record: bytes) -> tuple[str, bytes]:
    """Return the file that the record of a foreign peer names, and its line.

    The file is its path and origin, "" if it names none: one peer may send several. The line is
    `message`, or `line` in Lumberjack v1; a record without either is returned as it is.
    """
    try:
        value = orjson.loads(record)
        if type(value) is dict and "message" not in value and type(value.get("line")) is str:
            return _file_name(value.get("log.origin"), value.get("file")), _v1_text(value)
        text = file_bytes(value)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        return "", record + b"\n"
    log = _object(value.get("log"))
    return _file_name(log.get("origin"), _object(log.get("file")).get("path")), text


def _object(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def _file_name(origin: object, path: object) -> str:
    return " ".join(part for part in (origin, path) if type(part) is str)


def _v1_text(pairs: dict[str, Any]) -> bytes:
    """Return the bytes of a v1 line, with its line end.

    An agent sends a line end other than LF in `log.eol`, and bytes that are not UTF-8 as base64.
    """
    exact, eol = pairs.get("event.original_base64"), pairs.get("log.eol", "\n")
    text: bytes = pairs["line"].encode() if exact is None else b64decode(exact, validate=True)
    return text + str(eol).encode()


def record_text(record: bytes) -> bytes:
    """Return the bytes of the file that *record* holds; a record without a message as it is."""
    try:
        return file_bytes(orjson.loads(record))
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        return record + b"\n"
