"""Pending writes: changes that are submitted and not yet durable, and the state they lead to.

They are kept apart from the index, so that a failed write is undone by discarding them.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from logdrive.errors import LogdriveError
from logdrive.model.numbers import ABSENT
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.index.index import Index
from logdrive.store.log.format import (
    APPEND,
    COPY,
    CREATE,
    DELETE,
    MERGE,
    SEAL,
    TRUNCATE,
    UPDATE,
    LogEntry,
    NumberChange,
)


@dataclass(slots=True, eq=False)
class PendingWrite:
    """One entry on its way to the disk, for the segment with the state *state*.

    *future* belongs to the submitter, who may have cancelled it; it is set to *answer*. *source* is
    the segment that a merge ends, *changes* are the merge's changes of numbers. *followers* are
    futures of requests that were refused because of this write, with their answers: a refusal is
    true only once this write is durable.
    """

    entry: LogEntry
    state: "PendingState"
    future: "asyncio.Future[Any]"
    answer: int | bool | None
    source: "PendingState | None" = None
    changes: Sequence[NumberChange] = ()
    followers: "list[tuple[asyncio.Future[Any], Any]]" = field(default_factory=list)

    def numbers_set(self) -> dict[bytes, int]:
        """Return the writers' numbers that this write sets."""
        if self.entry.kind in (APPEND, UPDATE):
            return {self.entry.writer: self.entry.number}
        return {change.writer: change.number for change in self.changes}

    def resolve(self) -> None:
        """Resolve all futures: the write is durable."""
        if not self.future.done():
            self.future.set_result(self.answer)
        for future, answer in self.followers:
            if not future.done():
                future.set_result(answer)

    def reject(self, reason: LogdriveError) -> None:
        """Fail all futures: the write will not become durable."""
        for future in (self.future, *(future for future, _ in self.followers)):
            if not future.done():
                future.set_exception(reason)
                future.exception()  # no warning if the submitter dropped the future


@dataclass(slots=True, eq=False)
class PendingState:
    """One segment's state with all pending writes."""

    # the segment's name
    name: str
    # its number in log entries
    number: int
    # its range: bytes [start, length)
    length: int
    start: int = 0
    # whether it is sealed
    sealed: bool = False
    # whether it is deleted, or merged into another segment
    removed: bool = False
    # its creation, while that is pending
    creating: PendingWrite | None = None
    # its last truncation, while that is pending
    cutting: PendingWrite | None = None
    # the last pending write of each writer
    writers: dict[bytes, PendingWrite] = field(default_factory=dict)
    # count of pending writes
    waiting: int = 0


class PendingWrites:
    """The states of all segments with pending writes, by name; others are as *index* says."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # states of segments with pending writes, by name
        self._states: dict[str, PendingState] = {}
        # count of pending creations
        self._creating = 0

    def segment_state(self, name: str) -> PendingState:
        """Return the segment's state with all pending writes. Raises `NoSuchSegmentError`."""
        state = self._states.get(name)
        if state is None:
            durable = self._index.by_name.get(name)
            if durable is None:
                raise NoSuchSegmentError(name)
            return PendingState(name, durable.number, durable.length, durable.start, durable.sealed)
        if state.removed:
            raise NoSuchSegmentError(name)
        return state

    def last_pending(self, name: str, writer: bytes) -> PendingWrite | None:
        """Return the writer's last pending write."""
        state = self._states.get(name)
        return state.writers.get(writer) if state is not None else None

    def number(self, name: str, writer: bytes) -> int:
        """Return the number that was submitted last for *writer*."""
        state, durable = self._states.get(name), self._index.by_name.get(name)
        if state is not None and (pending := state.writers.get(writer)) is not None:
            return pending.numbers_set()[writer]
        # the index may still have a segment of that name that is deleted, or was created anew
        if durable is None or (
            state is not None and (state.removed or state.number != durable.number)
        ):
            return ABSENT
        return self._index.number(durable, writer)

    def existence_is_pending(self, name: str) -> bool:
        """Return whether a creation or deletion of the segment is pending."""
        state = self._states.get(name)
        return state is not None and (state.creating is not None or state.removed)

    def end_is_pending(self, name: str) -> bool:
        """Return whether a seal or deletion of the segment is pending."""
        state, durable = self._states.get(name), self._index.by_name.get(name)
        return state is not None and (
            state.removed or (state.sealed and (durable is None or not durable.sealed))
        )

    def check_extent_at(self, name: str, offset: int) -> None:
        """Raise `StorageError` if the index can't say which append holds *offset*.

        A change that needs it could not be applied later.
        """
        durable = self._index.by_name.get(name)
        if durable is not None and durable.start <= offset < durable.length:
            durable.extent_at(offset)

    def next_number(self) -> int:
        """Return the number of the next segment to be created."""
        return self._index.next_number + self._creating

    def add_pending(self, write: PendingWrite) -> None:
        """Add *write* and apply it to its segment's state."""
        state, entry = write.state, write.entry
        if entry.kind == COPY:
            return  # a copy changes no segment's state
        self._count(state)
        if entry.kind in (APPEND, UPDATE):
            state.writers[entry.writer] = write
            state.length += entry.length
        elif entry.kind == SEAL:
            state.sealed = True
        elif entry.kind == CREATE:
            state.creating = write
            self._creating += 1
        elif entry.kind == TRUNCATE:
            state.cutting, state.start = write, entry.number
        elif entry.kind == DELETE:
            state.removed = True
        # a merge changes two segments, and counts as pending for both
        elif entry.kind == MERGE and write.source is not None:
            state.length += write.source.length
            write.source.removed = True
            state.writers.update((change.writer, write) for change in write.changes)
            self._count(write.source)

    def release_data(self, write: PendingWrite) -> None:
        """Release the data of an append, which the open group has, unless readers will want it."""
        entry = write.entry
        durable = self._index.by_number.get(entry.segment)
        if entry.kind == APPEND and not (durable is not None and durable.followed):
            entry.parts = ()

    def remove_durable(self, write: PendingWrite) -> None:
        """Remove *write*, the oldest one: it is in the index now."""
        state = write.state
        if write.entry.kind == COPY:
            return
        if state.creating is write:
            state.creating = None
            self._creating -= 1
        if state.cutting is write:
            state.cutting = None
        _drop(state.writers, write.entry.writer, write)
        for change in write.changes:
            _drop(state.writers, change.writer, write)
        self._discount(state)
        if write.source is not None:
            self._discount(write.source)

    def discard_all(self) -> None:
        """Return to the durable state."""
        self._states.clear()
        self._creating = 0

    def _count(self, state: PendingState) -> None:
        self._states[state.name] = state
        state.waiting += 1

    def _discount(self, state: PendingState) -> None:
        state.waiting -= 1
        # another segment may have the name by now
        if state.waiting == 0 and self._states.get(state.name) is state:
            del self._states[state.name]


def _drop(writers: dict[bytes, PendingWrite], writer: bytes, write: PendingWrite) -> None:
    if writers.get(writer) is write:
        del writers[writer]
