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


def foreign_text(record: bytes) -> bytes:
    """Return the line in the record of a foreign peer: its `message`, or `line` in Lumberjack v1.

    A record without either is returned as it is.
    """
    try:
        value = orjson.loads(record)
        if type(value) is dict and "message" not in value and type(value.get("line")) is str:
            return _v1_text(value)
        return file_bytes(value)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        return record + b"\n"


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
