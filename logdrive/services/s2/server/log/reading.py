"""Readings: what one reader is sent, from its start to its end. See docs/protocols/s2.md#reading.

A reading first catches up with the tail. If its query says that it may follow, it then waits there.
It holds nothing but its position between two chunks, so a slow reader costs nothing.
"""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.units import KIB
from logdrive.services.numbering.positions import Position
from logdrive.services.numbering.view import View
from logdrive.services.numbering.walk import NO_LIMIT, read_event
from logdrive.services.s2.server.log.appender import as_s2_error
from logdrive.services.s2.server.log.encryption import opener
from logdrive.services.s2.server.log.hot import BatchEncoder, Limits
from logdrive.store.engine import Store
from logdrive.wire.s2.errors import RangeNotSatisfiableError, unavailable
from logdrive.wire.s2.limits import (
    HEARTBEAT_MAX_SECONDS,
    HEARTBEAT_MIN_SECONDS,
    MESSAGE_BYTES,
    READ_BYTES,
    READ_RECORDS,
)
from logdrive.wire.s2.protobuf import encode_tail, is_read_batch
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import StreamPosition

LARGEST_RECORD: Final = MESSAGE_BYTES - 1 * KIB
"""Limit on the bytes of an event that is sent as a record; other faces may write longer ones."""
_SLACK: Final = 64 * KIB
"""Bytes read beside those of the records wanted, for the heads of events and for headers."""
_GUESS: Final = 4 * KIB
"""Bytes read for each record wanted, before it is known how long they are."""


class ReadableLog(Protocol):
    """The stream that is read: a `StreamLog`."""

    segment: str
    # those that are open
    readings: "set[Reading]"

    @property
    def view(self) -> View:
        """The stream as far as it is indexed."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether all readings are to end."""
        ...

    async def sync(self) -> None:
        """Return once all that is durable now is indexed."""
        ...

    def first_position(self) -> Position:
        """Return where the first record is that is not deleted."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is sent at once: *batch* is an encoded `ReadBatch`, with the *tail* if that is due.

    It has *count* records from *first* on, *metered* bytes in all. Without records it is a
    heartbeat.
    """

    batch: bytes
    first: int
    count: int
    metered: int
    tail: StreamPosition | None

    @property
    def is_heartbeat(self) -> bool:
        """Whether it has no records."""
        return not self.count


def start_of(log: ReadableLog, query: ReadQuery) -> Position:
    """Return where a reading begins. Raises `RangeNotSatisfiableError`, 416, and `StorageError`."""
    view, tail = log.view, log.view.tail
    if query.count == 0 or query.bytes == 0:
        return view.end
    seq_num, beyond = tail.seq_num, False
    if query.seq_num is not None:
        seq_num, beyond = query.seq_num, query.seq_num > tail.seq_num
    elif query.timestamp is not None:
        beyond = query.timestamp > tail.timestamp
        if not beyond:
            first = log.first_position()
            found = view.position_from(query.timestamp)
            seq_num = max(first, found).seq_num
    elif query.tail_offset is not None:
        seq_num = max(0, tail.seq_num - query.tail_offset)
    if beyond:
        if not query.clamp:
            raise RangeNotSatisfiableError(tail)
        seq_num = tail.seq_num
    if seq_num == tail.seq_num and not query.may_follow:
        raise RangeNotSatisfiableError(tail)
    return max(view.position_of(seq_num), log.first_position())


