"""Offsets of a streaming query: per segment the next batch, and the last header read (rule R5).

The header serves to recognize the segment: a restored store may have other bytes there. Spark
stores offsets as JSON and compares them as text, so a `Progress` has exactly one JSON form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_HEADER = -1
"""`Point.offset` before any header was read."""
NO_UNFINISHED = -1
"""`Point.since` if no event in pieces is unfinished."""


@dataclass(frozen=True, slots=True)
class Point:
    """A reader's place in one segment. All places are offsets in the segment."""

    next: int = 0
    """Where the next batch begins."""
    offset: int = NO_HEADER
    """Where the header of the last batch read is."""
    crc: int = 0
    """CRC-32 of that header's payload."""
    since: int = NO_UNFINISHED
    """Where the first event in pieces begins that is not whole at *next* (rule R6)."""

    def as_list(self) -> list[int]:
        """Return the point in its JSON form."""
        return [
            self.next,
            self.offset,
            self.crc,
            # left out if there is none: the JSON that versions without pieces wrote
            *([] if self.since == NO_UNFINISHED else [self.since]),
        ]


@dataclass(frozen=True, slots=True)
class Progress:
    """A reader's place in a stream: a point per segment number.

    *restarts* gives, for some segments, the offset from which to read instead of where the previous
    progress ended: the store was restored from a backup, or its first bytes were removed before
    they were read.
    """

    points: Mapping[int, Point]  # by segment number
    restarts: Mapping[int, int]  # segment number -> offset

    def point(self, number: int) -> Point:
        """Return the point in segment *number*; the segment's start if it was never read."""
        return self.points.get(number, Point())

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form that Spark stores: keys sorted, integers only."""
        points = {str(number): point.as_list() for number, point in sorted(self.points.items())}
        restarts = {str(number): offset for number, offset in sorted(self.restarts.items())}
        return {"segments": points} | ({"restarts": restarts} if restarts else {})


def parse_progress(value: Mapping[str, Any]) -> Progress:
    """Return the progress that `as_json` wrote. Raises ValueError for anything else."""
    try:
        points = {
            int(number): Point(*map(int, point)) for number, point in value["segments"].items()
        }
        restarts = {
            int(number): int(offset) for number, offset in value.get("restarts", {}).items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"not the offsets of a logdrive stream: {value!r}") from error
    return Progress(points, restarts)
