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
    """One entry on its way to the disk, of the segment *ahead*.

    *future* belongs to the submitter, who may have cancelled it; it is set to *answer*. *source* is
    the segment that a merge ends, *changes* are the merge's changes of numbers. *followers* are
    futures of requests that were refused because of this write, with their answers: a refusal is
    true only once this write is durable.
    """

    entry: LogEntry
    ahead: "PendingState"
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
    """One segment's state with all pending writes.

    *number* is the segment's in log entries; *writers* has the last pending write of each writer.
    *creating* and *cutting* are the creation and the last truncation while they are pending. *gone*
    is True if it is deleted, or merged into another. *waiting* counts its pending writes.
    """

    name: str
    number: int
    length: int
    start: int = 0
    sealed: bool = False
    gone: bool = False
    creating: PendingWrite | None = None
    cutting: PendingWrite | None = None
    writers: dict[bytes, PendingWrite] = field(default_factory=dict)
    waiting: int = 0


class PendingWrites:
    """The states of all segments with pending writes, by name; others are as *index* says."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._ahead: dict[str, PendingState] = {}
        self._creating = 0

    def segment_state(self, name: str) -> PendingState:
        """Return the segment's state with all pending writes. Raises `NoSuchSegmentError`."""
        ahead = self._ahead.get(name)
        if ahead is None:
            durable = self._index.by_name.get(name)
            if durable is None:
                raise NoSuchSegmentError(name)
            return PendingState(name, durable.number, durable.length, durable.start, durable.sealed)
        if ahead.gone:
            raise NoSuchSegmentError(name)
        return ahead

    def last_pending(self, name: str, writer: bytes) -> PendingWrite | None:
        """Return the writer's last pending write."""
        ahead = self._ahead.get(name)
        return ahead.writers.get(writer) if ahead is not None else None

    def number(self, name: str, writer: bytes) -> int:
        """Return the number that was submitted last for *writer*."""
        ahead, durable = self._ahead.get(name), self._index.by_name.get(name)
        if ahead is not None and (pending := ahead.writers.get(writer)) is not None:
            return pending.numbers_set()[writer]
        if durable is None or (
            ahead is not None and (ahead.gone or ahead.number != durable.number)
        ):
            return ABSENT
        return self._index.number(durable, writer)

    def existence_is_pending(self, name: str) -> bool:
        """Return whether a creation or deletion of the segment is pending."""
        ahead = self._ahead.get(name)
        return ahead is not None and (ahead.creating is not None or ahead.gone)

    def end_is_pending(self, name: str) -> bool:
        """Return whether a seal or deletion of the segment is pending."""
        ahead, durable = self._ahead.get(name), self._index.by_name.get(name)
        return ahead is not None and (
            ahead.gone or (ahead.sealed and (durable is None or not durable.sealed))
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

    def add_pending(self, submission: PendingWrite) -> None:
        """Add *submission* and apply it to its segment's state."""
        ahead, entry = submission.ahead, submission.entry
        if entry.kind == COPY:
            return  # a copy changes no segment's state
        self._count(ahead)
        if entry.kind in (APPEND, UPDATE):
            ahead.writers[entry.writer] = submission
            ahead.length += entry.length
        elif entry.kind == SEAL:
            ahead.sealed = True
        elif entry.kind == CREATE:
            ahead.creating = submission
            self._creating += 1
        elif entry.kind == TRUNCATE:
            ahead.cutting, ahead.start = submission, entry.number
        elif entry.kind == DELETE:
            ahead.gone = True
        elif entry.kind == MERGE and submission.source is not None:
            ahead.length += submission.source.length
            submission.source.gone = True
            ahead.writers.update((change.writer, submission) for change in submission.changes)
            self._count(submission.source)

    def remove_durable(self, submission: PendingWrite) -> None:
        """Remove *submission*, the oldest one: it is in the index now."""
        ahead = submission.ahead
        if submission.entry.kind == COPY:
            return
        if ahead.creating is submission:
            ahead.creating = None
            self._creating -= 1
        if ahead.cutting is submission:
            ahead.cutting = None
        _drop(ahead.writers, submission.entry.writer, submission)
        for change in submission.changes:
            _drop(ahead.writers, change.writer, submission)
        self._discount(ahead)
        if submission.source is not None:
            self._discount(submission.source)

    def discard_all(self) -> None:
        """Return to the durable state."""
        self._ahead.clear()
        self._creating = 0

    def _count(self, ahead: PendingState) -> None:
        self._ahead[ahead.name] = ahead
        ahead.waiting += 1

    def _discount(self, ahead: PendingState) -> None:
        ahead.waiting -= 1
        # another segment may have the name by now
        if ahead.waiting == 0 and self._ahead.get(ahead.name) is ahead:
            del self._ahead[ahead.name]


def _drop(writers: dict[bytes, PendingWrite], writer: bytes, submission: PendingWrite) -> None:
    if writers.get(writer) is submission:
        del writers[writer]
