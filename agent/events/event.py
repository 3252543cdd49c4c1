"""One event on its way from the bytes of a source to a record, for inputs that do more than ship
lines as they are.

Theory of operation. A chunk of a source is cut into events (`EventCutter`), their bytes become text
(the encoding), the format reads fields from the text, and processors change or drop events, in the
order of the configuration. What is left is encoded as one record an event. Inputs without any of it
never make events: their bytes travel as packs.
"""

from typing import Any, Protocol

import msgspec


class Event(msgspec.Struct, gc=False):
    """One event. Formats and processors change it in place."""

    start: int
    """The position of its first byte."""

    end: int
    """The position after its last byte, its line end included."""

    message: str
    """Its text without the line end. Bytes that its encoding does not have are replaced."""

    eol: str = "\n"
    """Its line end as text; "" for a part of a line and for a last line without one."""

    original: bytes | None = None
    """Its bytes without the line end, where *message* does not give them back exactly."""

    flags: tuple[str, ...] = ()
    """What happened to it, such as `PARTIAL` (`logdrive.model.records`)."""

    fields: dict[str, Any] = {}  # msgspec copies it
    """What the format and processors know of it, by key: values that JSON has."""

    time_ms: int | None = None
    """When it happened, in milliseconds since the epoch, where a format reads that."""


class Format(Protocol):
    """A form of lines, such as JSON or syslog."""

    def parse_events(self, events: list[Event]) -> None:
        """Set the fields of *events*, consecutive ones of one source, in place.

        Never raises for what a line says: a line of another form keeps its text, and the format
        counts it.
        """
        ...


class Processor(Protocol):
    """One step of an input's processing."""

    def process_events(self, events: list[Event]) -> list[Event]:
        """Change *events*, consecutive ones of one source, in place; return those that are kept.

        The order stays. What is dropped is counted by the caller, by positions.
        """
        ...
