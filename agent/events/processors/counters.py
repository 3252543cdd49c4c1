"""Counters of what processors did, a rule each, for the operator.

They count work: bytes that are read again, because a connection was lost, are counted again. What
is missing in the tables, to the byte, the audit says.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agent.config.events import EventsTable


@dataclass(slots=True)
class RuleCounter:
    """What one rule of one processor did since the start."""

    number: int
    """The index of its processor in the input."""

    action: str
    """What the processor does, as its table names it."""

    rule: str = ""
    """The name of the rule, where a processor has several."""

    events: int = 0
    """Events that it dropped or changed."""

    bytes: int = 0
    """Bytes of the file that these have; of redacted events 0."""

    matches: int = 0
    """Places in which it replaced something."""

    def count_dropped(self, events: int, size: int) -> None:
        """Count *events* of *size* bytes together."""
        self.events += events
        self.bytes += size

    def add(self, other: "RuleCounter") -> None:
        """Add what *other* counted."""
        self.events += other.events
        self.bytes += other.bytes
        self.matches += other.matches


class RuleCounters:
    """The counters of all inputs: those of one input are shared by its sources."""

    def __init__(self) -> None:
        self._of_tables: dict[int, tuple[EventsTable, dict[tuple[int, str], RuleCounter]]] = {}

    def counter(self, table: EventsTable, number: int, rule: str = "") -> RuleCounter:
        """Return the counter of a *rule* of the processor *number* of the input *table*."""
        _, counters = self._of_tables.setdefault(id(table), (table, {}))
        counter = counters.get((number, rule))
        if counter is None:
            action = table.processor[number].action
            counter = counters[number, rule] = RuleCounter(number, action, rule)
        return counter

    def of_table(self, table: EventsTable) -> list[RuleCounter]:
        """Return the counters of the input *table*, in the order of its processors."""
        _, counters = self._of_tables.get(id(table), (table, {}))
        return sorted(counters.values(), key=lambda counter: (counter.number, counter.rule))

    def __iter__(self) -> Iterator[tuple[EventsTable, RuleCounter]]:
        for table, _ in list(self._of_tables.values()):
            for counter in self.of_table(table):
                yield table, counter
