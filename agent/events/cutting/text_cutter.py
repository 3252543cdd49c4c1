"""Cuts text of any encoding and line end into events: lines, or several lines each."""

from typing import Final, NamedTuple, Protocol

from agent.events.cutting.text_form import TextForm
from agent.events.event import Event
from logdrive.model.records import TRUNCATED
from logdrive.records.chunk import TextChunk

NEW: Final = 0
"""The state in which the next line begins an event, whatever it is."""


class LineRules(Protocol):
    """Rules that say which lines are one event.

    They see one line at a time, and know of those before it what one number says, the state. At the
    beginning of an event the state is `NEW`, so that it does not matter where one begins to read.
    """

    def take_line(self, state: int, line: bytes) -> tuple[bool, int]:
        """Return whether *line*, in UTF-8 and without line end, begins an event, and the state
        after it: `NEW` if the event ends with it.
        """
        ...


class EventLimits(NamedTuple):
    """Limits of events."""

    longest: int | None = None
    """Bytes of an event that are kept, without its line end; None for all."""

    lines: int = 1
    """Lines of an event; those that follow are another."""

    size: int = 0
    """Bytes of an event of several lines; a line that would exceed them begins another."""


class TextCutter:
    """Cuts lines, or what *rules* make of them, in one encoding."""

    def __init__(self, form: TextForm, rules: LineRules | None, limits: EventLimits) -> None:
        self._form = form
        self._rules = rules
        self._limits = limits
        # The ends of the events in what was looked at last: bytes, and where they begin. They are
        # asked for once to find the last one, and once more to make the events.
        self._found: tuple[bytes, int, list[int]] = b"", 0, []

    def end_of_events(
        self,
        data: bytes,
        begin: int,
        *,
        whole: bool,
        final: bool,
        settled: bool = False,
        position: int = 0,
        in_line: bool = False,
    ) -> tuple[int, bool]:
        """Return the end of the last event; see `EventCutter`."""
        if self._rules is None:
            if final and not whole:
                return len(data), False
            end = self._form.last_end(data, begin, position)
            complete = bool(end)
        else:
            end, complete = self._last_group(
                data, begin, position, whole=whole, final=final, settled=settled, in_line=in_line
            )
        if complete or not whole:
            return (end if complete else begin), False

        # a line longer than the read: cut it between two characters
        return self._form.cut_at(data, begin, len(data)), True

    def _last_group(
        self,
        data: bytes,
        begin: int,
        position: int,
        *,
        whole: bool,
        final: bool,
        settled: bool,
        in_line: bool,
    ) -> tuple[int, bool]:
        """Return the end of the last complete event of several lines, and whether there is one."""
        ends = self._form.line_ends(data, begin, len(data), position)
        if final and not whole and (ends[-1] if ends else begin) < len(data):
            ends.append(len(data))
        if not ends:
            return begin, False

        groups, closed = self._group(data, begin, ends, in_line)
        self._found = data, begin, groups
        if closed or ((final or settled) and not whole):
            return groups[-1], True
        if len(groups) > 1:
            return groups[-2], True
        # With the line that is not whole it is longer than what is read at once, and so than the
        # limit on its size: that line is another event.
        return groups[-1], whole

    def _group(
        self, data: bytes, begin: int, ends: list[int], in_line: bool
    ) -> tuple[list[int], bool]:
        """Return the ends of the events that lines with *ends* are, and whether the last of these
        is complete. With *in_line* the first line is the rest of one, and an event of its own.
        """
        assert self._rules is not None
        take_line = self._rules.take_line
        most_lines, most_bytes = self._limits.lines, self._limits.size
        groups, at, event_at, lines, state = list[int](), begin, begin, 0, NEW
        texts = self._form.line_texts(data, begin, ends)
        for end, text in zip(ends, texts, strict=True):
            begins, after = take_line(state, text)
            if not begins and (lines == most_lines or end - event_at > most_bytes):
                begins, after = take_line(NEW, text)
                begins = True
            if begins and lines:
                groups.append(at)
                event_at, lines = at, 0
            state = NEW if in_line and at == begin else after
            lines += 1
            at = end
        groups.append(at)
        return groups, state == NEW or lines == most_lines

    def has_line_end(self, data: bytes, position: int) -> bool:
        """Return whether a line ends in *data*, which is at *position* in the source."""
        return self._form.last_end(data, 0, position) > 0

    def cut_events(self, chunk: TextChunk, most: int) -> list[Event]:
        """Return the first *most* events, about 1 µs each; see `EventCutter`."""
        events, make, longest = list[Event](), self._form.make_event, self._limits.longest
        data, at, zero = chunk.data, chunk.begin, chunk.start - chunk.begin
        ends = self._ends(chunk)[:most]
        if ends and self._is_over(chunk):
            events.append(left_out_event(zero + at, zero + ends[0]))
            at = ends.pop(0)
        open_end = chunk.open_end
        for end in ends:
            events.append(make(data[at:end], zero + at, longest=longest, open_end=open_end))
            at = end
        return events

    def _is_over(self, chunk: TextChunk) -> bool:
        """Return whether *chunk* begins with the rest of a line whose beginning was kept."""
        return chunk.in_line and self._limits.longest is not None

    def _ends(self, chunk: TextChunk) -> list[int]:
        """Return the ends of the events in *chunk*."""
        data, begin, end = chunk.data, chunk.begin, chunk.end
        if chunk.open_end:
            return [end]
        looked_at, looked_from, found = self._found
        # asked for once: else each input would keep what it read last
        self._found = b"", 0, []
        if looked_at is data and looked_from == begin and end in found:
            return found[: found.index(end) + 1]

        ends = self._form.line_ends(data, begin, end, chunk.start)
        if not ends or ends[-1] < end:
            ends.append(end)
        return ends if self._rules is None else self._group(data, begin, ends, chunk.in_line)[0]


def left_out_event(start: int, end: int) -> Event:
    """Return what stands for the rest of an event that is over the limit: no byte of it is sent."""
    return Event(start, end, "", "", flags=(TRUNCATED,), left_out=end - start)
