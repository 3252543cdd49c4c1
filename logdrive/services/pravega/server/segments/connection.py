"""One connection of the segment store: reads its messages and answers them.

Messages are answered in three ways:

- appends by `Appender`, in their order;
- reads at the tail by `LongPolls`, once there is data;
- everything else at once, before the next message is read.

Data is read from the store only when its answer is the next to be written. So a client that does
not read its socket takes the memory of one answer, and no more messages are read from it. Each of
the three takes turns with all other connections: a client with many messages does not delay others
for long.
"""

import asyncio
import traceback
from collections.abc import Sequence
from typing import Final

import structlog

from logdrive.errors import LogdriveError, ProtocolError
from logdrive.host.transport import ByteStream
from logdrive.model.units import KIB
from logdrive.services.auth.token_verifier import TokenVerifier
from logdrive.services.pravega.server.segments.appending import Appender, HangUpError
from logdrive.services.pravega.server.segments.authorization import RequestAuthorization
from logdrive.services.pravega.server.segments.dispatch import Request, answer_request
from logdrive.services.pravega.server.segments.polling import LongPolls
from logdrive.services.pravega.server.segments.reading import PendingRead
from logdrive.services.pravega.server.segments.reserved import reserved_segment_changed_by
from logdrive.services.pravega.server.segments.shared import SharedState
from logdrive.services.pravega.server.segments.tables import TableQuestion
from logdrive.services.pravega.server.segments.turn import ConnectionTurn
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
from logdrive.wire.pravega.own import LocateAppends
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
"""Messages whose answer waits neither for the disk nor for another task."""

_LARGE_BYTES: Final = 64 * KIB
"""Messages and answers smaller than this are not counted as memory while they are processed."""

AppendMessage = AppendBlock | AppendBlockEnd | ConditionalAppend | ConditionalBlockEnd


