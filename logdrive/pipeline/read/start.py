"""The time at which tables begin, as an operator writes it, and the place where that is.

An age counts back from the moment at which the tables are begun, which is once: later runs go on
where the tables end, whatever time it is by then.
"""

import re
from dataclasses import dataclass
from typing import Final

from logdrive.model.pieces import UnfinishedEvents, pieces_within
from logdrive.pipeline.read.planner import find_whole_events
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.read.times import WALKED_BYTES, find_time, parse_time_ms
from logdrive.services.reader import SegmentState, ServiceReader

_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGE: Final = re.compile(r"([0-9]{1,9})([smhdw])")


@dataclass(frozen=True, slots=True)
class Start:
    """When tables begin: at a time, or so long before they are begun."""

    text: str
    """As the operator wrote it."""
    time_ms: int | None
    """The time, in ms since 1970; None: an age."""
    age_ms: int = 0

    def resolve(self, now_ms: int) -> int:
        """Return the time, in ms since 1970, for tables that are begun at *now_ms*."""
        return max(0, now_ms - self.age_ms) if self.time_ms is None else self.time_ms


def parse_start(text: str) -> Start:
    """Return the start *text*: a time as `parse_time_ms` takes it, or an age such as 24h.

    Raises ValueError with what may be written.
    """
    if (age := _AGE.fullmatch(text)) is not None:
        return Start(text, None, int(age[1]) * _UNIT_MS[age[2]])
    try:
        return Start(text, parse_time_ms(text))
    except ValueError as error:
        raise ValueError(
            "write a time such as 2026-11-20T00:00Z, or an age such as 24h or 7d"
        ) from error


def find_beginning(stream: ServiceReader, state: SegmentState, time_ms: int) -> int:
    """Return where tables begin in a segment that are to have what was received at *time_ms* or
    later.

    That is where the first such batch begins, unless an event in pieces has begun before it and is
    not whole there (rule R6): then the tables begin with that event's first piece. Raises
    `TransientError`, `StorageError`.
    """
    at = find_time(stream, state.segment, state.start, state.length, time_ms)
    # events that are unfinished where this one begins may have begun before it
    while (before := _oldest_unfinished(stream, state, at)) < at:
        at = before
    return at


def _oldest_unfinished(stream: ServiceReader, state: SegmentState, at: int) -> int:
    """Return where the oldest event in pieces begins that is not whole at *at*; else *at*.

    Walks the headers of as much of the segment as pieces may be apart.
    """
    within = pieces_within(stream.offset_unit)
    unfinished = UnfinishedEvents(within)
    place = max(state.start, at - within)
    if place > state.start:
        near = (
            stream.find_batch(state.segment, place, at)
            if isinstance(stream, StreamClient)
            else None
        )
        place = state.start if near is None else near.offset
    while place < at:
        batches = stream.read_batch_refs(state.segment, place, at, WALKED_BYTES)
        if not batches:
            break
        find_whole_events(batches, unfinished)
        place = batches[-1].next
    return unfinished.oldest_begin(at)
