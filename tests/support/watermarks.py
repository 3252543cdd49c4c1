"""Reads the watermarks in a stream's mark, as Java's readers do, by the tests' own code."""

import struct
from typing import NamedTuple

from logdrive.model.framing import EVENT_HEAD, event_length

_TIMES, _PART = struct.Struct(">8xqqB"), struct.Struct(">8xqddq")


class Part(NamedTuple):
    """A place in one segment, whose keys are those in (low, high]."""

    segment: int
    low: float
    high: float
    offset: int

    @property
    def epoch(self) -> int:
        """The epoch that made the segment."""
        return self.segment >> 32


class Watermark(NamedTuple):
    """The earliest and the latest time of the writers, and a place in the order of keys."""

    low: int
    high: int
    place: tuple[Part, ...]


def watermarks_in(data: bytes) -> list[Watermark]:
    """Return the watermarks that *data*, a mark's bytes, is made of.

    Raises ValueError, `struct.error` where it is something else.
    """
    marks = []
    while data:
        end = EVENT_HEAD + event_length(data[:EVENT_HEAD])
        if end > len(data):
            raise ValueError(f"an event of {end} bytes has only {len(data)}")
        marks.append(_watermark(data[EVENT_HEAD:end]))
        data = data[end:]
    return marks


def _watermark(event: bytes) -> Watermark:
    low, high, count = _TIMES.unpack_from(event)
    if count >= 1 << 7 or len(event) != _TIMES.size + count * _PART.size:
        raise ValueError(f"{len(event)} bytes are no watermark of {count} segments")
    parts = [Part(*_PART.unpack_from(event, _TIMES.size + n * _PART.size)) for n in range(count)]
    return Watermark(low, high, tuple(sorted(parts, key=lambda part: part.low)))
