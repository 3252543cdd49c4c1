"""What is done with the bytes of one source, for inputs that do more than ship lines as they are.

One object a source, kept while the source is: a format and processors may have a state, such as
counters or a rate. It is made anew where the input's configuration changes.
"""

from collections.abc import Sequence

from agent.config.events import EventsTable
from agent.events.cutter import EventCutter
from agent.events.event import Event, EventFormat, Processor
from agent.events.processors.filters import PatternFilter
from agent.events.processors.rate_limit import ReadRate
from logdrive.records.chunk import TextChunk


class SourceEvents:
    """Gives the events of one source fields, changes or drops some."""

    __slots__ = ("format", "processors", "rate", "settings", "truncated")

    def __init__(
        self,
        settings: EventsTable,
        event_format: EventFormat | None = None,
        processors: Sequence[Processor] = (),
        rate: ReadRate | None = None,
    ) -> None:
        self.settings = settings  # the input's table that all of it was made of
        self.format = event_format
        self.processors = tuple(processors)  # in the order of the configuration
        # events that were cut at the limit on their bytes; again where they are read again
        self.truncated = 0
        self.rate = rate  # at which it is read; None: as fast as can be

    @property
    def line_filters(self) -> list[PatternFilter] | None:
        """What is done with its lines, if all of it is to drop some by patterns; else None."""
        if self.format is not None or self.rate is not None or not self.settings.has_plain_lines:
            return None
        filters = [one for one in self.processors if isinstance(one, PatternFilter)]
        searching = [one for one in filters if one.searches_lines]
        return searching if len(searching) == len(self.processors) else None

    def read_events(
        self, cutter: EventCutter, chunk: TextChunk, most: int
    ) -> tuple[list[Event], int]:
        """Return what is left of the first events of *chunk*, about *most*, and where they end.

        *cutter* is that of the source's bytes. What lies between the events that are returned, up
        to that position, was dropped.
        """
        events = cutter.cut_events(chunk, most)
        if self.rate is not None:
            events = self.rate.first_allowed(events)
        reached = events[-1].end
        # the middle of a long line that is cut off: no event
        if any(event.left_out for event in events):
            events = [event for event in events if event.left_out < event.end - event.start]
            self.truncated += sum(event.left_out > 0 for event in events)
        if self.format is not None:
            self.format.parse_events(events)
        for processor in self.processors:
            events = processor.process_events(events)
        if self.rate is not None:
            self.rate.take(events)
        return events, reached
