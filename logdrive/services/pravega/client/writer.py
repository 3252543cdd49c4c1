"""The appending side of one writer on a connection: what is in flight, and what an answer says of
it.

It follows how Pravega wants to be appended to (docs/protocols/pravega.md#appending): one
AppendBlockEnd a batch; acknowledgements are cumulative; after each set-up the first append goes
alone, since a sealed segment answers a burst of them by closing; whatever was not acknowledged when
the connection ended is for the caller to send again, after a new set-up has told the durable
number.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from logdrive.errors import LogdriveError, TransientError
from logdrive.model.framing import Part
from logdrive.services.pravega.client.channel import RequestChannel
from logdrive.services.pravega.client.errors import WrongHostError
from logdrive.services.sink import NumberConflictError
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError
from logdrive.wire.pravega.appends import (
    AppendBlockEnd,
    ConditionalBlockEnd,
    ConditionalCheckFailed,
    DataAppended,
)
from logdrive.wire.pravega.control import (
    InvalidEventNumber,
    NoSuchSegment,
    SegmentIsSealed,
    WrongHost,
)
from logdrive.wire.pravega.layout import Message


class ConditionFailedError(LogdriveError):
    """The segment was not as long as a conditional append expected; nothing was stored."""


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """One append, never split: *message* carries *number*."""

    number: int
    message: Message
    stored: "asyncio.Future[int]"


class AppendWriter:
    """A writer on a connection.

    *durable* is its number at the set-up, then the last one acknowledged; *submitted* the last one
    given.

    One that is not *ready* waits for `start`, which tells that it was set up, before it sends
    anything.
    """

    def __init__(
        self, segment: str, writer: UUID, durable: int, link: RequestChannel, *, ready: bool = True
    ) -> None:
        self.segment, self.id, self.durable = segment, writer, durable
        self.submitted = durable
        self._link = link
        self._ready = ready
        self._first_is_through = False
        self._in_flight: deque[_Unit] = deque()
        self._held: deque[_Unit] = deque()
        self._over: LogdriveError | None = None

    @property
    def busy(self) -> bool:
        """Whether anything is not acknowledged."""
        return bool(self._in_flight or self._held)

    @property
    def over(self) -> bool:
        """Whether it takes nothing more."""
        return self._over is not None

    async def settled(self) -> None:
        """Return once nothing is in flight: what was submitted is acknowledged or has failed."""
        while self.busy:
            await asyncio.wait([(self._held or self._in_flight)[-1].stored])

    def start(self) -> None:
        """Send what was submitted meanwhile; the first goes alone."""
        self._ready = True
        if self._held:
            self._send(self._held.popleft())

    def append(
        self,
        data: bytes | Sequence[Part],
        *,
        events: int,
        number: int,
        expected_offset: int | None = None,
    ) -> "asyncio.Future[int]":
        """Submit one batch.

        The future ends with the segment's length once the batch is durable, or with why it never
        will be.

        With *expected_offset* it is stored only where the segment has that length
        (`ConditionFailedError`); wait for it then, for what follows a failed one fails too. Raises
        `NumberConflictError` where *number* does not grow, ValueError for more data than a frame
        holds, and what ended the writer or the connection once that has happened. How much is in
        flight is for the caller to bound.
        """
        if self._over is not None:
            raise self._over
        self._link.check()
        if number <= self.submitted:
            raise NumberConflictError(f"number {number} does not follow {self.submitted}")
        whole = data if isinstance(data, bytes) else b"".join(data)
        message: Message
        if expected_offset is None:
            message = AppendBlockEnd(
                self.id, len(whole), whole, events, number, self._link.next_id()
            )
        else:
            message = ConditionalBlockEnd(
                self.id, number, expected_offset, whole, self._link.next_id()
            )
        unit = _Unit(number, message, asyncio.get_running_loop().create_future())
        unit.stored.add_done_callback(_seen)
        if not self._ready or (self._in_flight and not self._first_is_through):
            self._held.append(unit)
        else:
            self._send(unit)
        self.submitted = number
        return unit.stored

    def _send(self, unit: _Unit) -> None:
        self._link.send(unit.message)
        self._in_flight.append(unit)

    def receive(self, message: Message) -> None:
        """Take an answer that concerns this writer. Raises ValueError where it makes no sense."""
        match message:
            case DataAppended():
                self._acknowledged(message)
            case ConditionalCheckFailed():
                self._check_failed(message)
            case InvalidEventNumber():
                self.end(
                    NumberConflictError(
                        f"the service has another number for writer {self.id}: set it up again"
                    )
                )
            case SegmentIsSealed():
                self.end(SegmentSealedError(self.segment))
            case NoSuchSegment():
                self.end(NoSuchSegmentError(self.segment))
            case WrongHost():
                self.end(WrongHostError(f"{self.segment} is at another segment store"))
            case _:
                self.end(TransientError(f"an append was answered by {type(message).__name__}"))

    def end(self, error: LogdriveError) -> None:
        """Fail all that is not acknowledged; the writer takes nothing more."""
        self._over = self._over or error
        for unit in (*self._in_flight, *self._held):
            if not unit.stored.done():
                unit.stored.set_exception(error)
        self._in_flight.clear()
        self._held.clear()

    def _acknowledged(self, message: DataAppended) -> None:
        number = message.event_number
        if message.previous_event_number >= number:
            raise ValueError(
                f"an acknowledgement of {number} after {message.previous_event_number}"
            )
        self._resolve(number, message.current_segment_write_offset)
        self._release()

    def _resolve(self, number: int, length: int) -> None:
        while self._in_flight and self._in_flight[0].number <= number:
            unit = self._in_flight.popleft()
            self.durable = unit.number
            if not unit.stored.done():
                unit.stored.set_result(length)

    def _check_failed(self, message: ConditionalCheckFailed) -> None:
        if not self._in_flight or self._in_flight[0].number != message.event_number:
            raise ValueError(
                f"a failed condition of append {message.event_number}, which is not the "
                "next to be answered"
            )
        unit = self._in_flight.popleft()
        if not unit.stored.done():
            unit.stored.set_exception(
                ConditionFailedError(f"{self.segment} was not of the expected length")
            )
        self._release()

    def _release(self) -> None:
        self._first_is_through = True
        while self._held:
            self._send(self._held.popleft())


def _seen(stored: "asyncio.Future[int]") -> None:
    """Take note of a failure that the caller does not wait for."""
    if not stored.cancelled():
        stored.exception()
