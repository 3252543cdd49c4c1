"""The client's side of one writer on one connection: its appends in flight and their answers.

It follows Pravega's rules for appends (docs/protocols/pravega.md#appending). Each batch is one
AppendBlockEnd. Acknowledgements are cumulative. After a set-up the first append is sent alone, and
the others once it is answered, because a server closes the connection when several appends meet a
sealed segment. When the connection ends, the caller sets the writer up again, which returns its
durable number, and repeats what was not acknowledged.

    waiting for the set-up --confirm_set_up--> first append alone --answered--> all appends
    any of these           --fail_all-------> ended
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
    """The segment's length was not what a conditional append expected; nothing was stored."""


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """One append: its writer's number, its message, and the future that its caller waits for."""

    number: int
    message: Message
    stored: "asyncio.Future[int]"


class AppendWriter:
    """A writer on a connection; `SegmentWriters` creates it.

    *durable* is the number that the service had at the set-up. With *ready* false the set-up is not
    answered yet: appends wait for `confirm_set_up`.
    """

    def __init__(
        self, segment: str, writer: UUID, durable: int, link: RequestChannel, *, ready: bool = True
    ) -> None:
        self.segment = segment
        self.id = writer
        # The last number that the service has acknowledged.
        self.durable = durable
        # The last number that was submitted.
        self.submitted = durable
        self._link = link
        # True once the set-up is answered.
        self._ready = ready
        # True once the first append after the set-up is answered.
        self._first_is_through = False
        # Appends that were sent, oldest first.
        self._in_flight: deque[_Unit] = deque()
        # Appends that wait for the set-up or the first append.
        self._held: deque[_Unit] = deque()
        # Why the writer takes no more appends.
        self._ended_by: LogdriveError | None = None

    @property
    def busy(self) -> bool:
        """True if there are appends without an answer."""
        return bool(self._in_flight or self._held)

    @property
    def ended(self) -> bool:
        """True if it takes no more appends."""
        return self._ended_by is not None

    async def wait_idle(self) -> None:
        """Wait until each submitted append is acknowledged or has failed."""
        while self.busy:
            await asyncio.wait([(self._held or self._in_flight)[-1].stored])

    def confirm_set_up(self) -> None:
        """Record that the set-up is answered, and send the first append that waited for it."""
        self._ready = True
        if self._held:
            self._send(self._held.popleft())

    def append_data(
        self,
        data: bytes | Sequence[Part],
        *,
        events: int,
        number: int,
        expected_offset: int | None = None,
    ) -> "asyncio.Future[int]":
        """Submit *data*, which holds *events* events, as one append with the writer's *number*.

        The future's result is the segment's length, once the append is durable; its exception is
        the reason why it was not stored. With *expected_offset* the append is stored only if the
        segment has that length, else it fails with `ConditionFailedError`. Wait for the future
        then, because appends behind a failed one fail, too.

        The caller limits how much is in flight. Raises `NumberConflictError` if *number* does not
        grow, ValueError if *data* is longer than a frame, and the reason why the writer or the
        connection has ended.
        """
        if self._ended_by is not None:
            raise self._ended_by
        self._link.raise_if_closed()
        if number <= self.submitted:
            raise NumberConflictError(f"number {number} does not follow {self.submitted}")
        whole = data if isinstance(data, bytes) else b"".join(data)
        message: Message
        if expected_offset is None:
            message = AppendBlockEnd(
                self.id, len(whole), whole, events, number, self._link.next_request_id()
            )
        else:
            message = ConditionalBlockEnd(
                self.id, number, expected_offset, whole, self._link.next_request_id()
            )
        unit = _Unit(number, message, asyncio.get_running_loop().create_future())
        unit.stored.add_done_callback(_seen)
        # the first append goes alone: see the theory of operation
        if not self._ready or (self._in_flight and not self._first_is_through):
            self._held.append(unit)
        else:
            self._send(unit)
        self.submitted = number
        return unit.stored

    def _send(self, unit: _Unit) -> None:
        self._link.send_message(unit.message)
        self._in_flight.append(unit)

    def on_append_answer(self, message: Message) -> None:
        """Act on an answer for this writer. Raises ValueError if the answer makes no sense."""
        match message:
            case DataAppended():
                self._on_acknowledged(message)
            case ConditionalCheckFailed():
                self._on_check_failed(message)
            case InvalidEventNumber():
                self.fail_all(
                    NumberConflictError(
                        f"the service has another number for writer {self.id}: set it up again"
                    )
                )
            case SegmentIsSealed():
                self.fail_all(SegmentSealedError(self.segment))
            case NoSuchSegment():
                self.fail_all(NoSuchSegmentError(self.segment))
            case WrongHost():
                self.fail_all(WrongHostError(f"{self.segment} is at another segment store"))
            case _:
                self.fail_all(TransientError(f"an append was answered by {type(message).__name__}"))

    def fail_all(self, error: LogdriveError) -> None:
        """Fail all appends without an answer with *error*; the writer takes no more appends."""
        self._ended_by = self._ended_by or error
        for unit in (*self._in_flight, *self._held):
            if not unit.stored.done():
                unit.stored.set_exception(error)
        self._in_flight.clear()
        self._held.clear()

    def _on_acknowledged(self, message: DataAppended) -> None:
        number = message.event_number
        if message.previous_event_number >= number:
            raise ValueError(
                f"an acknowledgement of {number} after {message.previous_event_number}"
            )
        self._resolve(number, message.current_segment_write_offset)
        self._release()  # this was the first append, or nothing is held

    def _resolve(self, number: int, length: int) -> None:
        while self._in_flight and self._in_flight[0].number <= number:
            unit = self._in_flight.popleft()
            self.durable = unit.number
            if not unit.stored.done():
                unit.stored.set_result(length)

    def _on_check_failed(self, message: ConditionalCheckFailed) -> None:
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
    """Retrieve the exception, or asyncio logs it if the caller does not wait for the future."""
    if not stored.cancelled():
        stored.exception()
