"""One client of the Pravega face: reads its messages, answers in three manners.

Appends go through `Appender`, which answers in their order. Reads at the tail wait in `LongPolls`
and block nobody. Everything else is answered where it stands. A message is read from the store only
when it is its turn to be written, so a client that does not read its socket costs one answer's
memory, and is read from no more itself. Each of the three takes turns with all other connections,
so that a client with many messages keeps nobody waiting for long.
"""

import asyncio
import traceback
from collections.abc import Sequence
from typing import Final

import structlog

from logdrive.errors import LogdriveError, ProtocolError
from logdrive.model.units import KIB
from logdrive.net.stream import ByteStream
from logdrive.services.auth.gate import TokenVerifier
from logdrive.services.pravega.server.segments.appending import Appender, HangUpError
from logdrive.services.pravega.server.segments.authorization import Guard
from logdrive.services.pravega.server.segments.dispatch import Request, answer
from logdrive.services.pravega.server.segments.polling import LongPolls
from logdrive.services.pravega.server.segments.reading import Reading
from logdrive.services.pravega.server.segments.reserved import changed_by
from logdrive.services.pravega.server.segments.shared import Shared
from logdrive.services.pravega.server.segments.tables import TableQuestion
from logdrive.services.pravega.server.segments.turn import Turn
from logdrive.wire.pravega.administration import FlushToStorage, ListStorageChunks
from logdrive.wire.pravega.appends import (
    AppendBlock,
    AppendBlockEnd,
    ConditionalAppend,
    ConditionalBlockEnd,
    Padding,
    SetupAppend,
)
from logdrive.wire.pravega.codec import MessageReader, encode
from logdrive.wire.pravega.control import (
    OLDEST_COMPATIBLE,
    TOKEN_EXPIRED,
    WIRE_VERSION,
    Hello,
    KeepAlive,
    OperationUnsupported,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import PRAVEGA_TAIL_READS
from logdrive.wire.pravega.reassembly import Assembler
from logdrive.wire.pravega.segments import (
    CreateTransientSegment,
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    ReadSegment,
    SegmentCreated,
)
from logdrive.wire.pravega.tables import (
    RemoveTableKeys,
    TableEntriesUpdated,
    TableKeysRemoved,
    UpdateTableEntries,
)

_log = structlog.get_logger("logdrive.store.pravega")

_ANSWERED_AT_ONCE = KeepAlive | GetStreamSegmentInfo | GetSegmentAttribute
"""What never waits, neither for the disk nor for anybody."""

_LARGE: Final = 64 * KIB
"""Messages and answers that are smaller are not counted while they are dealt with."""

AppendMessage = AppendBlock | AppendBlockEnd | ConditionalAppend | ConditionalBlockEnd


class SegmentConnection:
    """Serves one stream from Hello to the end of it. Without *gate* nobody is asked for a token."""

    def __init__(
        self,
        shared: Shared,
        stream: ByteStream,
        poll_seconds: float,
        gate: TokenVerifier | None = None,
    ) -> None:
        self._shared, self._stream = shared, stream
        self._frames, self._assembler = MessageReader(), Assembler()
        self._appending = Appender(shared.store, shared.claims, shared.turns)
        self._polling = LongPolls(shared.store, poll_seconds, Turn(shared.turns))
        self._guard = Guard(gate, stream.peer.address, self.stop)
        self._transients: list[str] = []
        self._answers: list[Message] = []  # to be sent together, a turn's at most
        self._writing = asyncio.Lock()
        self._memory = shared.memory.holding(self._evict)
        self._reading: asyncio.Task[None] | None = None
        self._polls: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Read no further: what was submitted is still acknowledged, then the connection ends."""
        if self._reading is not None:
            self._reading.cancel()

    def abort(self) -> None:
        """End at once."""
        self._stream.abort()

    def _evict(self, reason: str) -> None:
        _log.info("connection closed", peer=self._stream.peer.address, reason=reason)
        self.abort()
        self.stop()  # it may wait for memory

    async def run(self) -> None:
        """Serve until either side ends it. Failures of the peer end here, in one line of log."""
        self._shared.transients.sweep()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(
                    self._appending.acknowledge(self._send), name="pravega-acknowledge"
                )
                self._reading = tasks.create_task(self._read(tasks), name="pravega-read")
                await asyncio.wait([self._reading])
                self._polling.end()
                self._appending.end()
        except* LogdriveError as failures:
            _log.info("connection ended", peer=self._stream.peer.address, reason=_first(failures))
            _clear_frames(failures)
        finally:
            self._let_go()
            self._guard.close()
            self._shared.transients.leave(self._transients)
            await self._stream.close()

    async def _read(self, tasks: asyncio.TaskGroup) -> None:
        turn = Turn(self._shared.turns)
        try:
            while await self._read_once(turn, tasks):
                self._memory.hold(self._frames.buffered + self._assembler.buffered)
        except LogdriveError:
            await self._send_answers()
            raise

    async def _read_once(self, turn: Turn, tasks: asyncio.TaskGroup) -> bool:
        """Read once and serve the messages that are whole; False at the end.

        Nothing of them is kept in between.
        """
        await self._memory.admit()
        self._memory.reads()
        try:
            data = await self._stream.read()
        finally:
            self._memory.has_read()
        turn.resume()
        for message in self._frames.feed(data):
            if turn.over:
                await self._send_answers()
                await turn.next()
            turn.step()
            if self._frames.taken >= _LARGE:
                self._memory.hold(
                    self._assembler.buffered, busy=self._frames.buffered + self._frames.taken
                )
            self._assembler.check(message)
            if not isinstance(message, _ANSWERED_AT_ONCE):
                await self._send_answers()  # what comes now may wait
            await self._serve(message, tasks)
        await self._send_answers()
        return bool(data)

    async def _serve(self, message: Message, tasks: asyncio.TaskGroup) -> None:
        """Do what *message* asks. Answers that need no waiting are left in `_answers`."""
        if (refusal := self._guard.refusal(message)) is not None:
            self._answers.append(refusal)
            if isinstance(message, SetupAppend) and refusal.error_code == TOKEN_EXPIRED:
                raise HangUpError("a set-up with a token that has ended")
            return
        if isinstance(message, AppendMessage):
            await self._append(message)
            return
        if (own := changed_by(message)) is not None:
            raise HangUpError(f"a {type(message).__name__} of {own}, which is the store's own")
        match message:
            case ReadSegment():
                await self._read_segment(message, tasks)
            case SetupAppend():
                await self._appending.set_up(message)
            case KeepAlive():
                self._answers.append(message)
            case Padding():
                pass
            case Hello():
                await self._greet(message)
            case FlushToStorage() | ListStorageChunks():
                await self._send([OperationUnsupported(message.request_id, type(message).__name__)])
            case _ if isinstance(message, Request):
                await self._answer(message)
            case _:
                raise ProtocolError(
                    f"a {type(message).__name__}, which only servers send",
                    offset=self._frames.offset,
                )

    async def _answer(self, request: Request) -> None:
        if isinstance(request, _ANSWERED_AT_ONCE):
            self._answers.append(await answer(self._shared, request))
            return
        if isinstance(request, TableQuestion):
            await self._memory.admit()
        reply = await answer(self._shared, request)
        if isinstance(request, CreateTransientSegment) and isinstance(reply, SegmentCreated):
            self._transients.append(reply.segment)
        await self._send([reply])
        if isinstance(reply, TableEntriesUpdated | TableKeysRemoved) and isinstance(
            request, UpdateTableEntries | RemoveTableKeys
        ):
            self._shared.compacting.consider(request.segment)

    async def _greet(self, hello: Hello) -> None:
        await self._send([Hello()])
        if hello.low > WIRE_VERSION or hello.high < OLDEST_COMPATIBLE:
            raise HangUpError(f"the peer speaks wire versions {hello.low} to {hello.high}")

    async def _append(self, message: AppendMessage) -> None:
        if isinstance(message, AppendBlock):
            self._appending.check(message.writer)
        append = self._assembler.take(message)
        if append is not None:
            await self._appending.append(append)

    async def _read_segment(self, request: ReadSegment, tasks: asyncio.TaskGroup) -> None:
        reading = Reading(self._shared.store, request)
        await self._memory.admit()
        async with self._writing:
            reply = reading.now()
            if reply is None and len(self._polling) >= PRAVEGA_TAIL_READS:
                reply = reading.waited()
            if reply is not None:
                await self._write([reply])
                return
        self._polling.add(reading)
        if self._polls is None:
            self._polls = tasks.create_task(
                self._polling.run(self._answer_poll), name="pravega-polls"
            )

    async def _answer_poll(self, reading: Reading) -> None:
        await self._memory.admit()
        async with self._writing:
            await self._write([reading.waited()])

    async def _send_answers(self) -> None:
        if self._answers:
            answers, self._answers = self._answers, []
            await self._send(answers)

    async def _send(self, messages: Sequence[Message]) -> None:
        if messages:
            async with self._writing:
                await self._write(messages)

    async def _write(self, messages: Sequence[Message]) -> None:
        try:
            parts = [
                part for message in messages for part in encode(message, self._frames.peer_version)
            ]
        # as long as a request may be, its answer can be longer than a frame
        except ValueError as error:
            raise HangUpError(str(error)) from error
        size = sum(map(len, parts))
        with self._memory.writing(size if size >= _LARGE else 0):
            await self._stream.write(parts)

    def _let_go(self) -> None:
        """Give back the memory at the end; what refers to itself would keep it until the next
        garbage collection.
        """
        self._appending.end()  # also where it failed: its claims count for all connections
        self._memory.close()
        self._frames, self._assembler = MessageReader(), Assembler()
        self._reading = self._polls = None


def _first(failures: BaseExceptionGroup[BaseException]) -> str:
    """Return the text of the failure that came first; the others follow from it."""
    error = failures.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else str(error)


def _clear_frames(failures: BaseExceptionGroup[BaseException]) -> None:
    """Let the calls that failed forget their variables: a traceback would keep whole messages."""
    for error in failures.exceptions:
        if isinstance(error, BaseExceptionGroup):
            _clear_frames(error)
        else:
            traceback.clear_frames(error.__traceback__)
