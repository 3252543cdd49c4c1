"""Plans how a reader goes on: how far, within a bound, and in which ranges for tasks. What Spark's planner process does."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from logdrive.errors import StorageError
from logdrive.pipeline.face import Face
from logdrive.pipeline.offsets import NO_HEADER, Point, Progress


@dataclass(frozen=True, slots=True)
class Range:
    """Whole batches of one segment for one task."""

    segment: str
    start: int
    end: int


@dataclass(slots=True)
class Planner:
    """Goes from header to header of every segment; keeps the places of the last plan to cut its ranges at."""

    face: Face
    range_bytes: int
    _checked: dict[int, Point] = field(default_factory=dict)
    _places: dict[int, list[int]] = field(default_factory=dict)

    def lengths(self) -> dict[int, tuple[int, int]]:
        """Return where each segment begins and ends now."""
        return {self.face.number(state.segment): (state.start, state.length) for state in self.face.segments()}

    def advance(self, start: Progress, lengths: Mapping[int, tuple[int, int]], most: int | None) -> Progress:
        """Return how far to read from *start*, over all segments at most *most* bytes but at least a batch of each that has one.

        A segment that no longer has the header which *start* ends with is read again from its beginning, and the result says so.
        Raises `StorageError` where bytes were removed before they were read.
        """
        points, restarts = dict(start.points), dict[int, int]()
        self._places.clear()
        waiting = []
        for number, (first, length) in sorted(lengths.items()):
            at = self._begin(number, start.point(number), first, length)
            if at != start.point(number).next:
                restarts[number] = at
            points.setdefault(number, Point(first))
            waiting += [(length - at, number, at, length)] if at < length else []
        left = most
        for turn, (_, number, at, length) in enumerate(sorted(waiting)):
            share = None if left is None else left // (len(waiting) - turn)
            hops = self.face.hops(self.face.segment(number), at, length, share)
            if hops:
                self._places[number] = [hop.offset for hop in hops] + [hops[-1].next]
                points[number] = self._checked[number] = Point(hops[-1].next, hops[-1].offset, hops[-1].crc)
                left = None if left is None else max(0, left - (hops[-1].next - at))
        return Progress(points, {number: at for number, at in restarts.items() if number in self._places})

    def ranges(self, start: Progress, end: Progress) -> list[Range]:
        """Return the ranges from *start* to *end*, none much longer than `range_bytes`, all cut where batches begin."""
        found = []
        for number, point in sorted(end.points.items()):
            at = end.restarts.get(number, start.point(number).next)
            places = self._places.get(number, [])
            if not places or places[0] > at or places[-1] != point.next:  # another process planned this
                places = [hop.offset for hop in self.face.hops(self.face.segment(number), at, point.next)] if at < point.next else []
            for place in [*(place for place in places if at < place < point.next), point.next]:
                if place - at >= self.range_bytes or (place == point.next and at < place):
                    found.append(Range(self.face.segment(number), at, place))
                    at = place
        return found

    def _begin(self, number: int, point: Point, first: int, length: int) -> int:
        """Return where to go on in a segment that now is [*first*, *length*): at *point*, if that is still its past (rule R5)."""
        known = point.offset == NO_HEADER or self._checked.get(number) == point
        if point.next > length or not (known or point.offset < first or self.face.last_match(self.face.segment(number), [point])):
            return first
        if 0 < point.next < first:
            raise StorageError(f"{self.face.segment(number)}: the bytes from {point.next} to {first} were removed before they were read")
        self._checked[number] = point
        return max(point.next, first)