class Reading:
    """An asynchronous iterator of chunks; close it at the end.

    It raises `S2Error`: 503 once the stream is deleted or closed, 500 where the store can't read,
    400 for records that the key does not open. A *unary* one gives at most one chunk, with records.
    """

    def __init__(
        self,
        log: ReadableLog,
        store: Store,
        begin: Position,
        query: ReadQuery,
        unary: bool,
        key: bytes | None,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._log = log
        self._store = store
        self._clock = clock
        self._random = random
        self._unary = unary
        self._follows = query.may_follow
        self._wait = query.wait
        self._until = NO_LIMIT if query.until is None else query.until
        self._records = NO_LIMIT if query.count is None else query.count
        self._bytes = NO_LIMIT if query.bytes is None else query.bytes
        self._opener = opener(key)
        self._position = begin
        # bytes to read for each record wanted, as those before were long
        self._record_bytes = _GUESS
        # where a reading that does not follow ends
        self._end = log.view.end
        # since it waits at the tail: when it ends, and when the next heartbeat is due (monotonic)
        self._at_tail = False
        self._deadline = float("inf")
        self._heartbeat = float("inf")
        self._watch: asyncio.Future[None] | None = None
        self._ended = not (self._records and self._bytes)
        log.readings.add(self)

    def __aiter__(self) -> "Reading":
        return self

    async def __anext__(self) -> Chunk:
        if (chunk := await self.next_chunk()) is None:
            self.close()
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        """End the reading."""
        self._ended = True
        self._log.readings.discard(self)
        self.hurry()

    def hurry(self) -> None:
        """Let a reading that waits at the tail give a heartbeat at once."""
        self._heartbeat = 0.0
        if self._watch is not None:
            self._store.unwatch(self._log.segment, self._watch)

    async def next_chunk(self) -> Chunk | None:
        """Return the next chunk; None at the end."""
        try:
            while not self._ended:
                await self._log.sync()
                if self._log.is_closed:
                    raise unavailable("the stream was closed")
                if (chunk := self._read()) is not None:
                    return chunk
                if self._ended or not self._follows:
                    break
                if (chunk := self._on_caught_up()) is not None:
                    return chunk
                if self._clock.monotonic() >= self._deadline:
                    break
                await self._wait_at_tail()
        except LogdriveError as error:
            raise as_s2_error(error) from error
        self._ended = True
        return None

    # At the tail ---------------------------------------------------------------------------------

    def _on_caught_up(self) -> Chunk | None:
        """Return a heartbeat if one is due."""
        now = self._clock.monotonic()
        if not self._at_tail:
            self._at_tail = True
            self._arm(now)
            self._heartbeat = now
        if self._unary or now < self._heartbeat or now >= self._deadline:
            return None
        gap = self._random.uniform(HEARTBEAT_MIN_SECONDS, HEARTBEAT_MAX_SECONDS)
        self._heartbeat = now + gap
        tail = self._log.view.tail
        return Chunk(encode_tail(tail), tail.seq_num, 0, 0, tail)

    def _arm(self, now: float) -> None:
        if self._wait is not None:
            self._deadline = now + self._wait

    async def _wait_at_tail(self) -> None:
        segment = self._log.segment
        due = self._deadline if self._unary else min(self._deadline, self._heartbeat)
        self._store.follow_tail(segment, self._position.offset)
        self._watch = self._store.watch(segment)
        try:
            await asyncio.wait([self._watch], timeout=max(0.0, due - self._clock.monotonic()))
        finally:
            self._store.unwatch(segment, self._watch)
            self._watch = None

    # Reading -------------------------------------------------------------------------------------

    def _read(self) -> Chunk | None:
        """Return the records from the position on, as many as fit; None if there are none.

        Ends the reading where no more will come.
        """
        self._position = max(self._position, self._log.first_position())
        end = self._log.view.end if self._follows else self._end
        if self._position.offset >= end.offset:
            return None
        encoder, batch = self._encode(end)
        if not encoder.count:  # the next record is beyond a limit
            self._ended = True
            return None
        first, size = self._position.seq_num, encoder.position.offset - self._position.offset
        self._record_bytes = size // encoder.count + EVENT_HEAD
        self._position = encoder.position
        self._records -= encoder.count
        self._bytes -= encoder.metered
        if self._unary or self._records <= 0 or self._bytes <= 0:
            self._ended = True
        tail = None
        if self._at_tail:
            self._arm(self._clock.monotonic())
        if self._at_tail or self._position.seq_num == self._log.view.end.seq_num:
            tail = self._log.view.tail
            batch += encode_tail(tail)
        return Chunk(batch, first, encoder.count, encoder.metered, tail)

    def _encode(self, end: Position) -> tuple[BatchEncoder, bytes]:
        encoder = self._fill(end, careful=False)
        batch = encoder.encode()
        # what begins like a payload of ours and was not written here
        if encoder.spliced and not is_read_batch(batch):
            encoder = self._fill(end, careful=True)
            batch = encoder.encode()
        return encoder, batch

    def _fill(self, end: Position, *, careful: bool) -> BatchEncoder:
        # a unary reader can't ask for more than the limit of a batch
        hard = LARGEST_RECORD
        if not (self._unary and self._bytes >= READ_BYTES):
            hard = min(hard, self._bytes)
        limits = Limits(
            min(READ_RECORDS, self._records), min(READ_BYTES, self._bytes), hard, self._until
        )
        encoder = BatchEncoder(
            self._log.segment, self._position, limits, self._opener, careful=careful
        )
        while not encoder.full and encoder.position.offset < end.offset:
            before = encoder.position
            wanted = min(
                end.offset - before.offset,
                max(0, limits.nominal - encoder.metered) + _SLACK,
                max(_SLACK, self._record_bytes * (limits.records - encoder.count)),
            )
            self._add(encoder, before.offset, wanted)
            if encoder.position == before and not encoder.full:
                self._add_long(encoder, end)
        return encoder

    def _add(self, encoder: BatchEncoder, offset: int, wanted: int) -> None:
        for time_ms, part in self._store.read_appends(self._log.segment, offset, wanted):
            behind = encoder.position.offset + len(part)
            encoder.add_events(time_ms, part)
            if encoder.full or encoder.position.offset < behind:
                return

    def _add_long(self, encoder: BatchEncoder, end: Position) -> None:
        """Add an event that is longer than what was read, or is in several appends."""
        segment, at = self._log.segment, encoder.position
        event = read_event(self._store, at, segment, end.offset)
        if event is None:
            encoder.full = True
        elif event.length > LARGEST_RECORD:
            encoder.add_omitted(event.time_ms, event.length)
        else:
            data = self._store.read(segment, at.offset, EVENT_HEAD + event.length)
            encoder.add_events(event.time_ms, data)
