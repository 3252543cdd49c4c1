"""What is done with the events of a source, made of its input's table."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from agent.config.events import EventsTable
from agent.config.formats import format_table
from agent.delivery.machine import machine_fields
from agent.events.event import Event, EventFormat, SourceAbout
from agent.events.processors.counters import RuleCounters
from agent.events.processors.make import make_processors, make_read_rate
from agent.events.processors.metadata import container_fields, kubernetes_fields
from agent.events.source_events import SourceEvents
from agent.sources.readable import Readable, SourceTruncatedError
from logdrive.model.units import KIB
from logdrive.records.chunk import TextChunk

_READ_BYTES: Final = 64 * KIB
"""Bytes that are read at the beginning of a source, so that its first events are whole."""


def make_source_events(
    readable: Readable,
    about: SourceAbout,
    on_recognized: Callable[[str], None],
    counters: RuleCounters,
    monotonic: Callable[[], float],
) -> SourceEvents:
    """Return what the table of its input says is done with the events of the source *about*.

    *on_recognized* is called with the name of a format that `auto` has found. Processors count in
    *counters*, and take the time, in seconds, from *monotonic*.
    """

    def first_events(size: int) -> Sequence[Event] | None:
        return read_first_events(readable, size)

    return make_steps(readable.settings, about, first_events, on_recognized, counters, monotonic)


def make_steps(
    settings: EventsTable,
    about: SourceAbout,
    first_events: Callable[[int], Sequence[Event] | None],
    on_recognized: Callable[[str], None],
    counters: RuleCounters,
    monotonic: Callable[[], float],
) -> SourceEvents:
    """Return the same for a source whose events in its first bytes *first_events* returns.

    It is called with how many bytes these are.
    """
    event_format = _make_format(settings, first_events, on_recognized)
    processors = make_processors(
        settings, counters, monotonic, lambda kinds: source_metadata(kinds, about)
    )
    return SourceEvents(settings, event_format, processors, make_read_rate(settings, monotonic))


def _make_format(
    settings: EventsTable,
    first_events: Callable[[int], Sequence[Event] | None],
    on_recognized: Callable[[str], None],
) -> EventFormat | None:
    table = format_table(settings.format)
    if table is None:
        return None
    # not sooner: inputs without a format do without these and their memory
    from agent.events.formats.auto import FIRST_BYTES
    from agent.events.formats.make import make_format

    return make_format(table, lambda: first_events(FIRST_BYTES), on_recognized)


def read_first_events(readable: Readable, size: int) -> Sequence[Event] | None:
    """Return the events that begin in the first *size* bytes of a source, without fields.

    One whose end is not within `_READ_BYTES` is left out. Returns None if these can't be read.
    """
    try:
        head = readable.read_head(_READ_BYTES)
    except (OSError, SourceTruncatedError):
        return None
    if not head:
        return None
    whole = len(head) == _READ_BYTES
    end, open_end = readable.cutter.end_of_events(head, 0, whole=whole, final=False)
    if not end:
        return []
    events = readable.cutter.cut_events(TextChunk(0, head, 0, end, open_end), size)
    return [event for event in events if event.start < size]


def source_metadata(kinds: Sequence[str], about: SourceAbout) -> dict[str, Any]:
    """Return what is known of the source *about*, of these *kinds*, as fields."""
    fields: dict[str, Any] = {}
    if "host" in kinds:
        fields |= machine_fields(about.host)
    if "container" in kinds:
        fields |= container_fields(about.path)
    if "kubernetes" in kinds:
        fields |= kubernetes_fields(about.path)
    return fields
