"""Appends the batches of a micro-batch to a stream, each once, however often it is repeated.

The stream keeps the number of the writer's last append (rules D3, S4). A repetition makes the same
batches again, skips those up to that number, and appends the rest; the service takes an append only
after the number that it told. If the records are not the same, the check in the number says so, and
nothing is appended.

    locate segments -> ask for the number -> skip what is stored -> append the rest
          ^                                                              |
          +-------- connection lost, segment sealed, other number -------+
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from logdrive.errors import ConfigError, Mistake, StorageError, TransientError
from logdrive.host.clock import Clock
from logdrive.host.transport import Transport
from logdrive.model.numbers import ABSENT
from logdrive.model.units import MIB
from logdrive.net.retry import Exponential, retry_async
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.write.batches import NumberedBatch
from logdrive.pipeline.write.create import find_or_create_stream
from logdrive.pipeline.write.numbers import AppendPlace, place_of
from logdrive.services.pravega.client.errors import TokenError
from logdrive.services.pravega.client.writer import AppendWriter
from logdrive.services.pravega.reader.segments import connect_segments, locate_segments
from logdrive.services.sink import NumberConflictError
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError

_WINDOW_BYTES: Final = 8 * MIB  # limit on bytes in flight, but for one batch
_WAIT: Final = Exponential(0.1, 5.0)  # seconds between two attempts
_ATTEMPTS: Final = 10  # in a row without an append between them
_AGAIN: Final = (
    TransientError,
    NumberConflictError,
    SegmentSealedError,
    NoSuchSegmentError,
    TokenError,
)
"""Failures after which the stream is looked at again: its segments, tokens, and the number."""


class OtherRowsError(StorageError):
    """The writer has appended other rows than these for the same micro-batch."""


@dataclass(slots=True)
class AppendCounts:
    """What appending a micro-batch came to, in rows."""

    appended: int = 0
    skipped: int = 0
    """Stored by an attempt before."""


class _State:
    """What is known of a micro-batch across attempts."""

    def __init__(self, batches: Iterator[NumberedBatch], first_epoch: int) -> None:
        self._batches = batches
        # the micro-batch of the first of them
        self._first_epoch = first_epoch
        # made and perhaps sent, but not known to be stored
        self.waiting: deque[NumberedBatch] = deque()
        # number of the last batch that is known to be stored
        self.stored = ABSENT
        self.counts = AppendCounts()
        # failed attempts since the last acknowledgement
        self.failures = 0

    def make_next(self) -> NumberedBatch | None:
        """Make the next batch, and let it wait; None behind the last one."""
        batch = next(self._batches, None)
        if batch is not None:
            self.waiting.append(batch)
        return batch

    def on_stored(self, *, appended: bool) -> None:
        """Note that the first of those that wait is stored."""
        batch = self.waiting.popleft()
        self.stored, self.failures = batch.number, 0
        if appended:
            self.counts.appended += batch.rows
        else:
            self.counts.skipped += batch.rows

    def skip_stored(self, writer: UUID, durable: int, epoch: int) -> None:
        """Skip what is stored if the writer's number is *durable*. Raises `StorageError`."""
        place = place_of(durable)
        if place.epoch > epoch:
            raise StorageError(
                f"writer {writer} has appended micro-batch {place.epoch} already, and this is "
                f"{epoch}, as with a new checkpoint: give another `writer`"
            )
        if place.epoch < self._first_epoch and self.stored == ABSENT:
            return  # the usual case: nothing of these batches is stored
        while self.stored != durable:
            sent = bool(self.waiting)  # by an attempt before; its answer was lost
            batch = self.waiting[0] if sent else self.make_next()
            if batch is None or place_of(batch.number) > place:
                raise _other_rows_error(writer, epoch)
            if place_of(batch.number) == place and batch.number != durable:
                raise _other_rows_error(writer, epoch)
            self.on_stored(appended=sent)


def _other_rows_error(writer: UUID, epoch: int) -> OtherRowsError:
    return OtherRowsError(
        f"writer {writer} has appended other rows than these for micro-batch {epoch}: a repetition "
        "must have the same rows in the same partitions and order; to append these beside them, "
        "give another `writer`"
    )


