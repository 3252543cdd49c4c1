"""What is submitted and not yet durable: the state that the next submission is compared with.

Kept apart from the index, so that a failed write is undone by forgetting it.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from logdrive.errors import LogdriveError
from logdrive.record import ABSENT
from logdrive.store.entry import APPEND, CREATE, SEAL, UPDATE, Entry
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.index import Index


@dataclass(slots=True, eq=False)
class Submission:
    """An entry on its way. *future* is its submitter's, who may have cancelled it; it resolves to *answer*.

    *followers* are the futures of those who were told no because of this one, which is true only once it is durable.
    """

    entry: Entry
    segment: str
    future: "asyncio.Future[Any]"
    answer: int | bool | None
    followers: "list[tuple[asyncio.Future[bool], bool]]" = field(default_factory=list)

    def resolve(self) -> None:
        """Tell everybody that it is durable."""
        for future, answer in ((self.future, self.answer), *self.followers):
            if not future.done():
                future.set_result(answer)

    def reject(self, reason: LogdriveError) -> None:
        """Tell everybody that it will not be durable."""
        for future in (self.future, *(future for future, _ in self.followers)):
            if not future.done():
                future.set_exception(reason)
                future.exception()  # whoever dropped it need not hear of it


@dataclass(slots=True, eq=False)
class Ahead:
    """One segment as it will be: *number* names it in entries, *writers* has each writer's last submission."""

    number: int
    length: int
    sealed: bool = False
    creating: Submission | None = None
    writers: dict[bytes, Submission] = field(default_factory=dict)
    waiting: int = 0


class Submissions:
    """All segments that are ahead of *index*; the others are as the index says."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._ahead: dict[str, Ahead] = {}
        self._creating = 0

    def segment(self, name: str) -> Ahead:
        """Return the segment as submitted. Raises `NoSuchSegmentError`."""
        ahead = self._ahead.get(name)
        if ahead is None:
            durable = self._index.by_name.get(name)
            if durable is None:
                raise NoSuchSegmentError(name)
            return Ahead(durable.number, durable.length, durable.sealed)
        return ahead

    def pending(self, name: str, writer: bytes) -> Submission | None:
        """Return the writer's last submission that is not yet durable."""
        ahead = self._ahead.get(name)
        return ahead.writers.get(writer) if ahead is not None else None

    def number(self, name: str, writer: bytes) -> int:
        """Return the number submitted last for *writer*."""
        if (pending := self.pending(name, writer)) is not None:
            return pending.entry.number
        durable = self._index.by_name.get(name)
        return durable.numbers.get(writer, ABSENT) if durable is not None else ABSENT

    def is_new(self, name: str) -> bool:
        """Tell whether the segment is submitted and not yet durable."""
        ahead = self._ahead.get(name)
        return ahead is not None and ahead.creating is not None

    def next_number(self) -> int:
        """Return the number that the next segment to be created gets."""
        return len(self._index.by_number) + self._creating

    def add(self, submission: Submission, ahead: Ahead) -> None:
        """Count *submission* in; *ahead* is its segment."""
        self._ahead[submission.segment] = ahead
        ahead.waiting += 1
        entry = submission.entry
        if entry.kind in (APPEND, UPDATE):
            ahead.writers[entry.writer] = submission
            ahead.length += entry.length
        elif entry.kind == SEAL:
            ahead.sealed = True
        elif entry.kind == CREATE:
            ahead.creating = submission
            self._creating += 1

    def settle(self, submission: Submission) -> None:
        """Take *submission*, the oldest there is, out: the index has it now."""
        ahead = self._ahead[submission.segment]
        ahead.waiting -= 1
        if submission.entry.kind == CREATE:
            ahead.creating = None
            self._creating -= 1
        if ahead.waiting == 0:
            del self._ahead[submission.segment]
        elif ahead.writers.get(submission.entry.writer) is submission:
            del ahead.writers[submission.entry.writer]

    def forget(self) -> None:
        """Go back to what is durable."""
        self._ahead.clear()
        self._creating = 0
