"""The append path of one connection (docs/protocols/pravega.md#appending).

Theory of operation:

- A client sets a writer up, gets its durable number, and sends appends with higher numbers.
- Each append is submitted to the store and queued with its future. Each other reply of this path
  (set-ups, refusals) is queued, too. The queue is answered from its front, so no acknowledgement
  overtakes another, and no error the appends before it.
- Appends that became durable together are acknowledged together: one DataAppended for each writer,
  with the number of its last append.

A writer of this connection, and what becomes of its appends:

| state | an append arrives | next state |
|---|---|---|
| set up | it is submitted | set up |
| | the store refuses it as conditional (another offset) | refused, until the reply is sent |
| | the store refuses it: segment sealed or missing | refused for good: later appends are dropped |
| | its number does not fit, or the writer is superseded | the connection ends with the reply |
| refused | InvalidEventNumber, the connection ends with it | - |
| refused for good | it is dropped | not set up, once the reply is sent |
| not set up | `OrderError`: the connection ends | - |
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.net.turns import Turns
from logdrive.services.pravega.server.segments.append_queue import (
    QUEUED_ITEM_BYTES,
    QueuedReply,
    SetUpWriter,
    SubmittedAppend,
    refuse_append,
    refuse_number,
)
from logdrive.services.pravega.server.segments.fencing import WriterFence
from logdrive.services.pravega.server.segments.turn import TURN_STEPS, ConnectionTurn
from logdrive.store.engine import Store
from logdrive.store.errors import (
    NoSuchSegmentError,
    NumberMismatchError,
    OffsetMismatchError,
    OverloadedError,
    SegmentSealedError,
)
from logdrive.wire.pravega.appends import AppendSetup, DataAppended, SetupAppend
from logdrive.wire.pravega.control import NoSuchSegment
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import (
    PRAVEGA_UNACKED_APPENDS,
    PRAVEGA_UNACKED_BYTES,
    PRAVEGA_WRITERS,
)
from logdrive.wire.pravega.reassembly import OrderError, WholeAppend

Send = Callable[[Sequence[Message]], Awaitable[None]]

_FORGOTTEN: Final = 2
"""Limit on the writers that are forgotten for a new one.

