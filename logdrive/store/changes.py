"""The changes to a store, and the checks that refuse them.

Every change is checked, on the event loop, against the state with all changes submitted before it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from logdrive.errors import StorageError, TransientError
from logdrive.host.clock import Clock
from logdrive.model.framing import Part
from logdrive.model.numbers import ABSENT
from logdrive.store.commit import GroupCommit
from logdrive.store.errors import (
    NoSuchSegmentError,
    NumberMismatchError,
    OffsetMismatchError,
    SegmentSealedError,
    SegmentTruncatedError,
)
from logdrive.store.index.index import Extent, SegmentIndex
from logdrive.store.limits import StoreLimits
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
    encode_changes,
)
from logdrive.store.pending import PendingState, PendingWrite, PendingWrites
from logdrive.store.readers import is_reader_key

_MAX_EVENTS: Final = (1 << 32) - 1
_MAX_NUMBER: Final = (1 << 63) - 1


class Changes:
    """The part of a `Store` that submits changes; `Store` says what holds for all methods."""

    def __init__(
        self, pending: PendingWrites, commit: GroupCommit, clock: Clock, limits: StoreLimits
    ) -> None:
        self._pending = pending
        self._commit = commit
        self._clock = clock
        self._limits = limits
        # why changes are refused: the store is closed, or failed
        self._refusal: StorageError | TransientError | None = None

    def create(self, segment: str) -> "asyncio.Future[bool]":
        """Create *segment*; the future is False if it exists.

        A future that is False is done only once the existing segment is durable.
        """
        self._check_open()
        name = segment.encode()
        if not name or len(name) > self._limits.segment_name:
            raise ValueError(
                f"a segment's name has 1 to {self._limits.segment_name} bytes, not {len(name)}"
            )

        try:
            state = self._pending.segment_state(segment)
        except NoSuchSegmentError:
            state = PendingState(segment, self._pending.next_number(), 0)
            return self._submit(
                state, self._entry(CREATE, state, parts=(name,), length=len(name)), True
            )
        return self._answer_after(state.creating, False)

    def append(
        self,
        segment: str,
        data: Part | Sequence[Part],
        *,
        writer: UUID,
        expected: int | None,
        number: int,
        events: int,
        expected_offset: int | None = None,
        time_ms: int | None = None,
    ) -> "asyncio.Future[int]":
        """Append *data*, one buffer or several, and set the number of *writer*, as one change.

        *expected* is the writer's number before (`ABSENT`: never seen, None: any), *number* the new
        one, which must be larger. The future is the segment's length after this append.

        Raises `NumberMismatchError`, then `OffsetMismatchError` if *expected_offset* is not the
        segment's length with everything submitted. The parts are not copied, so they must not
        change. *time_ms* is when the append came (ms since 1970), where the caller has read the
        clock already. Costs about 10 µs on the loop, and 0.3 ms per MiB.
        """
        state = self._open_segment(segment)
        parts: Sequence[Part] = (data,) if isinstance(data, bytes | memoryview) else data
        length = sum(map(len, parts))

        key = writer.bytes
        previous = self._pending.number(segment, key)
        if number <= previous or (expected is not None and expected != previous):
            raise NumberMismatchError(previous)
        if expected_offset is not None and expected_offset != state.length:
            raise OffsetMismatchError(state.length)
        if length > self._limits.entry or not 0 <= events <= _MAX_EVENTS:
            raise ValueError(
                f"an append has up to {self._limits.entry} bytes and {_MAX_EVENTS} "
                f"events, not {length} and {events}"
            )

        end = state.length + length
        now = self._clock.now_ms() if time_ms is None else time_ms
        entry = LogEntry(APPEND, state.number, now, parts, length, events, key, previous, number)
        return self._submit(state, entry, end)

    def update(
        self, segment: str, attribute: UUID, expected: int | None, value: int
    ) -> "asyncio.Future[bool]":
        """Set an attribute, such as a writer's number, to *value* if it is *expected* (None: any).

        `ABSENT` removes it. The future is False if the value is another one, and is done only once
        that value is durable. On a sealed segment only readers' positions
        (`logdrive.store.readers`) can be set.
        """
        key = attribute.bytes
        self._check_open()
        state = self._pending.segment_state(segment)
        # readers go on after the seal, and retention waits for their positions
        if state.sealed and not is_reader_key(key):
            raise SegmentSealedError(segment)

        previous = self._pending.number(segment, key)
        if expected is not None and expected != previous:
            return self._answer_after(self._pending.last_pending(segment, key), False)
        return self._submit(
            state, self._entry(UPDATE, state, writer=key, previous=previous, number=value), True
        )

    def seal(self, segment: str) -> "asyncio.Future[None]":
        """Refuse all further appends to *segment*."""
        state = self._open_segment(segment)
        return self._submit(state, self._entry(SEAL, state), None)

    def truncate(self, segment: str, offset: int) -> "asyncio.Future[None]":
        """Make *segment*, sealed or not, begin at *offset*: bytes before it can no longer be read.

        Offsets do not change. Nothing happens if it begins there already. Raises
        `SegmentTruncatedError` if *offset* is before its start or beyond its length, with
        everything submitted, and `StorageError` if the index is damaged there.
        """
        self._check_open()
        state = self._pending.segment_state(segment)
        if not state.start <= offset <= state.length:
            raise SegmentTruncatedError(segment, state.start)
        # begins there already, or will once a pending truncation is durable
        if offset == state.start:
            return self._answer_after(state.cutting, None)
        self._pending.check_extent_at(segment, offset)
        return self._submit(
            state, self._entry(TRUNCATE, state, previous=state.start, number=offset), None
        )

    def delete(self, segment: str) -> "asyncio.Future[None]":
        """Delete *segment*, sealed or not, with its writers' numbers.

        A new segment may then have the same name.
        """
        self._check_open()
        state = self._pending.segment_state(segment)
        return self._submit(state, self._entry(DELETE, state), None)

    def merge(
        self, target: str, source: str, values: Mapping[UUID, int] | None = None
    ) -> "asyncio.Future[int]":
        """Append all of *source* to *target* and delete *source*, as one change.

        *source* may be sealed; its writers' numbers are deleted with it. *values* are new values of
        attributes of *target*, set with the same change whatever they were: check
        `submitted_number` before the call. The future is the target's length afterwards; its count
        of events stays. No data is copied.

        Raises `NoSuchSegmentError` and `SegmentSealedError`, which name the segment, and
        `SegmentTruncatedError` if *source* does not begin at 0.
        """
        into = self._open_segment(target)
        merged = self._pending.segment_state(source)
        if merged is into or source == target:
            raise ValueError(f"segment {target!r} can't be merged into itself")
        # a merge moves all bytes of the source, from 0 on
        if merged.start:
            raise SegmentTruncatedError(source, merged.start)

        keys = {attribute.bytes: value for attribute, value in (values or {}).items()}
        changes = [
            NumberChange(key, self._pending.number(target, key), value)
            for key, value in keys.items()
        ]
        data, end = encode_changes(changes), into.length + merged.length
        entry = self._entry(
            MERGE, into, parts=(data,), length=len(data), previous=into.length, number=merged.number
        )
        return self._submit(into, entry, end, merged, changes)

    def submitted_number(self, segment: str, writer: UUID) -> int:
        """Return the number that was submitted last for *writer*, durable or not."""
        return self._pending.number(segment, writer.bytes)

    def submitted_length(self, segment: str) -> int:
        """Return the length of *segment* with everything submitted, durable or not.

        Raises `NoSuchSegmentError`.
        """
        return self._pending.segment_state(segment).length

    def incarnation(self, segment: str) -> int:
        """Return the number that tells *segment* from a deleted one of the same name.

        It never changes, and no other segment of this store ever has it. Raises
        `NoSuchSegmentError`.
        """
        return self._pending.segment_state(segment).number

    def _submit_copy(
        self, segment: SegmentIndex, extent: Extent, time_ms: int, data: bytes
    ) -> "asyncio.Future[None]":
        """Submit a copy of *extent*, which was appended at *time_ms*, to the log's end."""
        state = PendingState(segment.name, segment.number, segment.length)
        entry = LogEntry(COPY, state.number, time_ms, (data,), len(data), previous=extent.offset)
        return self._submit(state, entry, None)

    # ---------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._refusal is not None:
            # a new exception each time: a traceback grows with every raise
            raise type(self._refusal)(str(self._refusal))

    def _open_segment(self, segment: str) -> PendingState:
        self._check_open()
        state = self._pending.segment_state(segment)
        if state.sealed:
            raise SegmentSealedError(segment)
        return state

    def _entry(self, kind: int, state: PendingState, **fields: Any) -> LogEntry:
        return LogEntry(kind, state.number, self._clock.now_ms(), **fields)

    def _submit(
        self,
        state: PendingState,
        entry: LogEntry,
        answer: Any,
        source: PendingState | None = None,
        changes: Sequence[NumberChange] = (),
    ) -> "asyncio.Future[Any]":
        if not ABSENT <= entry.number <= _MAX_NUMBER:
            raise ValueError(f"{entry.number} does not fit into 64 bits")
        self._commit.check_capacity(entry.length)

        # enqueued before it is pending: if there is no memory for a group, nothing has changed
        write = PendingWrite(
            entry, state, asyncio.get_running_loop().create_future(), answer, source, changes
        )
        self._commit.enqueue(write)
        self._pending.add_pending(write)
        return write.future

    def _answer_after(self, pending: PendingWrite | None, answer: Any) -> "asyncio.Future[Any]":
        """Return a future that is *answer* once *pending* is durable, or fails with it."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if pending is None:
            future.set_result(answer)
        else:
            pending.followers.append((future, answer))
        return future
