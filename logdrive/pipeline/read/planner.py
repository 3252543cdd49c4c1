"""Plans how a reader goes on: how far, within a bound, and in which ranges for tasks.

What Spark's planner process does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from logdrive.errors import StorageError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.pieces import UnfinishedEvents, WholeEvent, piece_of
from logdrive.pipeline.decode.schema import FOREIGN
from logdrive.pipeline.read.offsets import NO_HEADER, NO_UNFINISHED, Point, Progress
from logdrive.pipeline.read.stream import StreamClient


@dataclass(frozen=True, slots=True)
class BatchRange:
    """Whole batches of one segment for one task, and the events in pieces that end in it (rule R6),
    in order.
    """

    segment: str
    start: int
    end: int
    events: tuple[WholeEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What was found between two points of one segment: where batches begin, the end, and the
    events that end there.
    """

    places: list[int]
    events: list[WholeEvent]


def find_whole_events(hops: Sequence[BatchRef], unfinished: UnfinishedEvents) -> list[WholeEvent]:
    """Return the events in pieces that end in *hops*; *unfinished*, which is as before them, goes
    on to what it is behind them.
    """
    found: list[WholeEvent] = []
    for hop in hops:
        piece = (
            piece_of(hop.header) if hop.header is not None and hop.header.kind == FOREIGN else None
        )
        if piece is not None:
            whole = unfinished.meet(
                hop.offset, hop.next, piece.event, piece.start, piece.end, last=piece.last
            )
            found += [whole] if whole is not None else []
    return found


@dataclass(slots=True)
class Planner:
    """Goes from header to header of every segment; keeps the last plan, to cut its ranges where
    batches begin.
    """

    stream: StreamClient
    range_bytes: int
    _checked: dict[int, Point] = field(default_factory=dict)
    _plans: dict[int, _Plan] = field(default_factory=dict)
    # by segment and place
    _unfinished: dict[tuple[int, int], UnfinishedEvents] = field(default_factory=dict)

    def segment_bounds(self) -> dict[int, tuple[int, int]]:
        """Return where each segment begins and ends now."""
        return {
            self.stream.segment_number(state.segment): (state.start, state.length)
            for state in self.stream.list_segments()
        }

    def plan_micro_batch(
        self, start: Progress, lengths: Mapping[int, tuple[int, int]], most: int | None
    ) -> Progress:
        """Return how far to read from *start*, over all segments at most *most* bytes but at least
        a batch of each that has one.

        A segment that no longer has the header which *start* ends with is read again from its
        beginning, and the result says so. Raises `StorageError` where bytes were removed before
        they were read.
        """
        points, restarts = dict(start.points), dict[int, int]()
        self._plans.clear()
        waiting = []
        for number, (first, length) in sorted(lengths.items()):
            at = self._resume_at(number, start.point(number), first, length)
            if at != start.point(number).next:
                restarts[number] = at
            points.setdefault(number, Point(first))
            waiting += [(length - at, number, at, length)] if at < length else []
        left = most
        for turn, (_, number, at, length) in enumerate(sorted(waiting)):
            share = None if left is None else left // (len(waiting) - turn)
            hops = self.stream.read_batch_refs(
                self.stream.name_of_segment(number), at, length, share
            )
            if hops:
                point = points[number] = self._checked[number] = self._keep_plan(
                    number, start.point(number), at, hops
                )
                left = None if left is None else max(0, left - (point.next - at))
        return Progress(
            points, {number: at for number, at in restarts.items() if number in self._plans}
        )

    def cut_ranges(self, start: Progress, end: Progress) -> list[BatchRange]:
        """Return the ranges from *start* to *end*, none much longer than `range_bytes`, all cut
        where batches begin.
        """
        found = []
        for number, point in sorted(end.points.items()):
            at = end.restarts.get(number, start.point(number).next)
            if at >= point.next:
                continue
            plan = self._plans.get(number)
            # another process planned this
            if plan is None or plan.places[0] > at or plan.places[-1] != point.next:
                self._keep_plan(
                    number,
                    start.point(number),
                    at,
                    self.stream.read_batch_refs(
                        self.stream.name_of_segment(number), at, point.next
                    ),
                )
                plan = self._plans[number]
            for place in plan.places:
                if place > at and (place - at >= self.range_bytes or place == point.next):
                    events = tuple(event for event in plan.events if at <= event.last < place)
                    found.append(BatchRange(self.stream.name_of_segment(number), at, place, events))
                    at = place
        return found

    def _keep_plan(self, number: int, start: Point, at: int, hops: Sequence[BatchRef]) -> Point:
        """Keep what *hops* say, which go on from *at*, and return the point behind them."""
        unfinished, end = self._unfinished_before(number, start, at), hops[-1].next
        events = find_whole_events(hops, unfinished)
        self._plans[number] = _Plan([*(hop.offset for hop in hops), end], events)
        kept = {
            place: one
            for place, one in self._unfinished.items()
            if place[0] != number or place[1] == at
        }
        self._unfinished = kept | {(number, end): unfinished}
        since = unfinished.since(end)
        return Point(end, hops[-1].offset, hops[-1].crc, NO_UNFINISHED if since == end else since)

    def _unfinished_before(self, number: int, point: Point, at: int) -> UnfinishedEvents:
        """Return the events that have begun before *at* and are not whole there; *point* is where
        the reader goes on.
        """
        if (known := self._unfinished.get((number, at))) is not None:
            return known.copy()
        unfinished = UnfinishedEvents()
        if point.next == at and point.since != NO_UNFINISHED:
            segment = self.stream.name_of_segment(number)
            first = next(
                (state.start for state in self.stream.list_segments() if state.segment == segment),
                0,
            )
            find_whole_events(
                self.stream.read_batch_refs(segment, max(point.since, first), at), unfinished
            )
        self._unfinished[number, at] = unfinished.copy()
        return unfinished

    def _resume_at(self, number: int, point: Point, first: int, length: int) -> int:
        """Return where to go on in a segment that now is [*first*, *length*): at *point*, if that
        is still its past (rule R5).
        """
        known = point.offset == NO_HEADER or self._checked.get(number) == point
        if point.next > length or not (
            known
            or point.offset < first
            or self.stream.count_known_headers(self.stream.name_of_segment(number), [point])
        ):
            return first
        if 0 < point.next < first:
            raise StorageError(
                f"{self.stream.name_of_segment(number)}: the bytes from {point.next} to {first} "
                "were removed before they were read: "
                "the next run goes on behind them; `readers` in the stream's "
                "[[retention]] makes retention wait"
            )
        self._checked[number] = point
        return max(point.next, first)
