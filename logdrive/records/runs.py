"""Runs as the agent keeps them until they are acknowledged: data, gaps, ends (rules R1, P4, G3).

A run is a sequence of records of one source, and becomes one batch. It moves the source's number
(position and check, rule P1) from `Run.previous` to `Run.number`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from logdrive.model import records as record
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import RUN_BYTES, RUN_RECORDS
from logdrive.model.numbers import CLOSED, number_of, position_of
from logdrive.model.records import DATA, END, GAP
from logdrive.records.chunk import TextChunk
from logdrive.records.run_pack import FramePart, PendingFrame, RunPack
from logdrive.wire.lumberjack.frames import json_frames

# Reasons of gap records: why these bytes are not in this stream.

NOT_WANTED: Final = "not_wanted"
"""The bytes lie before the position at which the input starts (rule P2)."""

ELSEWHERE: Final = "elsewhere"
"""Another store acknowledged the bytes; the record names it."""

SKIPPED: Final = "skipped"
"""An operator had the bytes left out: `agent source skip` (rule A4)."""

OVERFLOW: Final = "overflow"
"""Datagrams that came while the spool had no room for them."""

VACUUMED: Final = "vacuumed"
"""Entries of the journal that were removed before they were read."""

DAMAGED: Final = "damaged"
"""The disk does not return the bytes as they were written to the spool; or they are of a compressed
file that can't be unpacked, or was cut.
"""

# Reasons of end records: why a generation has no more bytes. A gap before the end record, of bytes
# that were seen and can't be read any more, has the same reason.

TRUNCATED: Final = "truncated"
"""The file was truncated, or its content replaced."""

REMOVED: Final = "removed"
"""The file was deleted."""

OUT_OF_SIGHT: Final = "out_of_sight"
"""Deleted, or moved to where no input looks, while the agent ran but had no handle on the file."""

FIRST_RUN: Final = "first_run"
"""End of the agent's own source, which records that it ran and chose where files start."""

UNSURE: Final = "unsure"
"""A generation that may have existed: the file changed while no agent ran, and the one found now
has the same first line.
"""

LET_GO: Final = "let_go"
"""Deleted, and closed before it was read: over `keep_removed_days` or `keep_removed_bytes`."""

SHIPPED: Final = "shipped"
"""All of it was sent, and nothing can follow: of a file by `agent ship`, of an input that has
ended, of a compressed file.
"""

RESENT: Final = "resent"
"""An operator has the file sent again from its beginning, under the next count: `agent source
resend` (rule A4).
"""

FORGOTTEN: Final = "forgotten"
"""An operator gave up a file that can't be looked for, or that no input names: `agent source
forget`.
"""


_ENOUGH_RUNS: Final = 64
"""Runs after which encoding stops for now: about a window of the smallest records.

Only lines in records of their own make so many.
"""


class FramedRecords(ABC):
    """Records that encode their frames themselves: D frames, or J frames without a loop."""

    __slots__ = ()

    @abstractmethod
    def encode_frames(self, first: int) -> bytes:
        """Return the records as frames numbered from *first*."""


class Records(FramedRecords, Sequence[bytes]):
    """Records of one run, kept in a compact form and encoded only when they are sent."""

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that they take in a batch, `EVENT_HEAD` for each included; see `RUN_BYTES`."""


class PendingRecords(NamedTuple):
    """The frames of records in a compact form, which are encoded when their window is packed."""

    first: int
    """The number of the first frame."""

    records: Records
    """The records."""

    def encode(self) -> tuple[bytes]:
        """Return the frames."""
        return (self.records.encode_frames(self.first),)


@dataclass(frozen=True, slots=True)
class GapOrEndMark:
    """What a gap or an end record says, as the mark in its batch's header repeats it (rule R4).

    It is enough to make the record again from another number.
    """

    reason: str
    """One of the reasons above."""

    exact: bool = True
    """Whether the position at which it ends is known exactly."""

    store: UUID | None = None
    """The store that has the bytes of a gap, where another one has them."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one source, sent and acknowledged together."""

    kind: int
    """`DATA`, `GAP` or `END`."""

    previous: int
    """The source's number before this run."""

    number: int
    """The source's number after this run."""

    records: Sequence[bytes]
    """Encoded records, or an object that encodes them when they are sent."""

    events: int
    """Events in the records; 0 for a gap or an end."""

    size: int
    """Bytes that the records take in a batch, compared with `RUN_BYTES`; of a pack that is not
    compressed yet the most that it can take.
    """

    read_ms: int
    """When the last byte was read, in milliseconds since the epoch."""

    mark: GapOrEndMark | None = None
    """What its record says, if it is a gap or an end; None for data."""

    skipped: int = 0
    """Bytes of the file between its numbers that were left out by a rule."""

    of_events: bool = False
    """Whether its records say more, or less, than the bytes of the file: they can't be made of
    these again.
    """

    @property
    def position(self) -> int:
        """The position after this run, in bytes."""
        return position_of(self.number)

    def encode_frames(self, first: int) -> Sequence[FramePart]:
        """Return the records as frames numbered from *first*, in parts for the caller to join.

        Pairs become D frames, a pack a Z frame, all other records J frames. What was not encoded
        yet is encoded when the window is packed.
        """
        records = self.records
        if isinstance(records, RunPack):
            return [PendingFrame(first, records)]
        if isinstance(records, Records):
            return [PendingRecords(first, records)]
        return (
            [records.encode_frames(first)]
            if isinstance(records, FramedRecords)
            else json_frames(first, records)
        )