async def append_batches(
    stream: StreamClient,
    writer: UUID,
    epoch: int,
    batches: Iterator[NumberedBatch],
    *,
    transport: Transport,
    clock: Clock,
    segments: int | None = None,
    first_epoch: int | None = None,
) -> AppendCounts:
    """Append *batches* as *writer*; return how many rows that was.

    All are of micro-batch *epoch*, or of several, from *first_epoch* to *epoch*.

    A stream that is not there is made with *segments* segments. Raises `ConfigError` if that is
    None, `StorageError` if the writer has appended a later micro-batch, `OtherRowsError` if it has
    appended other records for this one, and `TransientError` if the service stays away.
    """
    state = _State(batches, epoch if first_epoch is None else first_epoch)

    async def attempt() -> AppendCounts:
        try:
            return await _append_once(stream, writer, epoch, state, transport, segments)
        except _AGAIN as error:
            state.failures += 1
            raise TransientError(f"{stream.uri}: {error}") from error

    again = retry_async(
        TransientError,
        sleep=clock.sleep,
        wait=_WAIT,
        give_up=lambda _: state.failures >= _ATTEMPTS,
    )
    counts: AppendCounts = await again(attempt)
    return counts


async def read_place(
    stream: StreamClient, writer: UUID, transport: Transport, clock: Clock
) -> AppendPlace:
    """Return which append of *writer* is stored last; `NOTHING` if none is, or no stream.

    Raises `TransientError`.
    """

    async def attempt() -> AppendPlace:
        located = await locate_segments(transport, stream.target, stream.scope, stream.stream)
        async with connect_segments(transport, located) as found:
            numbers = [await one.client.get_attribute(one.state.segment, writer) for one in found]
        return place_of(max(numbers, default=ABSENT))

    again = retry_async(
        TransientError, sleep=clock.sleep, wait=_WAIT, give_up=lambda times: times >= _ATTEMPTS
    )
    place: AppendPlace = await again(attempt)
    return place


async def _append_once(
    stream: StreamClient,
    writer: UUID,
    epoch: int,
    state: _State,
    transport: Transport,
    segments: int | None,
) -> AppendCounts:
    located = await find_or_create_stream(stream, segments, transport)
    async with connect_segments(transport, located) as found:
        # of a stream that was scaled, the writer's last number may be in a sealed segment
        numbers = [await one.client.get_attribute(one.state.segment, writer) for one in found]
        state.skip_stored(writer, max(numbers), epoch)
        open_ones = [
            (one, number)
            for one, number in zip(found, numbers, strict=True)
            if not one.state.sealed
        ]
        if not open_ones:
            remedy = "the stream is sealed and takes no more: name another one"
            raise ConfigError("the stream to append to", [Mistake("uri", stream.uri, remedy)])
        segment, number = open_ones[writer.int % len(open_ones)]
        appender = await segment.client.set_up_writer(segment.state.segment, writer)
        if appender.durable != number:  # it was asked for just before
            raise TransientError(f"another attempt appends as writer {writer}")
        await _append_rest(appender, state)
    return state.counts


async def _append_rest(appender: AppendWriter, state: _State) -> None:
    """Append what waits, and then what is still to be made."""
    in_flight: deque[tuple[int, asyncio.Future[int]]] = deque()  # sizes and answers
    size = 0
    to_send = deque(state.waiting)
    while batch := to_send.popleft() if to_send else state.make_next():
        while in_flight and size + len(batch.data) > _WINDOW_BYTES:
            size -= await _next_stored(in_flight, state)
        stored = appender.append_data(batch.data, events=batch.events, number=batch.number)
        in_flight.append((len(batch.data), stored))
        size += len(batch.data)
        await asyncio.sleep(0)  # let it be sent while the next one is made
    while in_flight:
        await _next_stored(in_flight, state)


async def _next_stored(in_flight: deque[tuple[int, asyncio.Future[int]]], state: _State) -> int:
    """Wait until the oldest append is stored; return its size."""
    size, stored = in_flight.popleft()
    await stored
    state.on_stored(appended=True)
    return size
