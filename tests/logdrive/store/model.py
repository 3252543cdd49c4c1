"""Model of a store after a crash: the result of a prefix of all submitted changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

import pytest

from logdrive.model.numbers import ABSENT
from logdrive.store.engine import Store
from logdrive.store.errors import SegmentTruncatedError


class Kind(Enum):
    CREATE, APPEND, UPDATE, SEAL, TRUNCATE, DELETE, MERGE = range(7)


@dataclass(frozen=True, slots=True)
class Submitted:
    """One submitted change; *start* is a truncation's offset, *source* the segment a merge ends."""

    kind: Kind
    segment: str
    data: bytes = b""
    writer: UUID | None = None
    number: int = ABSENT
    events: int = 0
    start: int = 0
    source: str = ""


@dataclass(slots=True)
class SegmentState:
    """The whole state of a segment; *content* has zeros before *start*."""

    content: bytes = b""
    numbers: dict[UUID, int] = field(default_factory=dict)
    events: int = 0
    sealed: bool = False
    start: int = 0

    def number(self, writer: UUID) -> int:
        return self.numbers.get(writer, ABSENT)


State = dict[str, SegmentState]


def apply(state: State, step: Submitted) -> None:
    if step.kind is Kind.CREATE:
        state[step.segment] = SegmentState()
        return
    segment = state[step.segment]
    match step.kind:
        case Kind.SEAL:
            segment.sealed = True
        case Kind.TRUNCATE:
            segment.start = step.start
            segment.content = bytes(step.start) + segment.content[step.start :]
        case Kind.DELETE:
            del state[step.segment]
        case Kind.MERGE:
            segment.content += state.pop(step.source).content
        case _:
            segment.content += step.data
            segment.events += step.events
            _set(segment, step)


def _set(segment: SegmentState, step: Submitted) -> None:
    assert step.writer is not None
    if step.number == ABSENT:
        segment.numbers.pop(step.writer, None)
    else:
        segment.numbers[step.writer] = step.number


def after(steps: Sequence[Submitted]) -> State:
    state: State = {}
    for step in steps:
        apply(state, step)
    return state


def state_of(store: Store, writers: Sequence[UUID]) -> State:
    """Ask *store* for its whole state."""
    state: State = {}
    for name in store.segments():
        info = store.info(name)
        assert info is not None
        content = store.read(name, info.start, info.length + 10)
        assert len(content) == info.length - info.start
        if info.start:
            with pytest.raises(SegmentTruncatedError):
                store.read(name, info.start - 1, 1)
        numbers = {writer: store.attribute(name, writer) for writer in writers}
        known = {writer: number for writer, number in numbers.items() if number != ABSENT}
        state[name] = SegmentState(
            bytes(info.start) + content, known, info.events, info.sealed, info.start
        )
    return state


@dataclass(slots=True)
class Ledger:
    """All submitted changes in order, how many are acknowledged, and what a crash may keep.

    A failed write is cut back, but the cut is durable only with the next sync: until then the disk
    may keep any prefix of what was written. That was never acknowledged, nor can anything after it
    have been.
    """

    steps: list[Submitted] = field(default_factory=list)
    acknowledged: int = 0
    failed: list[list[Submitted]] = field(default_factory=list)

    def acknowledge(self) -> None:
        """The next change is durable."""
        self.acknowledged += 1
        self.failed.clear()

    def fail(self) -> None:
        """Take back everything that is not durable."""
        self.failed.append(self.steps[self.acknowledged :])
        del self.steps[self.acknowledged :]

    def copy(self) -> "Ledger":
        return Ledger(list(self.steps), self.acknowledged, [list(steps) for steps in self.failed])

    def histories(self) -> Iterator[list[Submitted]]:
        """Yield every history that a crash now may leave."""
        durable = self.steps[: self.acknowledged]
        for ahead in (self.steps[self.acknowledged :], *self.failed):
            for count in range(len(ahead) + 1):
                yield durable + ahead[:count]

    def matching(self, found: State) -> list[Submitted]:
        """Return the history that leads to *found*."""
        for history in self.histories():
            if after(history) == found:
                return history
        raise AssertionError(
            f"no history leaves this: {found}\nacknowledged: {self.acknowledged} of {self.steps}"
        )
