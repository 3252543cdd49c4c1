"""Changes the fields of events: `rename`, `drop` and `add`."""

from typing import Any

import orjson

from agent.events.event import Event
from agent.events.processors.counters import RuleCounter
from agent.events.processors.field_path import NO_FIELD, set_field, take_field


class FieldRenamer:
    """Gives fields new names."""

    def __init__(self, names: dict[str, str], counter: RuleCounter) -> None:
        """Give the fields, the keys of *names*, the names that are its values."""
        self._names = list(names.items())
        self._counter = counter

    def process_events(self, events: list[Event]) -> list[Event]:
        """Rename the fields of *events*; see `Processor`."""
        for event in events:
            fields = event.fields
            # all are taken before one is set, so that two can change places
            taken = [(new, take_field(fields, old)) for old, new in self._names] if fields else []
            found = [(new, value) for new, value in taken if value is not NO_FIELD]
            for new, value in found:
                set_field(fields, new, value)
            self._counter.events += bool(found)
        return events


class FieldDropper:
    """Leaves fields out."""

    def __init__(self, names: list[str], counter: RuleCounter) -> None:
        self._names = names
        self._counter = counter

    def process_events(self, events: list[Event]) -> list[Event]:
        """Remove fields of *events*; see `Processor`."""
        for event in events:
            fields = event.fields
            if fields:
                dropped = [take_field(fields, name) is not NO_FIELD for name in self._names]
                self._counter.events += any(dropped)
        return events


class FieldAdder:
    """Sets fields."""

    def __init__(self, fields: dict[str, Any], counter: RuleCounter) -> None:
        self._encoded = [(name, orjson.dumps(value)) for name, value in fields.items()]
        self._values = self._decoded()
        # no two events may share a table, which a later processor may change
        self._may_share = not any(isinstance(value, dict | list) for _, value in self._values)
        self._counter = counter

    def process_events(self, events: list[Event]) -> list[Event]:
        """Set fields of *events*; see `Processor`."""
        for event in events:
            for name, value in self._values if self._may_share else self._decoded():
                set_field(event.fields, name, value)
        self._counter.events += len(events)
        return events

    def _decoded(self) -> list[tuple[str, Any]]:
        return [(name, orjson.loads(value)) for name, value in self._encoded]
