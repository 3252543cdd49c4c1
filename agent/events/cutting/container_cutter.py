"""Cuts the files of container runtimes into events: parts of lines are joined, and lines of several
lines, where stdout and stderr take turns, too.
"""

from collections.abc import Sequence
from typing import Final

from agent.events.cutting.container_groups import (
    ContainerGrouping,
    LineGroup,
    LineSpan,
    lines_of,
    tangled_groups,
)
from agent.events.cutting.container_lines import READERS, ContainerFormat, may_have_parts
from agent.events.cutting.text_cutter import (
    EventLimits,
    LineRules,
    TextCutter,
    left_out_event,
)
from agent.events.cutting.text_form import TextForm
from agent.events.event import Event
from logdrive.model.records import PARTIAL
from logdrive.records.chunk import TextChunk

_NEVER: Final = float("inf")


class ContainerCutter:
    """Cuts lines of *container*. The message of an event are its lines as in the file."""

    def __init__(
        self,
        form: TextForm,
        container: ContainerFormat,
        rules: LineRules | None,
        limits: EventLimits,
        max_seconds: float = _NEVER,
    ) -> None:
        self._form = form
        self._container: ContainerFormat = container
        self._read_line = READERS[container]
        # cuts where each line is an event
        self._lines = TextCutter(form, None, limits)
        self._rules = rules
        self._limits = limits
        self._max_seconds = max_seconds
        # The groups in what was looked at last: bytes, and where they begin. As in `TextCutter`.
        self._found: tuple[bytes, int, list[LineGroup]] = b"", 0, []

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
        ends = self._form.line_ends(data, begin, len(data), position)
        if ends and self._has_whole_lines(data, begin, ends):
            return (len(data) if final and not whole else ends[-1]), False
        if final and not whole and (ends[-1] if ends else begin) < len(data):
            ends.append(len(data))
        if not ends:
            return (self._form.cut_at(data, begin, len(data)), True) if whole else (begin, False)

        groups = self._group(data, begin, ends, in_line=in_line)
        self._found = data, begin, groups
        if (final or settled) and not whole:
            return ends[-1], False
        end = _untangled_end(groups, ends[-1])
        # events that go on and on, one within the other: all of them end here
        return (ends[-1] if whole and end == begin else end), False

    def has_line_end(self, data: bytes, position: int) -> bool:
        """Return whether a line ends in *data*, which is at *position* in the source."""
        return self._form.last_end(data, 0, position) > 0

    def cut_events(self, chunk: TextChunk, most: int) -> list[Event]:
        """Return the first events, about *most*, about 2 µs a line; see `EventCutter`."""
        zero, text = chunk.start - chunk.begin, chunk.data[chunk.begin : chunk.end]
        if chunk.open_end:
            return [self._cut_long_line(text, chunk.start, in_line=chunk.in_line)]
        if self._has_whole_lines(text, 0, self._form.line_ends(text, 0, len(text), chunk.start)):
            return self._lines.cut_events(chunk, most)
        events = list[Event]()
        for cluster in tangled_groups(self._groups(chunk)):
            if len(events) >= most:
                break
            tied = len(cluster) > 1
            if tied and self._is_over_limit(cluster):
                # what is left out of an event has a place in the file: each line keeps its own
                cluster, tied = lines_of(cluster), False
            at = zero + cluster[0].start
            for group in cluster:
                if at == chunk.start and chunk.in_line and self._limits.longest is not None:
                    event = left_out_event(at, zero + group.end)
                else:
                    event = self._make_event(chunk.data, group, at, zero)
                event.tied = tied and group is not cluster[-1]
                events.append(event)
                at = event.end
        return events

    def _has_whole_lines(self, data: bytes, begin: int, ends: Sequence[int]) -> bool:
        """Return whether each line in *data* from *begin* on, with *ends*, is surely an event."""
        return self._rules is None and not may_have_parts(data, begin, ends, self._container)

    def _is_over_limit(self, cluster: Sequence[LineGroup]) -> bool:
        longest = self._limits.longest
        return longest is not None and any(group.size > longest for group in cluster)

    def _cut_long_line(self, data: bytes, start: int, *, in_line: bool) -> Event:
        """Return a part of a line that is longer than what is read at once."""
        longest = self._limits.longest
        if in_line and longest is not None:
            return left_out_event(start, start + len(data))
        return self._form.make_event(data, start, longest=longest, open_end=True)

    def _make_event(self, data: bytes, group: LineGroup, at: int, zero: int) -> Event:
        """Return the event of *group*, which begins *at*, whatever stands between its lines."""
        lines = b"".join(data[start:end] for start, end in group.spans)
        event = self._form.make_event(lines, at, longest=self._limits.longest)
        if group.is_part and not event.flags:
            event.flags = (PARTIAL,)
        parts = _parts(group.spans, zero)
        if parts != ((at, event.end),):
            event.parts = parts
        return event

    def _groups(self, chunk: TextChunk) -> list[LineGroup]:
        """Return the groups in *chunk*."""
        looked_at, looked_from, found = self._found
        # asked for once: some may be parted from now on
        self._found = b"", 0, []
        if looked_at is chunk.data and looked_from == chunk.begin:
            return [group for group in found if group.start < chunk.end]
        ends = self._form.line_ends(chunk.data, chunk.begin, chunk.end, chunk.start)
        if not ends or ends[-1] < chunk.end:
            ends.append(chunk.end)
        return self._group(chunk.data, chunk.begin, ends, in_line=chunk.in_line)

    def _group(self, data: bytes, begin: int, ends: list[int], *, in_line: bool) -> list[LineGroup]:
        """Return the groups of the lines with these *ends*, in the order of their beginnings."""
        grouping = ContainerGrouping(begin, self._rules, self._limits, self._max_seconds)
        line_text, read_line, at = self._form.line_text, self._read_line, begin
        for end in ends:
            # the rest of a long line is no line
            line = None if in_line and at == begin else read_line(line_text(data[at:end]))
            grouping.add_line((at, end), line)
            at = end
        return grouping.finish()


def _untangled_end(groups: list[LineGroup], end: int) -> int:
    """Return the last place up to *end* at which all events before it are complete, and none that
    begins before it ends behind it.
    """
    for group in reversed(groups):
        if not group.closed or group.start < end < group.end:
            end = min(end, group.start)
    return end


def _parts(spans: Sequence[LineSpan], zero: int) -> tuple[LineSpan, ...]:
    """Return where lines at *spans* are in their file; neighbours together."""
    parts = list[LineSpan]()
    for start, end in spans:
        if parts and parts[-1][1] == zero + start:
            parts[-1] = parts[-1][0], zero + end
        else:
            parts.append((zero + start, zero + end))
    return tuple(parts)