class SegmentConnection:
    """Serves one connection: `run` once; `stop` or `abort` end it.

    *poll_seconds* is how long a read at the tail waits. Without *verifier* requests need no token.
    """

    def __init__(
        self,
        shared: SharedState,
        stream: ByteStream,
        poll_seconds: float,
        verifier: TokenVerifier | None = None,
    ) -> None:
        self._shared = shared
        self._stream = stream
        # bytes to messages
        self._frames = MessageReader()
        # messages to whole appends
        self._assembler = Assembler()
        self._appender = Appender(shared.store, shared.writer_fence, shared.turns)
        self._long_polls = LongPolls(shared.store, poll_seconds, ConnectionTurn(shared.turns))
        self._authorization = RequestAuthorization(verifier, stream.peer.address, self.stop)
        # transient segments created on this connection
        self._transients: list[str] = []
        # to be sent together, those of one turn at most
        self._answers: list[Message] = []
        # one task at a time writes
        self._writing = asyncio.Lock()
        self._memory = shared.memory.open_allocation(self._evict)
        self._read_task: asyncio.Task[None] | None = None
        # begun with the first read that waits
        self._poll_task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Read no further: what was submitted is acknowledged, then the connection ends."""
        if self._read_task is not None:
            self._read_task.cancel()

    def abort(self) -> None:
        """End the connection at once, without answering what is pending."""
        self._stream.abort()

    def _evict(self, reason: str) -> None:
        _log.info("connection closed", peer=self._stream.peer.address, reason=reason)
        self.abort()
        self.stop()  # the reader may wait for memory, not for the stream

    async def run(self) -> None:
        """Serve until either side ends the connection; the peer's errors are logged, not raised."""
        self._shared.transients.delete_expired()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(
                    self._appender.send_replies(self._send), name="pravega-acknowledge"
                )
                self._read_task = tasks.create_task(self._read(tasks), name="pravega-read")
                # it ends at the end of the stream, after an error, or when `stop` cancels it
                await asyncio.wait([self._read_task])
                self._long_polls.stop_polling()
                self._appender.stop_accepting()
        except* LogdriveError as failures:
            _log.info(
                "connection ended", peer=self._stream.peer.address, reason=_first_reason(failures)
            )
            _clear_frames(failures)
        finally:
            self._release()
            self._authorization.close()
            self._shared.transients.on_connection_closed(self._transients)
            await self._stream.close()

    async def _read(self, tasks: asyncio.TaskGroup) -> None:
        turn = ConnectionTurn(self._shared.turns)
        try:
            while await self._read_once(turn, tasks):
                self._memory.set_unfinished(
                    self._frames.buffered_bytes + self._assembler.buffered_bytes
                )
        except LogdriveError:
            await self._send_answers()  # to what came before the message that failed
            raise

    async def _read_once(self, turn: ConnectionTurn, tasks: asyncio.TaskGroup) -> bool:
        """Read once and serve the messages that are whole; return False at the stream's end.

        No message stays in memory until the next read.
        """
        await self._memory.wait_until_admitted()
        self._memory.on_read_started()
        try:
            data = await self._stream.read()
        finally:
            self._memory.on_read_ended()
        turn.restart_clock()

        for message in self._frames.receive_data(data):
            if turn.is_over:
                await self._send_answers()
                await turn.next_turn()
            turn.count_step()
            # a long message takes memory until it is served, whatever the peer does
            if self._frames.message_bytes >= _LARGE_BYTES:
                self._memory.set_unfinished(
                    self._assembler.buffered_bytes,
                    busy=self._frames.buffered_bytes + self._frames.message_bytes,
                )
            self._assembler.check_order(message)
            if not isinstance(message, _ANSWERED_AT_ONCE):
                await self._send_answers()  # the answer to this one may wait
            await self._serve(message, tasks)
        await self._send_answers()
        return bool(data)

    async def _serve(self, message: Message, tasks: asyncio.TaskGroup) -> None:
        """Serve *message*; an answer that waits for nothing is added to `_answers`."""
        if (refusal := self._authorization.refuse_if_unauthorized(message)) is not None:
            self._answers.append(refusal)
            # as at a Pravega: the client connects anew, with a new token
            if isinstance(message, SetupAppend) and refusal.error_code == TOKEN_EXPIRED:
                raise HangUpError("a set-up with an expired token")
            return

        if isinstance(message, AppendMessage):
            await self._append(message)
            return

        # after appends, which need a set-up: that of a reserved segment is refused here
        if (own := reserved_segment_changed_by(message)) is not None:
            raise HangUpError(f"a {type(message).__name__} of {own}, which clients only read")

        match message:
            case ReadSegment():
                await self._read_segment(message, tasks)
            case SetupAppend():
                await self._appender.set_up_writer(message)
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
            self._answers.append(await answer_request(self._shared, request))
            return
        if isinstance(request, TableQuestion | LocateAppends):
            await self._memory.wait_until_admitted()  # its answer may be megabytes
        reply = await answer_request(self._shared, request)
        if isinstance(request, CreateTransientSegment) and isinstance(reply, SegmentCreated):
            self._transients.append(reply.segment)
        await self._send([reply])

        if isinstance(reply, TableEntriesUpdated | TableKeysRemoved) and isinstance(
            request, UpdateTableEntries | RemoveTableKeys
        ):
            self._shared.compactor.compact_if_due(request.segment)

    async def _greet(self, hello: Hello) -> None:
        await self._send([Hello()])
        if hello.low > WIRE_VERSION or hello.high < OLDEST_COMPATIBLE:
            raise HangUpError(f"the peer speaks wire versions {hello.low} to {hello.high}")

    async def _append(self, message: AppendMessage) -> None:
        if isinstance(message, AppendBlock):  # refused before its data is kept in memory
            self._appender.require_writer(message.writer)
        append = self._assembler.receive_append(message)
        if append is not None:
            await self._appender.submit_append(append)

    async def _read_segment(self, request: ReadSegment, tasks: asyncio.TaskGroup) -> None:
        reading = PendingRead(self._shared.store, request)
        await self._memory.wait_until_admitted()
        async with self._writing:
            reply = reading.answer_now()
            # too many wait already: this one is answered as if its time were over
            if reply is None and len(self._long_polls) >= PRAVEGA_TAIL_READS:
                reply = reading.answer_after_wait()
            if reply is not None:
                await self._write([reply])
                return
        self._long_polls.add_poll(reading)
        if self._poll_task is None:
            self._poll_task = tasks.create_task(
                self._long_polls.answer_polls(self._answer_poll), name="pravega-polls"
            )

    async def _answer_poll(self, reading: PendingRead) -> None:
        await self._memory.wait_until_admitted()
        async with self._writing:
            await self._write([reading.answer_after_wait()])

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
        # an answer that repeats what its request has may be longer than a frame
        except ValueError as error:
            raise HangUpError(str(error)) from error
        size = sum(map(len, parts))
        with self._memory.hold_answer(size if size >= _LARGE_BYTES else 0):
            await self._stream.write(parts)

    def _release(self) -> None:
        """Release claims and memory when the connection has ended, for whatever reason."""
        # after an error, too: its claims count for all connections
        self._appender.stop_accepting()
        self._memory.release_all()
        # reference cycles would keep the buffers until the next garbage collection
        self._frames, self._assembler = MessageReader(), Assembler()
        self._read_task = self._poll_task = None


def _first_reason(failures: BaseExceptionGroup[BaseException]) -> str:
    """Return the text of the failure that came first; the others follow from it."""
    error = failures.exceptions[0]
    return _first_reason(error) if isinstance(error, BaseExceptionGroup) else str(error)


def _clear_frames(failures: BaseExceptionGroup[BaseException]) -> None:
    """Clear the local variables of the failed calls: tracebacks would keep whole messages."""
    for error in failures.exceptions:
        if isinstance(error, BaseExceptionGroup):
            _clear_frames(error)
        else:
            traceback.clear_frames(error.__traceback__)
