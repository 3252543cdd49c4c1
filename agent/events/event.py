"""One event on its way from the bytes of a source to a record, for inputs that do more than ship
lines as they are.

Theory of operation. A chunk of a source is cut into events (`EventCutter`), their bytes become text
(the encoding), the format reads fields from the text, and processors change or drop events, in the
order of the configuration. What is left is encoded as one record an event. Inputs without any of it
never make events: their bytes travel as packs.
"""

from dataclasses import dataclass
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
    """The bytes of its line end as ASCII text, such as "\\n\\0" in UTF-16; "" for a part of a line,
    and for a last line without one.
    """

    original: bytes | None = None
    """Its bytes without the line end, where *message* does not give them back exactly."""

    encoding: str = ""
    """The codec by which *message* gives its bytes back; "" for UTF-8."""

    left_out: int = 0
    """Bytes just before its end that are not shipped, such as what is over a limit."""

    tied: bool = False
    """Whether the next event must be in the same run: their bytes lie between each other."""

    parts: tuple[tuple[int, int], ...] = ()
    """Where its bytes are, each start and end; empty where that is from *start* to *end*.

    Lines of a container's stdout and stderr may take turns. *start* and *end* are then as if they
    did not, so that events never overlap.
    """

    flags: tuple[str, ...] = ()
    """What happened to it: such as `PARTIAL` and `REDACTED` (`logdrive.model.records`)."""

    fields: dict[str, Any] = {}  # msgspec copies it
    """What the format and processors know of it, by key: values that JSON has.

    `orjson.Fragment` is a number that only its own text gives exactly.
    """

    time_ms: int | None = None
    """When it happened, in milliseconds since the epoch, where a format reads that."""


class SourceAbout(msgspec.Struct, frozen=True):
    """What is known of a source before its first byte is read."""

    path: str
    """The path that its lines are known by."""

    host: str
    """The host's name."""

    agent: str
    """The agent's id."""


@dataclass(slots=True)
class FormatCounts:
    """Lines of one source, as far as this process has read them."""

    parsed: int = 0
    """Lines that have the form."""

    failed: int = 0
    """Lines that do not, empty ones aside."""


class EventFormat(Protocol):
    """A form of lines, such as JSON or syslog."""

    name: str
    """Its name; of `auto` that of the form that it found."""

    @property
    def counts(self) -> FormatCounts:
        """How many lines had it."""
        ...

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
