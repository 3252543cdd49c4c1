"""Sends to one partition: order, de-duplication, and acknowledgements.

A send goes through two queues, both in the order of `submit`. In *waiting* it is not decided. It is
then handed to the store, as one append or several, and goes to *decided*. From there it is answered
once it is durable and everything before it is answered. What was a duplicate of a message that is
not durable yet fails if that one fails.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import uuid5

from logdrive.errors import LogdriveError, TransientError
from logdrive.host.clock import Clock
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.identity import NAMESPACE
from logdrive.services.iggy.server.log.failures import as_iggy_error
from logdrive.services.iggy.server.log.known_ids import Deduplication, KnownIds, read_known_ids
from logdrive.services.numbering.appends import EncodedAppend, OwnAppend
from logdrive.services.numbering.decisions import DecisionQueue, Wait
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.store.engine import Store
from logdrive.store.errors import OverloadedError
from logdrive.store.limits import StoreLimits
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.messages.batches import SentBatch

APPEND_BYTES: Final = StoreLimits().entry
"""Bytes of one append to the store; a send that is longer becomes several."""
_LATEST_US: Final = 999
"""What a time in ms may be later by, in µs: a message's time is never before its append."""


def message_time_us(time_ms: int) -> int:
    """Return the time of messages (µs since 1970) that were appended at *time_ms*."""
    return time_ms * 1000 + _LATEST_US


class DurableSend(NamedTuple):
    """A send that is durable: *messages* from *first_offset* on; None: all were duplicates.

    Others may have come between them where a send was longer than an append. *time_us* is their
    time (µs since 1970).
    """

    first_offset: int | None
    messages: int
    time_us: int


@dataclass(slots=True, eq=False)
class _Send:
    """One send; *answer* is the submitter's future, who may have cancelled it."""

    batch: SentBatch
    answer: "asyncio.Future[DurableSend]"
    # what is to be handed to the store, once that is known, and what was
    pieces: deque[EncodedAppend] | None = None
    own: list[OwnAppend] = field(default_factory=list)
    # an append before it that may have a message of which this send has a duplicate
    rests_on: OwnAppend | None = None
    time_ms: int = 0

    def failure(self) -> LogdriveError | None:
        """Return why it failed, if it has."""
        rest = [] if self.rests_on is None else [self.rests_on]
        return next((own.error for own in (*rest, *self.own) if own.error is not None), None)

    @property
    def is_settled(self) -> bool:
        """Whether everything that it needs is durable, if nothing failed."""
        return all(own.is_settled for own in self.own) and (
            self.rests_on is None or self.rests_on.is_settled
        )

    def reject(self, error: LogdriveError) -> None:
        """Tell the submitter that the send failed."""
        if not self.answer.done():
            self.answer.set_exception(as_iggy_error(error))
            self.answer.exception()  # no warning if the submitter dropped the future


