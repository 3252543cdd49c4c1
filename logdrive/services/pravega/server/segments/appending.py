"""The append path of one connection: set-ups, submissions, and acknowledgements in order
(specification, sections 2.3 to 2.9).

Everything submitted stands in one queue with its future, and so does every reply of this path; the
queue is answered from its front, so an acknowledgement never overtakes another, nor an error the
appends before it. What became durable together is acknowledged together: one DataAppended a writer,
naming the last.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.net.turns import Turns
from logdrive.services.pravega.server.segments.fencing import WriterClaim, WriterFence
from logdrive.services.pravega.server.segments.turn import TURN_STEPS, Turn
from logdrive.store.engine import Store
from logdrive.store.errors import (
    NoSuchSegmentError,
    NumberMismatchError,
    OffsetMismatchError,
    OverloadedError,
    SegmentSealedError,
)
from logdrive.wire.pravega.appends import (
    AppendSetup,
    ConditionalCheckFailed,
    DataAppended,
    SetupAppend,
)
from logdrive.wire.pravega.control import InvalidEventNumber, NoSuchSegment, SegmentIsSealed
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import (
    PRAVEGA_UNACKED_APPENDS,
    PRAVEGA_UNACKED_BYTES,
    PRAVEGA_WRITERS,
)
from logdrive.wire.pravega.reassembly import OrderError, WholeAppend

Send = Callable[[Sequence[Message]], Awaitable[None]]

_FORGOTTEN: Final = 2
"""So many writers make room for a new one at most: others may have taken more meanwhile than this
connection must have less.
"""
_TOLL: Final = 512
"""What an append or a reply counts beside its bytes: about what its objects take in memory."""


class HangUpError(LogdriveError):
    """The connection has to end now; what the peer should know was sent."""


@dataclass(slots=True, eq=False)
class _Writer:
    """A writer set up on this connection.

    *refusal* is the reply, still in the queue, that refuses one of its appends.
    """

    id: UUID
    segment: str
    claim: WriterClaim
    submitted: int
    acknowledged: int
    refusal: "_Reply | None" = None


@dataclass(slots=True, eq=False)
class _Submitted:
    """An append without its data, which is the store's now: it must not stay until the client reads
    its acknowledgement.
    """

    writer: _Writer
    number: int
    request_id: int
    size: int
    durable: asyncio.Future[int]

    @property
    def cost(self) -> int:
        return _TOLL + self.size


@dataclass(slots=True, eq=False)
class _Reply:
    """*refuses* is the writer whose append it refuses; *forget*: it must be set up again; *close*:
    the connection ends with it.
    """

    message: Message
    refuses: _Writer | None = None
    forget: bool = False
    close: bool = False

    @property
    def cost(self) -> int:
        return _TOLL + len(getattr(self.message, "segment", ""))


class Appender:
    """Serves the append messages of one connection.

    `acknowledge` runs beside whoever calls the rest.
    """

    def __init__(
        self,
        store: Store,
        claims: WriterFence,
        turns: Turns,
        *,
        unacked_bytes: int = PRAVEGA_UNACKED_BYTES,
        most_writers: int = PRAVEGA_WRITERS,
    ) -> None:
        self._store, self._claims, self._limit, self._most_writers = (
            store,
            claims,
            unacked_bytes,
            most_writers,
        )
        self._turn = Turn(turns)  # of `acknowledge`
        self._writers: dict[UUID, _Writer] = {}
        self._queue: deque[_Submitted | _Reply] = deque()
        self._unacked = 0
        self._ended = False
        self._more, self._fewer = asyncio.Event(), asyncio.Event()

    async def set_up(self, request: SetupAppend) -> None:
        """Answer with the writer's durable number, and take its appends from now on.

        A sealed segment shows only at the first of them.

        Nobody else's appends for that writer are taken any more, so the number is the last word. Of
        the writers of one connection the one not used for longest is forgotten where there are too
        many, here or over all connections.
        """
        await self._room(0)
        claim = self._claims.take(request.segment, request.writer)
        try:
            number = await self._store.number(request.segment, request.writer)
        except BaseException as error:
            self._claims.release(claim)
            if not isinstance(error, NoSuchSegmentError):
                raise
            self._put(_Reply(NoSuchSegment(request.request_id, request.segment)))
            return
        self._forget(request.writer)
        for _ in range(_FORGOTTEN):
            if self._writers and len(self._writers) >= min(self._most_writers, self._claims.left):
                self._forget(next(iter(self._writers)))
        self._writers[request.writer] = _Writer(
            request.writer, request.segment, claim, number, number
        )
        self._put(_Reply(AppendSetup(request.request_id, request.segment, request.writer, number)))

    def _forget(self, writer: UUID) -> None:
        if (found := self._writers.pop(writer, None)) is not None:
            self._claims.release(found.claim)

    def check(self, writer: UUID) -> None:
        """Raise `OrderError` where *writer* is not set up: its appends are not taken, nor the first
        part of one.
        """
        if writer not in self._writers:
            raise OrderError(f"an append of a writer that is not set up: {writer}")

    async def append(self, append: WholeAppend) -> None:
        """Submit, or queue the reason why not; waits while too much is not durable.

        Raises `OrderError`, `HangUpError`.
        """
        self.check(append.writer)
        writer = self._writers.pop(append.writer)
        self._writers[append.writer] = writer  # the last one used
        if append.number < 0:
            raise OrderError(f"event number {append.number}")
        await self._room(len(append.data))
        if self._writers.get(append.writer) is not writer or (
            writer.refusal is not None and writer.refusal.forget
        ):
            return  # all that was sent behind a refused append fails with it
        if writer.refusal is not None or append.number <= writer.submitted:
            self._put(_Reply(_invalid(append), writer, close=True))
        else:
            await self._submit(writer, append)

    async def _submit(self, writer: _Writer, append: WholeAppend) -> None:
        while True:
            if writer.claim.lost:
                self._put(_Reply(_invalid(append), writer, close=True))
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
            except (TransientError, ValueError) as error:
                raise HangUpError(str(error)) from error
            except (
                NoSuchSegmentError,
                SegmentSealedError,
                NumberMismatchError,
                OffsetMismatchError,
            ) as error:
                if await self._undecided(writer.segment):
                    continue
                self._put(_refusal(writer, append, error))
                return
            else:
                writer.submitted = append.number
                self._put(
                    _Submitted(writer, append.number, append.request_id, len(append.data), durable)
                )
                return

    async def _undecided(self, segment: str) -> bool:
        """Wait for the end of *segment*, if one is under way, and tell whether there was one: it
        may have failed.
        """
        try:
            return await self._store.wait_if_ending(segment)
        except (TransientError, StorageError) as error:
            raise HangUpError(str(error)) from error

    async def _room(self, size: int) -> None:
        """Wait while too much is not answered, be it that it is not durable or that the client does
        not read.
        """
        while self._queue and (
            self._unacked + size + _TOLL > self._limit
            or len(self._queue) >= PRAVEGA_UNACKED_APPENDS
        ):
            self._fewer.clear()
            await self._fewer.wait()

    def _put(self, item: _Submitted | _Reply) -> None:
        if isinstance(item, _Reply) and item.refuses is not None:
            item.refuses.refusal = item
        self._queue.append(item)
        self._unacked += item.cost
        self._more.set()

    # Answering -----------------------------------------------------------------------------------

    def end(self) -> None:
        """Take nothing more: `acknowledge` returns once all is answered."""
        self._ended = True
        for writer in list(self._writers):
            self._forget(writer)
        self._more.set()

    async def acknowledge(self, send: Send) -> None:
        """Answer the queue from its front until `end`.

        Raises `HangUpError` after a reply that closes, or a failed append.
        """
        while self._queue or not self._ended:
            if not self._queue:
                self._more.clear()
                await self._more.wait()
                self._turn.resume()
                continue
            front = self._queue[0]
            if isinstance(front, _Submitted) and not front.durable.done():
                await asyncio.wait([front.durable])
                self._turn.resume()
            del front  # with the bytes that were appended
            replies, failure = self._settled()
            await send(replies)
            self._fewer.set()
            if failure is not None:
                raise failure
            if self._turn.over:
                await self._turn.next()

    def _settled(self) -> tuple[list[Message], HangUpError | None]:
        """Take from the queue what can be answered now, a turn's worth at most."""
        replies: list[Message] = []
        acks: dict[UUID, _Submitted] = {}
        for _ in range(min(TURN_STEPS, len(self._queue))):
            item = self._queue[0]
            if isinstance(item, _Submitted):
                if not item.durable.done():
                    break
                error = item.durable.exception()
                if error is not None:
                    return replies + _acknowledged(acks), HangUpError(f"an append failed: {error}")
                acks[item.writer.id] = item
            else:
                replies += _acknowledged(acks)
                acks.clear()
                replies.append(item.message)
                if item.close:
                    return replies, HangUpError(type(item.message).__name__)
                self._told(item)
            self._unacked -= self._queue.popleft().cost
            self._turn.step()
        return replies + _acknowledged(acks), None

    def _told(self, reply: _Reply) -> None:
        writer = reply.refuses
        if writer is not None:
            writer.refusal = None
            if reply.forget and self._writers.get(writer.id) is writer:
                self._forget(writer.id)


def _acknowledged(items: dict[UUID, _Submitted]) -> list[Message]:
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


def _invalid(append: WholeAppend) -> InvalidEventNumber:
    return InvalidEventNumber(append.writer, append.request_id, "", append.number)


def _refusal(writer: _Writer, append: WholeAppend, error: Exception) -> _Reply:
    match error:
        case SegmentSealedError():
            return _Reply(
                SegmentIsSealed(append.request_id, writer.segment, "", append.number),
                writer,
                forget=True,
            )
        case NoSuchSegmentError():
            return _Reply(NoSuchSegment(append.request_id, writer.segment), writer, forget=True)
        case OffsetMismatchError():
            return _Reply(
                ConditionalCheckFailed(writer.id, append.number, append.request_id), writer
            )
        case _:
            return _Reply(_invalid(append), writer, close=True)
