"""Plans micro-batches: how far each one reads, and in which ranges its tasks read.

The planner goes from header to header and leaves the records where they are. It runs in the
pipeline's process, and for a query of the data source `logdrive` in one that Spark starts.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from logdrive.errors import StorageError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.pieces import UnfinishedEvents, WholeEvent, piece_in_header, pieces_within
from logdrive.pipeline.decode.schema import FOREIGN
from logdrive.pipeline.read.offsets import NO_HEADER, NO_UNFINISHED, Point, Progress
from logdrive.services.reader import ServiceReader


@dataclass(frozen=True, slots=True)
class BatchRange:
    """Whole batches of one segment, read by one task."""

    segment: str
    start: int
    end: int
    events: tuple[WholeEvent, ...] = ()
    """Events in pieces whose last piece is in the range, in order (rule R6)."""
    raw_bytes: int = field(default=0, compare=False)
    """Bytes that its batches are about to become once their packs are opened, for planning."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What was found between two points of one segment."""

    places: list[int]  # where batches begin, and the end of the last one
    sizes: list[int]  # stored bytes of the batches before each place
    raw_sizes: list[int]  # their raw bytes (`BatchRef.raw_size`)
    events: list[WholeEvent]  # events in pieces that end there


def find_whole_events(
    batches: Sequence[BatchRef], unfinished: UnfinishedEvents
) -> list[WholeEvent]:
    """Return the events in pieces whose last piece is in *batches*.

    *unfinished* holds the events that have begun before *batches*, and is updated to those that
    have begun before their end.
    """
    events: list[WholeEvent] = []
    for batch in batches:
        if batch.header is None or batch.header.kind != FOREIGN:
            continue
        if (piece := piece_in_header(batch.header)) is None:  # an event in one record
            continue
        whole = unfinished.add_piece(
            batch.offset, batch.next, piece.event, piece.start, piece.end, last=piece.last
        )
        if whole is not None:
            events.append(whole)
    return events