class PartitionAppender:
    """The sends to the segment *numbered*; `answer` is to be called when some may be settled."""

    def __init__(
        self,
        store: Store,
        numbered: NumberedSegment,
        *,
        clock: Clock,
        deduplication: Deduplication | None,
        append_bytes: int = APPEND_BYTES,
    ) -> None:
        self._store = store
        self._numbered = numbered
        self._clock = clock
        self._deduplication = deduplication
        self._append_bytes = append_bytes
        self._writer = uuid5(NAMESPACE, f"iggy {numbered.segment}")
        # not answered yet
        self._decided: deque[_Send] = deque()
        # None until a send with ids needs them, and after a failure
        self._known: KnownIds | None = None
        self._waiting: DecisionQueue[_Send] = DecisionQueue(
            f"iggy append {numbered.segment}",
            decide=self._decide,
            decided=self._decided.append,
            refused=self._refuse,
            idle=self.answer,
        )
        self._closed = False

    @property
    def is_idle(self) -> bool:
        """Whether everything that was submitted is answered."""
        return self._waiting.is_empty and not self._decided

    def submit(self, batch: SentBatch) -> "asyncio.Future[DurableSend]":
        """Submit *batch*; see `PartitionLog.submit`."""
        if batch.longest + EVENT_HEAD > self._append_bytes:
            most = self._append_bytes - EVENT_HEAD
            raise IggyError(
                Reason.PAYLOAD_TOO_BIG,
                f"a message of {batch.longest} bytes: the store takes {most}",
            )
        if self._closed:
            raise IggyError(Reason.CANNOT_APPEND, "the partition was closed")
        answer: asyncio.Future[DurableSend] = asyncio.get_running_loop().create_future()
        self._waiting.put(_Send(batch, answer))
        return answer

    def forget_ids(self) -> None:
        """Know no ids any more but those of messages that are there: some were deleted."""
        self._known = None

    async def close(self) -> None:
        """Accept nothing more, and return once everything is answered."""
        self._closed = True
        while not self.is_idle:
            await self._waiting.join()
            await self._answer_decided()

    # Deciding ------------------------------------------------------------------------------------

    def _refuse(self, send: _Send, error: LogdriveError) -> None:
        if send.pieces is not None:  # ids are known that may not be stored
            self._known = None
        send.reject(error)

    def _decide(self, send: _Send) -> Wait | None:
        """Hand the send to the store; return what it has to wait for, if it can't be yet.

        Raises `LogdriveError` if it is refused.
        """
        if self._numbered.settle():
            return self._numbered.sync
        failure = send.failure()
        if failure is not None:
            raise failure
        if self._numbered.ends_within_event():
            raise TransientError("another writer has written a part of a message")
        if send.pieces is None:
            if self._known is None and self._deduplication is not None and send.batch.chosen:
                return self._read_known_ids
            send.time_ms = self._clock.now_ms()
            send.pieces = deque(_split(self._sift(send), send.time_ms, self._append_bytes))
        while send.pieces:
            try:
                own = self._numbered.submit(
                    send.pieces[0], writer=self._writer, time_ms=send.time_ms
                )
            except OverloadedError as error:
                size = error.size
                return lambda: self._store.room(size)
            send.own.append(own)
            send.pieces.popleft()
        return None

    async def _read_known_ids(self) -> None:
        assert self._deduplication is not None
        await self._answer_decided()  # so that what they have is there to be read
        await self._numbered.sync()
        self._known = await read_known_ids(
            self._store, self._numbered, self._deduplication, self._clock.now_ms()
        )

    def _sift(self, send: _Send) -> SentBatch:
        """Return the messages of *send* that are no duplicates."""
        batch, known = send.batch, self._known
        if known is None:
            return batch
        ids = batch.ids
        if ids is None:
            known.pass_by(batch.count)
            return batch
        keep = known.sift(ids, send.time_ms)
        if len(keep) == batch.count:
            return batch
        before = [own for earlier in self._decided for own in earlier.own]
        send.rests_on = before[-1] if before else None
        return batch.select(keep)

    # Answering -----------------------------------------------------------------------------------

    async def _answer_decided(self) -> None:
        """Return once everything that is decided now is answered."""
        while self._decided:
            stored = [own.stored for send in self._decided for own in send.own]
            if stored:
                await asyncio.wait(stored)
            try:
                await self._numbered.sync()
            except LogdriveError as error:
                while self._decided:
                    self._decided.popleft().reject(error)

    def answer(self) -> None:
        """Answer what is settled, in order."""
        decided = self._decided
        while decided:
            send = decided[0]
            failure = send.failure()
            if failure is not None:
                self._known = None
                decided.popleft().reject(failure)
                continue
            if not send.is_settled:
                return
            decided.popleft()
            if not send.answer.done():
                send.answer.set_result(_appended(send))


def _appended(send: _Send) -> DurableSend:
    first = send.own[0].first if send.own else None
    return DurableSend(
        None if first is None else first.seq_num,
        sum(own.append.count for own in send.own),
        message_time_us(send.time_ms),
    )


def _split(batch: SentBatch, time_ms: int, limit: int) -> list[EncodedAppend]:
    """Return *batch* as appends of up to *limit* bytes, split between messages."""
    if not batch.count:
        return []
    return [
        EncodedAppend(piece.events, piece.count, time_ms, time_ms) for piece in batch.split(limit)
    ]
