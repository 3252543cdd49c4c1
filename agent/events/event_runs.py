"""Puts records of events into runs that fit a batch, and counts what was left out (rules R1, R3).

A run reaches from the end of the one before to the end of its last event; bytes that no event of it
has were dropped. The last run of a chunk reaches to the chunk's end.
"""

from collections.abc import Callable, Sequence
from typing import Final

from agent.events.event import Event
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import PACK_ITEMS, RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.model.numbers import position_of
from logdrive.model.records import DATA
from logdrive.packs.pack import PACK_HEAD
from logdrive.records.dropped import DroppedForm, make_dropped_run
from logdrive.records.full_packs import pack_records
from logdrive.records.run_pack import Packing
from logdrive.records.runs import Run

_PACKED_BYTES: Final = RECORD_BYTES - PACK_HEAD
"""Records of no more than this fit a pack even where they can't be compressed."""


class EventRuns:
    """Makes the runs of one chunk."""

    def __init__(
        self,
        previous: int,
        number_at: Callable[[int], int],
        read_ms: int,
        *,
        packing: Packing | None,
        dropped: DroppedForm,
        new_list: Callable[[], list[bytes]] = list,
    ) -> None:
        """Go on from the number *previous*; with *packing* each run becomes a pack.

        *dropped* is what a run without events becomes. *number_at* returns the number of a
        position, *new_list* the list of a run's records. *read_ms* is when the chunk was read, in
        milliseconds since the epoch.
        """
        self._previous = previous
        self._number_at = number_at
        self._read_ms = read_ms
        self._packing = packing
        self._dropped: DroppedForm = dropped
        self._new_list = new_list
        self._most_records = RUN_RECORDS if packing is None else PACK_ITEMS
        self._most_bytes = RUN_BYTES if packing is None else _PACKED_BYTES
        self._runs: list[Run] = []  # complete runs
        # events that must be in one run: record, end, bytes of the file that it has
        self._group: list[tuple[bytes, int, int]] = []

        # the last run, while it has room
        self._records = new_list()
        self._end = position_of(previous)  # the position after its last event
        self._kept = 0  # bytes of the file that its events have
        self._size = 0  # bytes in a batch

    def add_event(self, record: bytes, event: Event) -> None:
        """Append the *record* of *event*; about 0.2 µs."""
        kept = event.end - event.left_out - event.start
        if event.tied or self._group:
            self._group.append((record, event.end, kept))
            if not event.tied:
                self._add_group()
        else:
            self._add(record, event.end, kept)

    def fit_in_one(self, records: Sequence[bytes | None]) -> bool:
        """Return whether all *records* are there, and one run has room for them."""
        whole = [record for record in records if record is not None]
        size = sum(EVENT_HEAD + len(record) for record in whole)
        if len(whole) < len(records) or len(whole) > self._most_records:
            return False
        return size <= self._most_bytes

    def _add_group(self) -> None:
        """Append events that belong together; only too many of them are parted."""
        size = sum(EVENT_HEAD + len(record) for record, _, _ in self._group)
        if not self._has_room(len(self._group), size):
            self._close_run(self._end)
        for record, end, kept in self._group:
            self._add(record, end, kept)
        self._group.clear()

    def _add(self, record: bytes, end: int, kept: int) -> None:
        size = EVENT_HEAD + len(record)
        if len(self._records) >= self._most_records or self._size + size > self._most_bytes:
            self._close_run(self._end)
        self._records.append(record)
        self._end = end
        self._kept += kept
        self._size += size

    def _has_room(self, records: int, size: int) -> bool:
        return (
            len(self._records) + records <= self._most_records
            and self._size + size <= self._most_bytes
        )

    def finish_runs(self, reached: int) -> list[Run]:
        """Return all runs; the last one ends at the position *reached*, with what was dropped."""
        self._add_group()
        if self._records:
            self._close_run(reached)
        elif reached > self._end:
            number = self._number_at(reached)
            run = make_dropped_run(self._previous, number, self._read_ms, self._dropped)
            self._runs.append(run)
        return self._runs

    def _close_run(self, end: int) -> None:
        if not self._records:
            return
        number = self._number_at(end)
        skipped = end - position_of(self._previous) - self._kept
        run = Run(
            DATA,
            self._previous,
            number,
            self._records,
            len(self._records),
            self._size,
            self._read_ms,
            skipped=skipped,
            of_events=True,
        )
        self._runs.append(run if self._packing is None else pack_records(run, self._packing))
        self._previous, self._records, self._kept, self._size = number, self._new_list(), 0, 0