@dataclass(slots=True)
class Planner:
    """Plans the micro-batches of one stream.

    It keeps the last plan, so that `cut_ranges` after `plan_micro_batch` reads nothing again.
    """

    stream: ServiceReader
    range_bytes: int
    """Stored bytes of a range above which the next batch begins another range."""
    range_raw_bytes: int | None = None
    """The same in raw bytes; a range ends with what comes first."""

    # last header of each segment that was found to be still in the segment
    _checked: dict[int, Point] = field(default_factory=dict)
    # by segment number
    _plans: dict[int, _Plan] = field(default_factory=dict)
    # by segment number and offset: the events that have begun before the offset
    _unfinished: dict[tuple[int, int], UnfinishedEvents] = field(default_factory=dict)

    def segment_bounds(self) -> dict[int, tuple[int, int]]:
        """Return the start and the length of each segment, by number."""
        return {
            self.stream.segment_number(state.segment): (state.start, state.length)
            for state in self.stream.list_segments()
        }

    def plan_micro_batch(
        self,
        start: Progress,
        bounds: Mapping[int, tuple[int, int]],
        most: int | None,
        most_raw: int | None = None,
    ) -> Progress:
        """Return how far to read from *start*, within *bounds* (`segment_bounds`).

        Reads at most *most* stored bytes and *most_raw* raw ones of all segments together, but at
        least one batch of each segment that has one. A segment that no longer has the last header
        of *start* is read again from its beginning, and becomes one of the `restarts`. Raises
        `StorageError` if bytes were removed before they were read.
        """
        points, restarts = dict(start.points), dict[int, int]()
        self._plans.clear()

        waiting = []
        for number, (first, length) in sorted(bounds.items()):
            at = self._resume_at(number, start.point(number), first, length)
            if at != start.point(number).next:  # its ranges don't begin where the last ones ended
                restarts[number] = at
            points.setdefault(number, Point(first))
            if at < length:
                waiting.append((length - at, number, at, length))

        # Segments with few bytes first: what they leave of their share goes to the others.
        left, left_raw = most, most_raw
        for turn, (_, number, at, length) in enumerate(sorted(waiting)):
            among = len(waiting) - turn
            segment = self.stream.name_of_segment(number)
            batches = self.stream.read_batch_refs(
                segment, at, length, _share(left, among), _share(left_raw, among)
            )
            if not batches:  # only a part of a batch is there yet
                continue

            point = self._keep_plan(number, start.point(number), at, batches)
            points[number] = self._checked[number] = point
            plan = self._plans[number]
            left = None if left is None else max(0, left - plan.sizes[-1])
            left_raw = None if left_raw is None else max(0, left_raw - plan.raw_sizes[-1])

        # a segment of which nothing is read keeps its point: the next plan finds its restart again
        return Progress(
            points, {number: at for number, at in restarts.items() if number in self._plans}
        )

    def cut_ranges(self, start: Progress, end: Progress) -> list[BatchRange]:
        """Return the ranges from *start* to *end*, which begin and end where batches do.

        A range ends with the batch that brings it to `range_bytes`, or to `range_raw_bytes`.
        """
        ranges: list[BatchRange] = []
        for number, point in sorted(end.points.items()):
            at = end.restarts.get(number, start.point(number).next)
            if at >= point.next:  # nothing of this segment is in the micro-batch
                continue

            segment = self.stream.name_of_segment(number)
            plan = self._plans.get(number)
            if plan is None or plan.places[0] > at or plan.places[-1] != point.next:
                # another process made this plan, as before a restart: read the headers again
                batches = self.stream.read_batch_refs(segment, at, point.next)
                self._keep_plan(number, start.point(number), at, batches)
                plan = self._plans[number]

            ranges += self._cut_plan(segment, plan, at, point.next)
        return ranges

    def _cut_plan(self, segment: str, plan: _Plan, at: int, end: int) -> Iterator[BatchRange]:
        """Yield the ranges of *segment* from *at* to *end*, which are places of *plan*."""
        before, before_raw = 0, 0  # bytes of the plan before the range
        for place, size, raw_size in zip(plan.places, plan.sizes, plan.raw_sizes, strict=True):
            if place <= at:
                before, before_raw = size, raw_size
                continue
            raw = raw_size - before_raw
            long_enough = size - before >= self.range_bytes or (
                self.range_raw_bytes is not None and raw >= self.range_raw_bytes
            )
            # cut where the range is long enough, and at the end of the micro-batch
            if long_enough or place == end:
                events = tuple(event for event in plan.events if at <= event.last < place)
                yield BatchRange(segment, at, place, events, raw)
                at, before, before_raw = place, size, raw_size

    def _keep_plan(self, number: int, start: Point, at: int, batches: Sequence[BatchRef]) -> Point:
        """Keep *batches*, which begin at *at*, as the plan; return the point behind them."""
        unfinished, end = self._unfinished_before(number, start, at), batches[-1].next
        events = find_whole_events(batches, unfinished)
        self._plans[number] = _Plan(
            [*(batch.offset for batch in batches), end],
            [0, *itertools.accumulate(batch.size for batch in batches)],
            [0, *itertools.accumulate(batch.raw_size for batch in batches)],
            events,
        )

        # of this segment keep only what begins here: older places are not asked for again
        kept = {
            place: events_there
            for place, events_there in self._unfinished.items()
            if place[0] != number or place[1] == at
        }
        self._unfinished = kept | {(number, end): unfinished}
        since = unfinished.oldest_begin(end)
        return Point(
            end, batches[-1].offset, batches[-1].crc, NO_UNFINISHED if since == end else since
        )

    def _unfinished_before(self, number: int, point: Point, at: int) -> UnfinishedEvents:
        """Return a copy of the events that have begun before *at* and are not whole there.

        *point* is where the query goes on in segment *number*.
        """
        if (known := self._unfinished.get((number, at))) is not None:
            return known.copy()
        unfinished = UnfinishedEvents(pieces_within(self.stream.offset_unit))
        if point.next == at and point.since != NO_UNFINISHED:
            # the first plan of this process: read the headers since the first unfinished event
            segment = self.stream.name_of_segment(number)
            first = next(
                (state.start for state in self.stream.list_segments() if state.segment == segment),
                0,
            )
            batches = self.stream.read_batch_refs(segment, max(point.since, first), at)
            find_whole_events(batches, unfinished)
        self._unfinished[number, at] = unfinished.copy()
        return unfinished

    def _resume_at(self, number: int, point: Point, first: int, length: int) -> int:
        """Return where to go on in a segment that now is [*first*, *length*).

        That is at *point*, unless the segment no longer has its header (rule R5).
        """
        # a header that this process has read, or asked for before, is not asked for again
        known = point.offset == NO_HEADER or self._checked.get(number) == point
        if point.next > length or not (
            known
            or point.offset < first  # cut off since: it can't be asked for
            or self.stream.count_known_headers(self.stream.name_of_segment(number), [point])
        ):
            return first

        if 0 < point.next < first:
            unit = self.stream.offset_unit
            # services whose offsets count records know no readers' positions
            remedy = (
                "name the reader in `readers` of the stream's [[retention]]"
                if unit == "bytes"
                else "keep what is stored longer there"
            )
            raise StorageError(
                f"{self.stream.name_of_segment(number)}: the {unit} from {point.next} to {first} "
                "were removed before they were read: the next run goes on behind them; to prevent "
                f"this, {remedy}"
            )
        self._checked[number] = point
        return max(point.next, first)


def _share(left: int | None, among: int) -> int | None:
    """Return the share of *left* bytes of one of *among* segments; None if there is no limit."""
    return None if left is None else left // among
