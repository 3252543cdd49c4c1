"""Makes the processors of a source, as its input's table says."""

from collections.abc import Callable, Sequence
from typing import Any

from agent.config.events import EventsTable
from agent.config.processors import ProcessorTable
from agent.events.event import Processor
from agent.events.processors.counters import RuleCounter, RuleCounters
from agent.events.processors.fields import FieldAdder, FieldDropper, FieldRenamer
from agent.events.processors.filters import PatternFilter
from agent.events.processors.metadata import MetadataAdder
from agent.events.processors.rate_limit import RateLimiter, ReadRate

SourceMetadata = Callable[[Sequence[str]], dict[str, Any]]
"""Returns what is known of one source, of these kinds (`MetadataKind`), as fields."""


def make_processors(
    table: EventsTable,
    counters: RuleCounters,
    monotonic: Callable[[], float],
    metadata: SourceMetadata = lambda kinds: {},
) -> list[Processor]:
    """Return the processors of one source, in their order.

    They count in *counters*; *monotonic* is the time in seconds, for rates. A rate that holds
    events back is none of them: see `make_read_rate`. *metadata* is that of the source.
    """
    made: list[Processor] = []
    for number, processor in enumerate(table.processor):
        if processor.metadata is not None:
            fields = metadata(processor.metadata)
            made.append(MetadataAdder(fields, counters.counter(table, number)))
        else:
            made.extend(_make(processor, table, number, counters, monotonic))
    return made


def make_read_rate(table: EventsTable, monotonic: Callable[[], float]) -> ReadRate | None:
    """Return the rate at which one source is read; None for any."""
    rate = table.processor[-1].rate_limit if table.processor else None
    return None if rate is None or rate.when_over == "drop" else ReadRate(rate, monotonic)


def _make(
    processor: ProcessorTable,
    table: EventsTable,
    number: int,
    counters: RuleCounters,
    monotonic: Callable[[], float],
) -> list[Processor]:
    def counter(rule: str = "") -> RuleCounter:
        return counters.counter(table, number, rule)

    if processor.include is not None:
        return [PatternFilter(processor.include, counter(), keep_matching=True)]
    if processor.exclude is not None:
        return [PatternFilter(processor.exclude, counter(), keep_matching=False)]
    if processor.redact is not None:
        # an agent that redacts nothing does not keep the rules in memory
        from agent.events.processors.redact import Redactor
        from agent.events.processors.redact_rules import make_rules

        return [Redactor(make_rules(processor.redact, counter))]
    if processor.rename is not None:
        return [FieldRenamer(processor.rename, counter())]
    if processor.drop is not None:
        return [FieldDropper(processor.drop, counter())]
    if processor.add is not None:
        return [FieldAdder(processor.add, counter())]
    rate = processor.rate_limit
    if rate is not None and rate.when_over == "drop":
        return [RateLimiter(rate, counter(), monotonic)]
    return []
