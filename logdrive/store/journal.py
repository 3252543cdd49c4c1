"""A journal: the changes of some state in memory, durable in a segment of the store itself.

Each record is one event of the segment: a JSON object whose *puts* are the new states of single
things, applied all or none. It is appended only where the previous one ended, so nothing unread can
come between two. From time to time the whole state is appended again, and what is before it is cut
off. A crash in between does no harm: records only say what things are now.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar
from uuid import uuid5

import msgspec

from logdrive.errors import StorageError
from logdrive.model.framing import EVENT_HEAD, event_head, event_length
from logdrive.model.identity import NAMESPACE
from logdrive.model.units import MIB
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.limits import StoreLimits

_READ: Final = 1 * MIB
"""Bytes read at once during a replay."""
_PORTION: Final = 1 * MIB
"""Bytes after which a record of the whole state is complete."""
_LONGEST: Final = StoreLimits().entry
"""Limit on the bytes of one record."""
_encode = msgspec.json.Encoder().encode

AnyPut = TypeVar("AnyPut")


class JournalState(Protocol[AnyPut]):
    """The state that the puts of a journal lead to."""

    def apply_puts(self, puts: Sequence[AnyPut], /) -> None:
        """Apply one change."""
        ...

    def puts_for_all(self) -> Iterable[AnyPut]:
        """Return the puts that make this state from nothing."""
        ...


State = TypeVar("State", bound=JournalState[Any])


class SegmentJournal(Generic[State, AnyPut]):
    """The journal in *segment* of one store, for one user at a time.

    *new_state* makes the empty state; *decode* decodes one record to its puts, and raises
    `msgspec.DecodeError`. Below *slack* bytes the journal is not shortened.
    """

    def __init__(
        self,
        store: Store,
        segment: str,
        *,
        new_state: Callable[[], State],
        decode: Callable[[bytes], Sequence[AnyPut]],
        slack: int = MIB,
    ) -> None:
        self._store = store
        self._segment = segment
        self._writer = uuid5(NAMESPACE, segment)
        self.new_state = new_state
        self._decode = decode
        self._slack = slack
        # the journal's range in its segment
        self._begin = 0
        self._end = 0
        # bytes of the whole state when it was written last
        self._whole = 0

    async def replay(self) -> State:
        """Return the durable state, once nothing of the journal is pending.

        Raises `StorageError` if it is unreadable.
        """
        try:
            await self._store.number(self._segment, self._writer)
        except NoSuchSegmentError:
            await self._store.create(self._segment)
        info = self._store.info(self._segment)
        assert info is not None
        state, place, rest = self.new_state(), info.start, b""
        while place + len(rest) < info.length:
            rest += self._store.read(self._segment, place + len(rest), _READ)
            changes, size = decode_journal(self._segment, rest, place, self._decode)
            rest, place = rest[size:], place + size
            for puts in changes:
                state.apply_puts(puts)
        if rest:
            raise StorageError(f"{self._segment} ends within the record at offset {place}")
        self._begin, self._end = info.start, info.length
        return state

    def append_puts(self, puts: Sequence[AnyPut]) -> "asyncio.Future[int]":
        """Append a change.

        Raises what `Store.append` raises. Replay the journal then, and after a future that fails.
        """
        body = _encode({"puts": puts})
        parts = [event_head(len(body)), body]
        number = max(self._store.submitted_number(self._segment, self._writer), 0) + 1
        future = self._store.append(
            self._segment,
            parts,
            writer=self._writer,
            expected=None,
            number=number,
            events=1,
            expected_offset=self._end,
        )
        self._end += EVENT_HEAD + len(body)
        return future

    def shorten(self, state: State) -> "list[asyncio.Future[Any]]":
        """Append the whole *state* and truncate the journal, if that makes it much shorter.

        *state* must include all changes submitted.
        """
        if self._end - self._begin < max(self._slack, 4 * self._whole):
            return []
        self._begin = self._end
        written: list[asyncio.Future[Any]] = [
            self.append_puts(puts) for puts in _portions(state.puts_for_all())
        ]
        self._whole = self._end - self._begin
        return [*written, self._store.truncate(self._segment, self._begin)]


class JournaledState(Generic[State, AnyPut]):
    """The state that *journal* keeps, changed by one task at a time.

    Changes take turns. A turn examines the state and makes durable what it changes. If it fails
    midway or is cancelled, the state in memory may differ from the store: the next turn begins by
    replaying the journal. Only a *refusal* leaves everything as it was.

    *state* is for looking, without a turn: it may be replaced, so do not keep it.
    """

    def __init__(self, journal: SegmentJournal[State, AnyPut], *, refusal: type[Exception]) -> None:
        self.state = journal.new_state()
        self._journal = journal
        self._refusal = refusal
        self._turn = asyncio.Lock()
        # False if the state must be replayed from the journal first
        self._known = False

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[State]:
        """Lock the state during the context."""
        async with self._turn:
            known, self._known = self._known, False
            if not known:
                self.state = await self._journal.replay()
                await self.complete_replay()
            try:
                yield self.state
            except self._refusal:
                self._known = True
                raise
            self._known = True

    @property
    def is_doubtful(self) -> bool:
        """True after a turn that failed: *state* may have what is not stored.

        The next turn reads it anew.
        """
        return not self._known and not self._turn.locked()

    async def complete_replay(self) -> None:
        """Do what the state requires and a crash left undone. For subclasses; within a turn."""

    async def commit_puts(self, puts: Sequence[AnyPut]) -> None:
        """Make *puts* durable; only within a turn."""
        submitted: list[asyncio.Future[Any]] = [self.submit_puts(puts)]
        submitted += self._journal.shorten(self.state)
        await asyncio.gather(*submitted)

    def submit_puts(self, puts: Sequence[AnyPut]) -> "asyncio.Future[int]":
        """Apply *puts*, and return a future that is done once they are durable; within a turn."""
        submitted = self._journal.append_puts(puts)
        self.state.apply_puts(puts)
        return submitted


def decode_journal(
    segment: str, data: bytes, offset: int, decode: Callable[[bytes], Sequence[AnyPut]]
) -> tuple[list[Sequence[AnyPut]], int]:
    """Return the puts of the whole records at the beginning of *data*, and their length in bytes.

    *data* is at *offset* of the journal in *segment*. Raises `StorageError`.
    """
    changes: list[Sequence[AnyPut]] = []
    at = 0
    while at + EVENT_HEAD <= len(data):
        try:
            length = event_length(data[at : at + EVENT_HEAD])
            if length > _LONGEST:
                raise ValueError(f"a record of {length} bytes")
        except ValueError as error:
            raise StorageError(
                f"{segment} has no record at offset {offset + at}: something else wrote there"
            ) from error

        if (end := at + EVENT_HEAD + length) > len(data):
            break
        try:
            changes.append(decode(data[at + EVENT_HEAD : end]))
        except msgspec.DecodeError as error:
            raise StorageError(
                f"{segment} has no change at offset {offset + at}: {error}"
            ) from error
        at = end
    return changes, at


def _portions(puts: Iterable[AnyPut]) -> Iterator[tuple[AnyPut, ...]]:
    """Yield *puts* in portions that fit into one record."""
    portion: list[AnyPut] = []
    size = 0
    for put in puts:
        portion.append(put)
        size += len(_encode(put))
        if size > _PORTION:
            yield tuple(portion)
            portion, size = [], 0
    if portion:
        yield tuple(portion)
