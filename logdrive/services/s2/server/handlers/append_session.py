"""Append sessions: frames with appends in, frames with acknowledgements out, both in one order.

One task takes frames from the request and submits their appends. Another waits for each in turn and
sends its acknowledgement. The first append that is refused ends the session: what comes behind it
is not done.
"""

import asyncio
from typing import Final

from logdrive.errors import LogdriveError, TransientError
from logdrive.services.s2.server import counters
from logdrive.services.s2.server.failures import as_s2_error
from logdrive.services.s2.server.handlers.call import SESSION_HEADERS, Call
from logdrive.services.s2.server.log.appender import AppendChain
from logdrive.services.s2.server.log.hot import MOST_MEMORY, ParsedAppend, parse_append
from logdrive.services.s2.server.log.stream_log import StreamLog
from logdrive.wire.s2.compression import accepted_compression
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.frames import S2FrameReader, encode_frame, encode_terminal
from logdrive.wire.s2.protobuf import encode_append_ack
from logdrive.wire.s2.records import AppendAck

_MOST_UNANSWERED: Final = 1000
"""Limit on the appends of one session that are not acknowledged."""

AppendFuture = asyncio.Future[AppendAck]
"""An append's answer. Of the budget it holds nothing once it is done: a client that does not read
its acknowledgements would keep all others waiting.
"""


class AppendConversation:
    """One append session on *log*."""

    def __init__(self, call: Call, log: StreamLog, key: bytes | None, basin: str) -> None:
        self._call = call
        self._service = call.service
        self._log = log
        self._key = key
        self._basin = basin
        self._session = AppendChain()
        # appends in their order; then why nothing follows: the client has ended its side, or left,
        # or sent what is none
        self._submitted: asyncio.Queue[AppendFuture | LogdriveError | None] = asyncio.Queue(
            _MOST_UNANSWERED
        )

    async def run(self) -> None:
        """Hold the session. Raises `TransientError` where the client has left."""
        await self._call.response.start(200, SESSION_HEADERS)
        receiving = asyncio.create_task(self._receive(), name="s2 append session")
        try:
            error = await self._acknowledge()
        finally:
            receiving.cancel()
            await asyncio.wait([receiving])
        if error is not None:
            await self._call.response.send(encode_terminal(error))
        await self._call.response.end()

    # Receiving -----------------------------------------------------------------------------------

    async def _receive(self) -> None:
        """Submit what the client sends, up to the end, which is queued behind it."""
        end: LogdriveError | None = None
        try:
            await self._receive_frames()
        except LogdriveError as error:
            end = error
        await self._submitted.put(end)

    async def _receive_frames(self) -> None:
        reader = S2FrameReader(terminals=False)
        async with self._service.arriving.passing() as passage:
            async for data in self._call.request.chunks():
                passage.hold(0)
                reader.receive(data)
                while (size := reader.next_message_bytes()) is not None:
                    await self._take_frame(reader, MOST_MEMORY * size)
                passage.hold(reader.held)
        reader.finish()

    async def _take_frame(self, reader: S2FrameReader, most_bytes: int) -> None:
        """Submit the append in the next frame, which takes up to *most_bytes* of memory."""
        async with self._service.budget.hold(most_bytes) as held:
            frame = reader.next_frame()
            assert frame is not None
            parsed = parse_append(frame.message, framed=True)
            held.shrink(parsed.memory())
            answer = self._submit(parsed)
            held.give_when_done(answer)
        await self._submitted.put(answer)

    def _submit(self, parsed: ParsedAppend) -> AppendFuture:
        self._call.principal.check_valid()
        self._call.check_commands(parsed.records, self._basin)
        answer = self._log.submit(parsed, key=self._key, session=self._session)
        answer.add_done_callback(_note_failure)
        self._service.counters.add("append", self._basin)
        self._service.counters.add(counters.APPENDED, self._basin, parsed.metered)
        return answer

    # Acknowledging -------------------------------------------------------------------------------

    async def _acknowledge(self) -> S2Error | None:
        """Acknowledge appends up to the first that fails; return why nothing follows, if it is an
        error.
        """
        compression = accepted_compression(self._call.header("accept-encoding"))
        while True:
            match await self._submitted.get():
                case None:
                    return None
                case TransientError() as gone:
                    raise gone
                case LogdriveError() as error:
                    return as_s2_error(error)
                case answer:
                    try:
                        ack = await asyncio.shield(answer)
                    except LogdriveError as error:
                        return as_s2_error(error)
                    frame = encode_frame(
                        encode_append_ack(ack),
                        compression=compression,
                        reconnect_advised=self._service.draining.is_set(),
                    )
                    await self._call.response.send(frame)


def _note_failure(answer: AppendFuture) -> None:
    """Let there be no warning where nobody asks for the answer any more."""
    if not answer.cancelled():
        answer.exception()
