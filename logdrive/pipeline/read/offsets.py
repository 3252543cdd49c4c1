"""Where a reader of a stream is: per segment the next batch, and the last header read to know the
segment again by (rule R5).

Spark keeps offsets as JSON and compares them as text, so a `Progress` has one way to be written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_HEADER = -1
NO_UNFINISHED = -1


@dataclass(frozen=True, slots=True)
class Point:
    """The *next* batch of one segment; *offset* and *crc* are of the header before it, `NO_HEADER`
    where none was read.

    *since* is where the first event in pieces begins that is not whole at *next* (rule R6),
    `NO_UNFINISHED` where there is none.
    """

    next: int = 0
    offset: int = NO_HEADER
    crc: int = 0
    since: int = NO_UNFINISHED

    def as_list(self) -> list[int]:
        """Return what Spark keeps."""
        return [
            self.next,
            self.offset,
            self.crc,
            *([] if self.since == NO_UNFINISHED else [self.since]),
        ]


@dataclass(frozen=True, slots=True)
class Progress:
    """A point per segment number.

    *restarts* are segments that are read from there and not from where the last progress ended: the
    store went back, or had removed its first bytes before anyone read them.
    """

    points: Mapping[int, Point]
    restarts: Mapping[int, int]

    def point(self, number: int) -> Point:
        """Return the point in segment *number*; its start for one that was never read."""
        return self.points.get(number, Point())

    def as_json(self) -> dict[str, Any]:
        """Return what Spark keeps: keys in one order, integers only."""
        points = {str(number): point.as_list() for number, point in sorted(self.points.items())}
        restarts = {str(number): offset for number, offset in sorted(self.restarts.items())}
        return {"segments": points} | ({"restarts": restarts} if restarts else {})


def parse_progress(value: Mapping[str, Any]) -> Progress:
    """Read what `as_json` wrote. Raises ValueError where it is something else."""
    try:
        points = {
            int(number): Point(*map(int, point)) for number, point in value["segments"].items()
        }
        restarts = {
            int(number): int(offset) for number, offset in value.get("restarts", {}).items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"no offsets of a logdrive stream: {value!r}") from error
    return Progress(points, restarts)
