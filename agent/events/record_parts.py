"""The parts of an event's record: what it says beside its message (rules R1, R2).

An event's fields stand at the top of its record. A key that records have themselves, such as
`message` or `host`, stands below `fields`; of `log` and `event`, where they are objects, each key
by itself. So no line can say anything about its own place or bytes.
"""

import base64
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import orjson

from agent.events.event import Event
from logdrive.model.records import REDACTED

TIMESTAMP: Final = "@timestamp"

OWN_KEYS: Final = frozenset(
    (
        "@metadata",
        TIMESTAMP,
        "agent",
        "event",
        "fields",
        "host",
        "log",
        "log.origin",
        "message",
        "tags",
    )
)
"""Keys at the top of a record that lines can't set."""
OWN_LOG_KEYS: Final = frozenset(
    (
        "encoding",
        "end",
        "ended",
        "eol",
        "file",
        "flags",
        "gap",
        "lines",
        "offset",
        "origin",
        "parts",
    )
)
"""Keys of `log` that lines can't set."""
OWN_EVENT_KEYS: Final = frozenset(("original", "original_base64"))
"""Keys of `event` that lines can't set."""

_NO_KEYS: Final[frozenset[str]] = frozenset()
_LATEST_MS: Final = 253_402_300_800_000
"""The end of the year 9999."""


def is_plain(event: Event) -> bool:
    """Return whether nothing of *event* needs a look but its place, message and fields."""
    return (
        event.eol == "\n"
        and event.original is None
        and not event.flags
        and not event.encoding
        and event.time_ms is None
        and not event.left_out
        and not event.parts
        and (not event.fields or OWN_KEYS.isdisjoint(event.fields))
    )


class RecordParts:
    """What an event that is not plain says, part by part."""

    def __init__(self, event: Event) -> None:
        self.log: dict[str, Any] = {"offset": event.start, "end": event.end - event.left_out}
        self.event: dict[str, Any] = {}
        self.below: dict[str, Any] = {}  # what stands below `fields`
        self.time = event_time(event)
        self.top: dict[str, Any] = {}
        self._take_fields(event.fields)

        if event.parts:
            self.log["parts"] = event.parts
        if event.eol != "\n":
            self.log["eol"] = event.eol
        if event.encoding:
            self.log["encoding"] = event.encoding
        if event.flags:
            self.log["flags"] = list(event.flags)
        if event.original is not None and REDACTED not in event.flags:
            self.event |= original_value(event.original)

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields, where they stand in a record: without what the record says itself."""
        log = {key: value for key, value in self.log.items() if key not in OWN_LOG_KEYS}
        event = {key: value for key, value in self.event.items() if key not in OWN_EVENT_KEYS}
        return self.top | {"log": log, "event": event, "fields": self.below}

    def _take_fields(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            if key not in OWN_KEYS:
                self.top[key] = value
            elif key == "log" and isinstance(value, dict):
                self._take_members(key, value, self.log, OWN_LOG_KEYS)
            elif key == "event" and isinstance(value, dict):
                self._take_members(key, value, self.event, OWN_EVENT_KEYS)
            elif key == "fields" and isinstance(value, dict):
                self._take_members(key, value, self.below, _NO_KEYS)
            elif key != TIMESTAMP or value != self.time:
                self.below[key] = value

    def _take_members(
        self, name: str, values: dict[str, Any], into: dict[str, Any], own: frozenset[str]
    ) -> None:
        taken = {key: value for key, value in values.items() if key not in own}
        into |= taken
        if len(taken) < len(values):
            self.below[name] = {key: value for key, value in values.items() if key in own}


def original_value(original: bytes) -> dict[str, Any]:
    """Return what `event` has of an event's exact bytes: as text where they are UTF-8."""
    try:
        return {"original": original.decode()}
    except UnicodeDecodeError:
        return {"original_base64": base64.b64encode(original).decode()}


def event_time(event: Event) -> str | None:
    """Return the time of *event* as text: its own, or what its line says by `@timestamp`."""
    time = event.fields.get(TIMESTAMP)
    if isinstance(time, str) and len(time) <= 64:
        return time
    return None if event.time_ms is None else time_text(event.time_ms)


def time_text(time_ms: int) -> str | None:
    """Return a time in milliseconds since 1970 as ISO 8601; None before that, and after 9999."""
    if not 0 <= time_ms < _LATEST_MS:
        return None
    return f"{_second_text(time_ms // 1000)}.{time_ms % 1000:03}Z"


@lru_cache(256)  # lines of one second stand together
def _second_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")


def members(value: dict[str, Any]) -> bytes:
    """Return *value* as members of a JSON object, a comma before each; none for an empty one."""
    return b"," + orjson.dumps(value)[1:-1] if value else b""
