"""Processors of a table, as tests use them."""

import tomllib
from typing import Any

import msgspec

from agent.config.events import EventsTable
from agent.events.cutter import LINES
from agent.events.event import Event
from agent.events.processors.counters import RuleCounters
from agent.events.processors.make import make_processors
from agent.events.source_events import SourceEvents
from logdrive.records.chunk import TextChunk


class Steps:
    """The processors of one source, made of TOML."""

    def __init__(self, toml: str) -> None:
        self.now = 0.0
        self.table = msgspec.convert(tomllib.loads(toml), EventsTable)
        self.counters = RuleCounters()
        self.processors = make_processors(self.table, self.counters, lambda: self.now)
        self.source_events = SourceEvents(self.table, None, self.processors)

    def of_events(self, *events: Event) -> list[Event]:
        """Return what is left of *events*."""
        kept = list(events)
        for processor in self.processors:
            kept = processor.process_events(kept)
        return kept

    def of_lines(self, data: bytes) -> list[Event]:
        """Return what is left of the lines of *data*."""
        events, reached = self.source_events.read_events(
            LINES, TextChunk(0, data, 0, len(data)), 1 << 20
        )
        assert reached == len(data)
        return events

    def messages(self, *lines: str) -> list[str]:
        """Return the messages that are left of *lines*."""
        return [event.message for event in self.of_lines("".join(f"{x}\n" for x in lines).encode())]

    def counts(self) -> list[tuple[str, str, int, int]]:
        """Return action, rule, events and bytes of each counter."""
        return [
            (counter.action, counter.rule, counter.events, counter.bytes)
            for counter in self.counters.of_table(self.table)
        ]


def with_fields(message: str, fields: dict[str, Any], original: bytes | None = None) -> Event:
    """Return an event with *fields*."""
    size = len(message.encode()) + 1
    return Event(0, size, message, original=original, fields=fields)
