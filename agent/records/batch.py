"""Runs: what is sent, appended and acknowledged together of one source. Data, gaps and end records
(rules R1, P4, G3).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from agent.records.chunk import TextChunk
from logdrive.model import records as record
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import RUN_BYTES, RUN_RECORDS
from logdrive.model.numbers import CLOSED, number_of, position_of
from logdrive.model.records import DATA, END, GAP
from logdrive.wire.lumberjack.frames import json_frames

NOT_WANTED: Final = "not_wanted"
ELSEWHERE: Final = "elsewhere"
TRUNCATED: Final = "truncated"
REMOVED: Final = "removed"
OUT_OF_SIGHT: Final = "out_of_sight"
"""Removed, or moved to where nothing looks, while the agent was there and had no handle on it."""
FIRST_RUN: Final = "first_run"
"""The record that stands for the agent itself: it was here, and decided where files begin."""
UNSURE: Final = "unsure"
"""A life that may have been: what stands in its place began alike, and nobody was there to see."""
LET_GO: Final = "let_go"
"""Deleted, and let go before it came to rest: `keep_removed_days`, `keep_removed_bytes`."""
SHIPPED: Final = "shipped"


_ENOUGH_RUNS: Final = 64
"""About as many as a window takes of the smallest records. Only lines in records of their own make
so many runs.
"""


class FramedRecords(ABC):
    """Records that make their frames themselves: D frames, or J frames without a loop."""

    __slots__ = ()

    @abstractmethod
    def frames(self, first: int) -> bytes:
        """Return the frames, numbered from *first*."""


class Records(FramedRecords, Sequence[bytes]):
    """Records of one run that are written out only as the frames that are sent."""

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """What they weigh against `RUN_BYTES`: their bytes, and `EVENT_HEAD` for each."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a gap or an end says, so that it can be said anew from another previous number."""

    reason: str
    exact: bool = True
    store: UUID | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records that take a source from the number *previous* to *number*."""

    kind: int
    """`DATA`, `GAP` or `END`."""
    previous: int
    number: int
    records: Sequence[bytes]
    events: int
    size: int
    """What the records weigh against `RUN_BYTES`."""
    read_ms: int
    """When its last byte was read."""
    mark: Mark | None = None
    """What a gap or an end says; None for data."""

    @property
    def position(self) -> int:
        """The position after it."""
        return position_of(self.number)

    def frames(self, first: int) -> list[bytes]:
        """Return its records as frames numbered from *first*, in parts to join.

        D frames for pairs, else J frames.
        """
        records = self.records
        return (
            [records.frames(first)]
            if isinstance(records, FramedRecords)
            else json_frames(first, records)
        )


class RunBuilder:
    """Makes the data runs of one chunk: a record that does not fit the last run opens another.

    The first run goes on from the number *previous*. *new_list* makes the lists of records.
    """

    def __init__(
        self,
        chunk: TextChunk,
        previous: int,
        read_ms: int,
        *,
        most_records: int = RUN_RECORDS,
        new_list: Callable[[], list[bytes]] = list,
    ) -> None:
        self._chunk = chunk
        self._previous = previous
        self._read_ms = read_ms
        self._most_records = most_records
        self._new_list = new_list
        # Complete runs.
        self._runs: list[Run] = []
        # The last run while there is room for more: its records, the position after them, how many
        # events they have, and what they weigh.
        self._records = new_list()
        self._end = 0
        self._events = 0
        self._size = 0

    @property
    def enough(self) -> bool:
        """Whether the rest of the chunk is better read again later.

        More runs would hold up the event loop, and fill memory.
        """
        return len(self._runs) + bool(self._records) > _ENOUGH_RUNS

    def add(self, payload: bytes, end: int, events: int) -> None:
        """Append a record that ends at position *end*."""
        size = EVENT_HEAD + len(payload)
        if len(self._records) >= self._most_records or self._size + size > RUN_BYTES:
            self._close()
        self._records.append(payload)
        self._end = end
        self._events += events
        self._size += size

    def add_run(self, records: Records, end: int, events: int) -> None:
        """Append *records*, which end at position *end*, as a run of their own."""
        self._close()
        self._append(records, end, events, records.size)

    def finish(self) -> list[Run]:
        """Return all runs."""
        self._close()
        return self._runs

    def _close(self) -> None:
        if self._records:
            self._append(self._records, self._end, self._events, self._size)
            self._records = self._new_list()
            self._events = self._size = 0

    def _append(self, records: Sequence[bytes], end: int, events: int, size: int) -> None:
        number = self._chunk.number_at(end)
        self._runs.append(Run(DATA, self._previous, number, records, events, size, self._read_ms))
        self._previous = number


def gap_run(previous: int, number: int, mark: Mark, read_ms: int) -> Run:
    """Return a gap from one number to a greater one (rule P4)."""
    payload = record.gap_record(
        position_of(previous),
        position_of(number),
        mark.reason,
        end_exact=mark.exact,
        store=mark.store,
    )
    return Run(GAP, previous, number, [payload], 0, EVENT_HEAD + len(payload), read_ms, mark)


def end_run(previous: int, mark: Mark, read_ms: int) -> Run:
    """Return the last run of a generation, which closes its number (rules G3, P1)."""
    payload = record.end_record(position_of(previous), mark.reason, end_exact=mark.exact)
    return Run(
        END, previous, previous + CLOSED, [payload], 0, EVENT_HEAD + len(payload), read_ms, mark
    )


def gone(position: int) -> int:
    """Return the number of a position whose bytes are gone."""
    return number_of(position, None)
