"""A format of lines: reads fields from each, and keeps what it can't read as it is.

A reader gets one event and returns its fields, or None for a line of another form. It may give the
event another message, and then sets its `original`. Readers never raise for what a line says, and
take time in proportion to its length.
"""

from collections.abc import Callable
from typing import Any

from agent.config.formats import FormatTable
from agent.events.event import Event, FormatCounts
from logdrive.model.records import PARTIAL

LineReader = Callable[[Event], dict[str, Any] | None]
"""Reads the fields of an event; None: it has another form."""


class LineFormat:
    """Lines of one form."""

    def __init__(self, table: FormatTable, read: LineReader, name: str | None = None) -> None:
        self.name: str = name or table.type  # of the form
        self.counts = FormatCounts()
        self._read = read
        self._place = table.fields
        self._key = table.key or self.name
        self._marks = table.bad_lines == "mark"

    def parse_events(self, events: list[Event]) -> None:
        """Set the fields of *events*. Empty lines and parts of long ones stay as they are.

        What a container wrote in parts, of which some are missing, has whole lines all the same.
        """
        read, failed, skipped = self._read, 0, 0
        top, under = self._place == "top", self._place == "under"
        for event in events:
            if not event.message or (PARTIAL in event.flags and not event.eol):
                skipped += 1
                continue
            fields = read(event)
            if fields is None:
                failed += 1
                if self._marks:
                    event.fields["error"] = {"message": f"not {self.name}", "type": self.name}
            elif top:
                event.fields = _joined(event.fields, fields) if event.fields else fields
            elif under:
                event.fields[self._key] = fields
        self.counts.failed += failed
        self.counts.parsed += len(events) - failed - skipped


def _joined(known: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Return what the input knows of an event, such as its sender, and what its line says."""
    both = known | fields
    for key in known.keys() & fields.keys():
        if isinstance(known[key], dict) and isinstance(fields[key], dict):
            both[key] = known[key] | fields[key]
    return both