Forgetting one keeps their number the same. A second lowers it, where other connections have taken
claims meanwhile.
"""


class HangUpError(LogdriveError):
    """The connection must end now; every reply that the peer should get was sent."""


class Appender:
    """Serves the append messages of one connection.

    The connection's reader calls `set_up_writer`, `require_writer` and `submit_append`, and at the
    end `stop_accepting`. A task of its own runs `send_replies`.
    """

    def __init__(
        self,
        store: Store,
        fence: WriterFence,
        turns: Turns,
        *,
        unacked_bytes: int = PRAVEGA_UNACKED_BYTES,
        most_writers: int = PRAVEGA_WRITERS,
    ) -> None:
        self._store = store
        self._fence = fence
        self._max_bytes = unacked_bytes
        self._max_writers = most_writers
        # how long `send_replies` may run before other connections have their turn
        self._turn = ConnectionTurn(turns)
        # writers set up here, the one used least recently first
        self._writers: dict[UUID, SetUpWriter] = {}
        # everything not answered yet, in the order of the answers
        self._queue: deque[SubmittedAppend | QueuedReply] = deque()
        # bytes that the queue's items count together
        self._queued_bytes = 0
        # no more appends come: `send_replies` returns once the queue is empty
        self._stopped = False
        # set when there is something for `send_replies` to do
        self._more = asyncio.Event()
        # set when the queue has become shorter
        self._fewer = asyncio.Event()

    async def set_up_writer(self, request: SetupAppend) -> None:
        """Set a writer up: answer with its durable number, and accept its appends from now on.

        Appends for the writer from other connections are refused from now on (rule S2), so that
        number is final. Where there are too many writers, on this connection or in all, those of
        this connection that were used least recently are forgotten. A sealed segment is reported
        only for the first append.
        """
        await self._wait_for_queue_room(0)
        # before the number is read: appends of the former connection can't be submitted after it
        claim = self._fence.claim_writer(request.segment, request.writer)
        try:
            number = await self._store.number(request.segment, request.writer)
        except BaseException as error:
            self._fence.release_claim(claim)
            if not isinstance(error, NoSuchSegmentError):
                raise
            self._enqueue(QueuedReply(NoSuchSegment(request.request_id, request.segment)))
            return

        self._forget_writer(request.writer)
        for _ in range(_FORGOTTEN):
            if self._writers and len(self._writers) >= min(
                self._max_writers, self._fence.free_claims
            ):
                self._forget_writer(next(iter(self._writers)))
        self._writers[request.writer] = SetUpWriter(
            request.writer, request.segment, claim, number, number
        )
        self._enqueue(
            QueuedReply(AppendSetup(request.request_id, request.segment, request.writer, number))
        )

    def _forget_writer(self, writer: UUID) -> None:
        if (forgotten := self._writers.pop(writer, None)) is not None:
            self._fence.release_claim(forgotten.claim)

    def require_writer(self, writer: UUID) -> None:
        """Raise `OrderError` unless *writer* is set up; for the first part of an append, too."""
        if writer not in self._writers:
            raise OrderError(f"an append of a writer that is not set up: {writer}")

    async def submit_append(self, append: WholeAppend) -> None:
        """Submit *append* to the store, or queue the reply that refuses it.

        Waits while too many appends are not answered. Raises `OrderError` for a writer that is not
        set up and for a negative number, `HangUpError` where the store fails.
        """
        self.require_writer(append.writer)
        writer = self._writers.pop(append.writer)
        self._writers[append.writer] = writer  # now the most recently used
        if append.number < 0:
            raise OrderError(f"event number {append.number}")
        await self._wait_for_queue_room(len(append.data))

        # a refusal that forgets the writer is under way, or was sent meanwhile: what the client
        # sent behind the refused append fails with it
        if self._writers.get(append.writer) is not writer or (
            writer.refusal is not None and writer.refusal.forget
        ):
            return

        # out of order, or behind a refused append without which it must not be stored
        if writer.refusal is not None or append.number <= writer.submitted:
            self._enqueue(QueuedReply(refuse_number(append), writer, close=True))
        else:
            await self._submit(writer, append)

    async def _submit(self, writer: SetUpWriter, append: WholeAppend) -> None:
        while True:
            # another connection set the writer up, and was told its number (rule S2)
            if writer.claim.superseded:
                self._enqueue(QueuedReply(refuse_number(append), writer, close=True))
                return
            try:
                durable = self._store.append(
                    writer.segment,
                    append.data,
                    writer=writer.id,
                    expected=writer.submitted,
                    number=append.number,
                    events=append.events,
                    expected_offset=append.expected_offset,
                )
            except OverloadedError as error:
                await self._store.room(error.size)
            # the protocol has no reply for a store that closes, or an append over its limits
            except (TransientError, ValueError) as error:
                raise HangUpError(str(error)) from error
            except (
                NoSuchSegmentError,
                SegmentSealedError,
                NumberMismatchError,
                OffsetMismatchError,
            ) as error:
                if await self._wait_for_undecided(writer.segment):
                    continue  # decided now; what the client is told must be durable (rule D2)
                self._enqueue(refuse_append(writer, append, error))
                return
            else:
                writer.submitted = append.number
                self._enqueue(
                    SubmittedAppend(
                        writer, append.number, append.request_id, len(append.data), durable
                    )
                )
                return

    async def _wait_for_undecided(self, segment: str) -> bool:
        """Wait for a sealing or deletion of *segment* under way; return whether there was one."""
        try:
            return await self._store.wait_if_ending(segment)
        except (TransientError, StorageError) as error:
            raise HangUpError(str(error)) from error

    async def _wait_for_queue_room(self, size: int) -> None:
        """Wait until the queue has room for *size* bytes.

        It is full of appends that are not durable yet, or of replies that the client does not read.
        """
        while self._queue and (
            self._queued_bytes + size + QUEUED_ITEM_BYTES > self._max_bytes
            or len(self._queue) >= PRAVEGA_UNACKED_APPENDS
        ):
            self._fewer.clear()
            await self._fewer.wait()

    def _enqueue(self, item: SubmittedAppend | QueuedReply) -> None:
        if isinstance(item, QueuedReply) and item.refuses is not None:
            item.refuses.refusal = item
        self._queue.append(item)
        self._queued_bytes += item.cost
        self._more.set()

    # Answering -----------------------------------------------------------------------------------

    def stop_accepting(self) -> None:
        """Accept no more appends: `send_replies` returns once the queue is answered."""
        self._stopped = True
        for writer in list(self._writers):
            self._forget_writer(writer)
        self._more.set()

    async def send_replies(self, send: Send) -> None:
        """Answer the queue from its front until `stop_accepting`; *send* writes the replies.

        Raises `HangUpError` after a reply that ends the connection, or an append that failed.
        """
        while self._queue or not self._stopped:
            if not self._queue:
                self._more.clear()
                await self._more.wait()
                self._turn.restart_clock()
                continue
            front = self._queue[0]
            if isinstance(front, SubmittedAppend) and not front.durable.done():
                await asyncio.wait([front.durable])
                self._turn.restart_clock()
            del front  # else it keeps the append in memory while `send` waits
            replies, failure = self._take_answers()
            await send(replies)
            self._fewer.set()
            if failure is not None:
                raise failure
            if self._turn.is_over:
                await self._turn.next_turn()

    def _take_answers(self) -> tuple[list[Message], HangUpError | None]:
        """Take the replies that can be sent now off the queue, a turn's worth at most.

        Returns them, and the error to raise after they were sent.
        """
        replies: list[Message] = []
        acks: dict[UUID, SubmittedAppend] = {}
        for _ in range(min(TURN_STEPS, len(self._queue))):
            item = self._queue[0]
            if isinstance(item, SubmittedAppend):
                if not item.durable.done():
                    break
                error = item.durable.exception()
                if error is not None:
                    return replies + _acknowledged(acks), HangUpError(f"an append failed: {error}")
                acks[item.writer.id] = item  # one acknowledgement stands for those before it
            else:
                # the appends before it are acknowledged first
                replies += _acknowledged(acks)
                acks.clear()
                replies.append(item.message)
                if item.close:
                    return replies, HangUpError(type(item.message).__name__)
                self._on_reply_taken(item)
            self._queued_bytes -= self._queue.popleft().cost
            self._turn.count_step()
        return replies + _acknowledged(acks), None

    def _on_reply_taken(self, reply: QueuedReply) -> None:
        """End the refusal that *reply* reports, if any; its writer may have to be set up again."""
        writer = reply.refuses
        if writer is not None:
            writer.refusal = None
            if reply.forget and self._writers.get(writer.id) is writer:
                self._forget_writer(writer.id)


def _acknowledged(items: dict[UUID, SubmittedAppend]) -> list[Message]:
    """Return one DataAppended for each writer's last append."""
    acks: list[Message] = []
    for item in items.values():
        writer = item.writer
        acks.append(
            DataAppended(
                writer.id, item.number, writer.acknowledged, item.request_id, item.durable.result()
            )
        )
        writer.acknowledged = item.number
    return acks
