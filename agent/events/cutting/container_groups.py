"""Groups lines of a container runtime's file into events, whose lines may take turns (rule R2).

Lines of stdout and of stderr stand in one file as they came. The parts of one line, and the lines
of one event, are those of their stream; lines of the other one may stand between them.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from agent.events.cutting.container_lines import ContainerLine, seconds_between
from agent.events.cutting.text_cutter import NEW, EventLimits, LineRules
from logdrive.model.units import KIB

EXTENT_BYTES: Final = 384 * KIB
"""Limit on the bytes from the beginning of an event to its end, with those of others between."""

TANGLED_BYTES: Final = 56 * KIB
"""Limit on events whose lines stand between each other's, all together.

Their records must be in one run, though JSON may make a byte of them twelve: six in the message and
six in the original.
"""

_TANGLED_GROUPS: Final = 400
"""Limit on their number: a run has up to 999 records where receivers take no packs."""

LineSpan = tuple[int, int]
"""Where a line begins and ends."""


class LineGroup:
    """Lines that are one event, or a part of one."""

    __slots__ = ("closed", "is_part", "lines", "spans", "text")

    def __init__(self) -> None:
        self.spans: list[LineSpan] = []
        self.lines = 0  # of the container
        self.text = b""  # of a line that has not ended
        self.closed = False  # nothing will be added
        self.is_part = False  # its line has not ended

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.spans[-1][1]

    def split_at(self, position: int) -> "LineGroup":
        """Take out what is behind *position*, and return it as a group of its own."""
        rest = LineGroup()
        rest.spans = [span for span in self.spans if span[0] >= position]
        self.spans = [span for span in self.spans if span[0] < position]
        rest.lines, rest.closed, rest.is_part = self.lines, self.closed, self.is_part
        self.closed = self.is_part = True
        return rest

    @property
    def size(self) -> int:
        """Bytes of its own lines."""
        return sum(end - start for start, end in self.spans)


def tangled_groups(groups: Sequence[LineGroup]) -> Iterator[list[LineGroup]]:
    """Yield those of *groups*, by their beginnings, whose lines stand between each other's.

    They must travel together, so groups of more than `TANGLED_BYTES` are parted, in place.
    """
    waiting = deque(groups)
    while waiting:
        group = waiting.popleft()
        # most: no other stands within it
        if not waiting or waiting[0].spans[0][0] >= group.spans[-1][1]:
            yield [group]
            continue
        cluster, end = [group], group.end
        while waiting and waiting[0].start < end and len(cluster) < _TANGLED_GROUPS:
            cluster.append(waiting.popleft())
            end = max(end, cluster[-1].end)

        # many groups: the next one begins within
        bound = waiting[0].start if waiting and waiting[0].start < end else end
        if len(cluster) > 1:
            bound = min(bound, _bound_of(cluster))
        later = [group.split_at(bound) for group in cluster if group.start < bound < group.end]
        later += [group for group in cluster if group.start >= bound]
        waiting = deque(sorted([*later, *waiting], key=_start_of) if later else waiting)
        yield [group for group in cluster if group.start < bound]


def lines_of(groups: Sequence[LineGroup]) -> list[LineGroup]:
    """Return the lines of *groups*, in their order, each as a group."""
    lines = list[LineGroup]()
    for group in groups:
        for number, span in enumerate(group.spans, 1):
            line = LineGroup()
            line.spans.append(span)
            line.closed, line.is_part = True, group.is_part or number < len(group.spans)
            lines.append(line)
    return sorted(lines, key=_start_of)


def _bound_of(cluster: Sequence[LineGroup]) -> int:
    """Return the end of the last line of *cluster* up to which it is not too large."""
    first = cluster[0].start
    ends = [end for group in cluster for _, end in group.spans]
    return max((end for end in ends if end - first <= TANGLED_BYTES), default=min(ends))


def _start_of(group: LineGroup) -> int:
    return group.start


class _ContainerStream:
    """What is known of one stream of the container."""

    __slots__ = ("event", "part", "state", "time")

    def __init__(self) -> None:
        self.event: LineGroup | None = None  # the event that may go on
        self.part: LineGroup | None = None  # the line that has not ended
        self.state = NEW  # of the rules
        self.time = b""  # of its last line

    def groups(self) -> list[LineGroup]:
        return [group for group in (self.event, self.part) if group is not None]


class ContainerGrouping:
    """Groups the lines of one chunk; add them in their order."""

    def __init__(
        self, begin: int, rules: LineRules | None, limits: EventLimits, max_seconds: float
    ) -> None:
        """The first line begins at *begin*.

        An event of one stream ends where a line of the other is later by more than *max_seconds*.
        """
        self._rules = rules
        self._limits = limits
        self._max_seconds = max_seconds
        self._streams: dict[bytes, _ContainerStream] = {}
        # before this, no group is too long
        self._look_at = begin + EXTENT_BYTES
        self.groups: list[LineGroup] = []
        """All groups; whose lines are complete are closed."""

    def add_line(self, span: LineSpan, line: ContainerLine | None) -> None:
        """Add the line at *span*; None for one that no runtime wrote, which is an event."""
        if span[1] > self._look_at or len(self._streams) > 1:
            self._close_others(span, line)
        if line is None:
            group = LineGroup()
            group.spans.append(span)
            group.closed = True
            self.groups.append(group)
            return

        stream = self._streams.setdefault(line.stream, _ContainerStream())
        stream.time = line.time
        part = stream.part or LineGroup()
        part.spans.append(span)
        part.text += line.text
        stream.part = part
        if not line.partial:
            self._end_line(stream, part)

    def finish(self) -> list[LineGroup]:
        """Return all groups in the order in which they begin; parts of lines are groups, too."""
        for stream in self._streams.values():
            self._keep_part(stream)
        self.groups.sort(key=lambda group: group.start)
        return self.groups

    def _end_line(self, stream: _ContainerStream, part: LineGroup) -> None:
        """Let *part*, a whole line of the container, go on with the event or begin one."""
        stream.part = None
        begins, after = True, NEW
        if self._rules is not None:
            begins, after = self._rules.take_line(stream.state, part.text)
            if not begins and self._is_full(stream.event, part):
                begins, after = True, self._rules.take_line(NEW, part.text)[1]
        part.text = b""
        event = stream.event
        if event is None or begins:
            if event is not None:
                event.closed = True
            stream.event = event = part
            self.groups.append(event)
        else:
            event.spans += part.spans
        event.lines += 1
        stream.state = after
        if after == NEW or event.lines == self._limits.lines:
            self._close_event(stream)

    def _is_full(self, event: LineGroup | None, part: LineGroup) -> bool:
        return event is None or event.size + part.size > self._limits.size

    def _close_event(self, stream: _ContainerStream) -> None:
        if stream.event is not None:
            stream.event.closed = True
        stream.event, stream.state = None, NEW

    def _close_others(self, span: LineSpan, line: ContainerLine | None) -> None:
        """Close what is too far from the line at *span*, in bytes or in time."""
        for name, stream in self._streams.items():
            groups = stream.groups()
            if not groups:
                continue
            far = span[1] - min(group.start for group in groups) > EXTENT_BYTES
            late = (
                line is not None
                and line.stream != name
                and seconds_between(stream.time, line.time) > self._max_seconds
            )
            if far or late:
                self._close_event(stream)
                self._keep_part(stream, closed=True)

    def _keep_part(self, stream: _ContainerStream, *, closed: bool = False) -> None:
        """Let a line that has not ended be a group; *closed*: what follows is another."""
        if stream.part is not None:
            stream.part.is_part, stream.part.closed = True, closed
            self.groups.append(stream.part)
            stream.part = None
