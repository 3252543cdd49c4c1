"""Keeps or drops events by a pattern: `include` and `exclude`."""

from agent.config.processors import MESSAGE, MatchTable
from agent.events.event import Event
from agent.events.processors.counters import RuleCounter
from agent.events.processors.field_path import field_text
from agent.events.processors.text_search import TextSearch


class PatternFilter:
    """Drops events that match, or those that don't."""

    def __init__(self, table: MatchTable, counter: RuleCounter, *, keep_matching: bool) -> None:
        """Count in *counter* what is dropped: with *keep_matching* what does not match."""
        self._search = TextSearch(table.pattern)
        self._field = table.field
        self.counter = counter  # of what it drops
        self.keep_matching = keep_matching  # whether that is what does not match

    def process_events(self, events: list[Event]) -> list[Event]:
        """Return the events that are kept; see `Processor`."""
        if not events:
            return events
        matching = self._matching(events)
        if self.keep_matching:
            kept = [events[index] for index in matching]
        elif matching:
            without = set(matching)
            kept = [event for index, event in enumerate(events) if index not in without]
        else:
            kept = events
        if len(kept) < len(events):
            size = _size(events) - _size(kept)
            self.counter.count_dropped(len(events) - len(kept), size)
        return kept

    @property
    def searches_lines(self) -> bool:
        """Whether `matching_lines` says all that it does, for events that are single lines."""
        return self._field == MESSAGE and self._search.searches_lines

    def matching_lines(self, joined: bytes) -> list[int]:
        """Return the indices of the lines of *joined*, in UTF-8, that match."""
        return self._search.matching_lines(joined)

    def _matching(self, events: list[Event]) -> list[int]:
        if self._field == MESSAGE:
            return self._search.matching([event.message for event in events])
        texts = [(index, field_text(event, self._field)) for index, event in enumerate(events)]
        numbers = [index for index, text in texts if text is not None]
        matching = self._search.matching([text for _, text in texts if text is not None])
        return [numbers[index] for index in matching]


def _size(events: list[Event]) -> int:
    """Return the bytes of the file that *events* have."""
    return sum(event.end - event.start for event in events)
