"""Runs of records that take the place of one packed run (rules P1, R3, D3)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import RUN_BYTES, RUN_RECORDS, TAIL_BYTES
from logdrive.model.numbers import number_of, position_of
from logdrive.records.full_records import records_as_events
from logdrive.wire.lumberjack.run_reader import RunReceived

T = TypeVar("T")


class RunCutter:
    """Makes the runs that take the place of *packed*: each begins where the one before ended.

    *text* is the file's own bytes of all of them, empty if they are not at hand.
    """

    def __init__(self, packed: RunReceived, text: bytes) -> None:
        self._packed = packed
        self._text = text
        self._number = packed.run.previous  # after the last run made

    def make_run(
        self, records: Sequence[bytes], end: int, events: int, skipped: int = 0
    ) -> RunReceived:
        """Return the next run: *records*, *events* events, up to the position *end*."""
        run = self._packed.run
        number = run.number if end == position_of(run.number) else number_of(end, self._tail(end))
        part = replace(
            run,
            previous=self._number,
            number=number,
            skipped=skipped,
            events=events,
            records=len(records),
        )
        self._number = number
        data = records_as_events(records)
        return RunReceived(part, self._packed.last, (data,), len(data))

    def _tail(self, position: int) -> bytes | None:
        """Return the bytes before *position* that its check is made from (rule P1), None if they
        are not all in the pack.
        """
        start = position_of(self._packed.run.previous)
        first = max(0, position - TAIL_BYTES)
        if first < start or not self._text:
            return None
        return self._text[first - start : position - start]


def group_into_batches(records: Iterable[T], payload_of: Callable[[T], bytes]) -> Iterator[list[T]]:
    """Yield *records*, in order, in groups that fit a batch each (rule R3)."""
    group: list[T] = []
    size = 0  # bytes in a batch
    for record in records:
        more = EVENT_HEAD + len(payload_of(record))
        if group and (len(group) >= RUN_RECORDS or size + more > RUN_BYTES):
            yield group
            group, size = [], 0
        group.append(record)
        size += more
    if group:
        yield group


def group_units(units: Iterable[Sequence[bytes]]) -> Iterator[list[bytes]]:
    """Yield the records of *units*, in order, in groups that fit a batch each; none parts a unit,
    unless it fits no batch.
    """
    group: list[bytes] = []
    size = 0  # bytes in a batch
    for unit in units:
        more = sum(EVENT_HEAD + len(record) for record in unit)
        if group and (len(group) + len(unit) > RUN_RECORDS or size + more > RUN_BYTES):
            yield group
            group, size = [], 0
        group += unit
        size += more
    if group:
        yield group
