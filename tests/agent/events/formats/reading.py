"""Reads lines with a format, for tests."""

from typing import Any

from agent.config.formats import FormatTable
from agent.events.cutter import LINES
from agent.events.event import Event
from agent.events.formats.make import make_format
from logdrive.records.chunk import TextChunk


def events_of(data: bytes) -> list[Event]:
    """Return the lines of *data* as events."""
    return LINES.cut_events(TextChunk.from_whole_file(data), len(data) + 1)


def read(form: str, data: bytes | str, **options: Any) -> list[Event]:
    """Return the lines of *data*, a whole file, as the format *form* reads them."""
    encoded = data.encode() if isinstance(data, str) else data
    events = events_of(encoded)
    table = FormatTable(type=form, **options)  # type: ignore[arg-type]
    make_format(table, lambda: events_of(encoded), lambda _: None).parse_events(events)
    return events


def fields_of(form: str, line: str, **options: Any) -> dict[str, Any]:
    """Return the fields of one *line*."""
    (event,) = read(form, line, **options)
    return event.fields