class RunBuilder:
    """Makes the data runs of one chunk: a record that does not fit the last run starts another."""

    def __init__(
        self,
        chunk: TextChunk,
        previous: int,
        read_ms: int,
        *,
        most_records: int = RUN_RECORDS,
        new_list: Callable[[], list[bytes]] = list,
    ) -> None:
        """Make runs of at most *most_records* records; *new_list* makes the list of each.

        The first run follows the number *previous*. *read_ms* is when the chunk was read, in
        milliseconds since the epoch.
        """
        self._chunk = chunk  # makes the number of a position
        self._previous = previous  # the number before the next run
        self._read_ms = read_ms  # when the chunk was read (ms since the epoch)
        self._most_records = most_records
        self._new_list = new_list
        self._runs: list[Run] = []  # complete runs

        # the last run, while it has room
        self._records = new_list()
        self._end = 0  # the position after its records
        self._events = 0  # events in its records
        self._size = 0  # bytes in a batch

    @property
    def has_enough(self) -> bool:
        """True if the caller should leave the rest of its chunk for later.

        More runs would block the event loop for long and fill memory.
        """
        return len(self._runs) + bool(self._records) > _ENOUGH_RUNS

    def add_record(self, payload: bytes, end: int, events: int) -> None:
        """Append a record of *events* events that ends at position *end*."""
        size = EVENT_HEAD + len(payload)
        if len(self._records) >= self._most_records or self._size + size > RUN_BYTES:
            self._close_run()

        self._records.append(payload)
        self._end = end
        self._events += events
        self._size += size

    def add_run(self, records: Records, end: int, events: int) -> None:
        """Append *records*, which end at position *end*, as a run of their own."""
        self._close_run()
        self._append_run(records, end, events, records.size)

    def finish_runs(self) -> list[Run]:
        """Return all runs, in the order of the file. The builder is of no use afterwards."""
        self._close_run()
        return self._runs

    def _close_run(self) -> None:
        if self._records:
            self._append_run(self._records, self._end, self._events, self._size)
            self._records = self._new_list()
            self._events = self._size = 0

    def _append_run(self, records: Sequence[bytes], end: int, events: int, size: int) -> None:
        number = self._chunk.number_at(end)
        self._runs.append(Run(DATA, self._previous, number, records, events, size, self._read_ms))
        self._previous = number


def make_gap_run(previous: int, number: int, mark: GapOrEndMark, read_ms: int) -> Run:
    """Return a gap from one number to a greater one (rule P4)."""
    payload = record.gap_record(
        position_of(previous),
        position_of(number),
        mark.reason,
        end_exact=mark.exact,
        store=mark.store,
    )
    return Run(GAP, previous, number, [payload], 0, EVENT_HEAD + len(payload), read_ms, mark)


def make_end_run(previous: int, mark: GapOrEndMark, read_ms: int) -> Run:
    """Return the last run of a generation, which closes its number (rules G3, P1)."""
    payload = record.end_record(position_of(previous), mark.reason, end_exact=mark.exact)
    return Run(
        END, previous, previous + CLOSED, [payload], 0, EVENT_HEAD + len(payload), read_ms, mark
    )


def number_without_check(position: int) -> int:
    """Return the number of a position whose bytes can't be read any more: its check is 0."""
    return number_of(position, None)
