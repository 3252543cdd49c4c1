"""What is submitted and not yet durable: the state that the next submission is compared with.

Kept apart from the index, so that a failed write is undone by forgetting it.
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
    """An entry on its way, of the segment *ahead*.

    *future* is its submitter's, who may have cancelled it; it resolves to *answer*.

    *source* is the segment that a merge ends, *changes* come with it. *followers* are the futures
    of those who were told no because of this one, which is true only once it is durable.
    """

    entry: LogEntry
    ahead: "PendingState"
    future: "asyncio.Future[Any]"
    answer: int | bool | None
    source: "PendingState | None" = None
    changes: Sequence[NumberChange] = ()
    followers: "list[tuple[asyncio.Future[Any], Any]]" = field(default_factory=list)

    def numbers(self) -> dict[bytes, int]:
        """Return which writers' numbers it sets, and to what."""
        if self.entry.kind in (APPEND, UPDATE):
            return {self.entry.writer: self.entry.number}
        return {change.writer: change.number for change in self.changes}

    def resolve(self) -> None:
        """Tell everybody that it is durable."""
        if not self.future.done():
            self.future.set_result(self.answer)
        for future, answer in self.followers:
            if not future.done():
                future.set_result(answer)

    def reject(self, reason: LogdriveError) -> None:
        """Tell everybody that it will not be durable."""
        for future in (self.future, *(future for future, _ in self.followers)):
            if not future.done():
                future.set_exception(reason)
                future.exception()  # whoever dropped it need not hear of it


@dataclass(slots=True, eq=False)
class PendingState:
    """One segment as it will be: *number* names it in entries, *writers* has each writer's last
    submission.

    *creating* and *cutting* are the creation and the last truncation, while they are not durable;
    *gone*: deleted, or merged into another.
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
    """All segments that are ahead of *index*, by name; the others are as the index says."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._ahead: dict[str, PendingState] = {}
        self._creating = 0

    def segment(self, name: str) -> PendingState:
        """Return the segment as submitted. Raises `NoSuchSegmentError`."""
        ahead = self._ahead.get(name)
        if ahead is None:
            durable = self._index.by_name.get(name)
            if durable is None:
                raise NoSuchSegmentError(name)
            return PendingState(name, durable.number, durable.length, durable.start, durable.sealed)
        if ahead.gone:
            raise NoSuchSegmentError(name)
        return ahead

    def pending(self, name: str, writer: bytes) -> PendingWrite | None:
        """Return the writer's last submission that is not yet durable."""
        ahead = self._ahead.get(name)
        return ahead.writers.get(writer) if ahead is not None else None

    def number(self, name: str, writer: bytes) -> int:
        """Return the number submitted last for *writer*."""
        ahead, durable = self._ahead.get(name), self._index.by_name.get(name)
        if ahead is not None and (pending := ahead.writers.get(writer)) is not None:
            return pending.numbers()[writer]
        if durable is None or (
            ahead is not None and (ahead.gone or ahead.number != durable.number)
        ):
            return ABSENT
        return self._index.number(durable, writer)

    def comes_or_goes(self, name: str) -> bool:
        """Tell whether the creation or the end of the segment is submitted and not yet durable."""
        ahead = self._ahead.get(name)
        return ahead is not None and (ahead.creating is not None or ahead.gone)

    def ends(self, name: str) -> bool:
        """Tell whether a seal or the end of the segment is submitted and not yet durable."""
        ahead, durable = self._ahead.get(name), self._index.by_name.get(name)
        return ahead is not None and (
            ahead.gone or (ahead.sealed and (durable is None or not durable.sealed))
        )

    def check_place(self, name: str, offset: int) -> None:
        """Raise `StorageError` where the index can't tell which append *offset* belongs to: what
        needs that could not be applied later.
        """
        durable = self._index.by_name.get(name)
        if durable is not None and durable.start <= offset < durable.length:
            durable.extent_at(offset)

    def next_number(self) -> int:
        """Return the number that the next segment to be created gets."""
        return self._index.next_number + self._creating

    def add(self, submission: PendingWrite) -> None:
        """Count *submission* in."""
        ahead, entry = submission.ahead, submission.entry
        if entry.kind == COPY:
            return  # changes nothing that anybody could be told
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

    def settle(self, submission: PendingWrite) -> None:
        """Take *submission*, the oldest there is, out: the index has it now."""
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

    def forget(self) -> None:
        """Go back to what is durable."""
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
