"""A client of Pravega's segment-store protocol: one connection, with any number of requests and
writers at a time.

    async with connect_segment_store(transport, "127.0.0.1", 6000) as client:
        info = await client.segment_info("logs/app/0.#epoch.0")
        async for data in client.read_range(info.segment, info.start, info.length): ...
        writer = await client.set_up_writer(info.segment, writer_id)
        await writer.append_data(batch, events=3, number=position)

When the connection ends, everything that waits on it fails with `TransientError`. Connect again.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from logdrive.errors import LogdriveError, ProtocolError, TransientError
from logdrive.host.transport import ByteStream, ClientTls, Transport
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from logdrive.services.pravega.client.channel import RequestChannel
from logdrive.services.pravega.client.errors import M, RequestRefusedError, expect_answer
from logdrive.services.pravega.client.located import LocatedAppends, read_located
from logdrive.services.pravega.client.writer import AppendWriter
from logdrive.services.pravega.client.writers import SegmentWriters, TokenOf, no_token
from logdrive.services.reader import SegmentState
from logdrive.store.errors import NoSuchSegmentError
from logdrive.wire.pravega.attributes import LOCATES_APPENDS
from logdrive.wire.pravega.control import KeepAlive, SegmentAlreadyExists, SegmentIsSealed
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.own import AppendsLocated, LocateAppends
from logdrive.wire.pravega.segments import (
    CreateSegment,
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    ReadSegment,
    SealSegment,
    SegmentAttribute,
    SegmentAttributeUpdated,
    SegmentCreated,
    SegmentRead,
    SegmentSealed,
    StreamSegmentInfo,
    UpdateSegmentAttribute,
)

ANSWER_SECONDS: Final = 60.0  # longer than any server lets a read at the tail wait
# Bytes of one read of `read_range`. Larger ones cost more: their memory is returned to the system
# and requested again each time.
_PIECE_BYTES: Final = 1024 * KIB
_AHEAD: Final = 8  # reads of `read_range` in flight


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Bytes that were read.

    No bytes mean that none were appended in time or, with *end_of_segment*, that none ever will be.
    """

    data: bytes
    at_tail: bool = False
    end_of_segment: bool = False


class SegmentClient:
    """Requests to a segment store over one connection.

    All methods raise `TransientError` if the connection ends or an answer takes longer than
    *answer_seconds*, `NoSuchSegmentError` if there is no such segment, and `RequestRefusedError` if
    the service refuses. *token* returns the delegation token for a segment.
    """

    def __init__(
        self,
        stream: ByteStream,
        *,
        answer_seconds: float = ANSWER_SECONDS,
        token: TokenOf = no_token,
    ) -> None:
        self._link = RequestChannel(stream, lambda message: self.writers.on_append_answer(message))
        self._answer_seconds = answer_seconds
        self._token = token
        self.writers = SegmentWriters(self._link, token=token)

    async def run(self) -> LogdriveError:
        """Read and write messages until the connection ends; return why it ended.

        `connect_segment_store` runs it as a task.
        """
        failure: LogdriveError = TransientError("the connection was closed here")
        try:
            failure = await self._link.run()
        finally:
            self.writers.fail_all(failure)
        return failure

    async def wait_hello(self) -> None:
        """Wait until the service has sent a Hello with wire versions that this client speaks."""
        await self._link.hello_received.wait()

    @property
    def progress(self) -> int:
        """A counter of reads and partial writes; it stops growing if the service is gone."""
        return self._link.progress

    def send_keep_alive(self) -> None:
        """Send a KeepAlive, which the service answers at once: its answer counts as progress."""
        self._link.send_message(KeepAlive())

    async def segment_info(self, segment: str) -> SegmentState | None:
        """Return the state of *segment*, None if there is no such segment."""
        try:
            info = await self._ask(
                StreamSegmentInfo,
                lambda number: GetStreamSegmentInfo(number, segment, self._token(segment)),
            )
        except NoSuchSegmentError:
            return None
        if not info.exists:
            return None
        return SegmentState(
            segment, info.start_offset, info.write_offset, info.is_sealed, info.last_modified
        )

    async def create_segment(self, segment: str) -> bool:
        """Create *segment*; return False if it exists already."""
        answer = await self._answer(
            self._link.send_request(
                lambda number: CreateSegment(number, segment, token=self._token(segment))
            )
        )
        return not isinstance(answer, SegmentAlreadyExists) and bool(
            expect_answer(SegmentCreated, answer)
        )

    async def seal_segment(self, segment: str) -> None:
        """Seal *segment*: it takes no more appends. Raises `SegmentSealedError` if it is sealed."""
        await self._ask(
            SegmentSealed, lambda number: SealSegment(number, segment, self._token(segment))
        )

    async def get_attribute(self, segment: str, attribute: UUID) -> int:
        """Return an attribute of *segment*; the least i64 (`numbers.ABSENT`) if it is not set."""
        return (
            await self._ask(
                SegmentAttribute,
                lambda number: GetSegmentAttribute(
                    number, segment, attribute, self._token(segment)
                ),
            )
        ).value

    async def update_attribute(
        self, segment: str, attribute: UUID, expected: int, value: int
    ) -> bool:
        """Set an attribute to *value* if it is *expected* now; return whether it was."""
        token = self._token(segment)
        answer = await self._ask(
            SegmentAttributeUpdated,
            lambda number: UpdateSegmentAttribute(
                number, segment, attribute, value, expected, token
            ),
        )
        return answer.success

    # Reading -------------------------------------------------------------------------------------

    async def read_segment(self, segment: str, offset: int, length: int) -> ReadResult:
        """Return up to *length* bytes from *offset*.

        At the end of an open segment the service waits some seconds for bytes. Raises
        `TruncatedOffsetError` if *offset* lies before the segment's start.
        """
        answer = await self._read_answer(
            self._start_read(segment, offset, length), segment, offset, length
        )
        if answer is None:
            return ReadResult(b"", end_of_segment=True)
        return ReadResult(bytes(answer.whole), answer.at_tail, answer.end_of_segment)

    async def read_range(
        self, segment: str, start: int, end: int, *, ahead: int = _AHEAD
    ) -> AsyncIterator[Part]:
        """Yield the bytes [*start*, *end*) in order; *ahead* reads of 1 MiB are in flight.

        All of the bytes must exist: raises `RequestRefusedError` if the segment ends before *end*.
        """
        asked: deque[tuple[int, int, asyncio.Future[Message]]] = deque()
        place = start
        try:
            while asked or place < end:
                while place < end and len(asked) < ahead:
                    size = min(_PIECE_BYTES, end - place)
                    asked.append((place, size, self._start_read(segment, place, size)))
                    place += size
                offset, size, answer = asked.popleft()
                part = await self._read_answer(answer, segment, offset, size)
                # A server may answer with fewer bytes than asked for.
                while part is not None and 0 < len(part.whole) < size:
                    yield part.whole
                    offset, size = offset + len(part.whole), size - len(part.whole)
                    part = await self._read_answer(
                        self._start_read(segment, offset, size), segment, offset, size
                    )
                if part is None or not part.whole:
                    raise RequestRefusedError(f"segment {segment!r} has no bytes at {offset}")
                yield part.whole
        finally:
            for _, _, answer in asked:
                answer.cancel()

    async def locates_appends(self, segment: str) -> bool:
        """Return whether the service knows `locate_appends`; a Pravega does not."""
        return await self.get_attribute(segment, LOCATES_APPENDS) == 1

    async def locate_appends(
        self, segment: str, start: int, end: int, head_bytes: int, host: str = ""
    ) -> LocatedAppends:
        """Return where the first of the appends are that hold [*start*, *end*) (`LocateAppends`).

        Ask only a service that `locates_appends`: any other closes the connection. Raises
        `TruncatedOffsetError` if *start* is not in the segment.
        """
        answer = await self._ask(
            AppendsLocated,
            lambda number: LocateAppends(
                number, segment, start, end, head_bytes, host, self._token(segment)
            ),
        )
        return read_located(answer, start, head_bytes, host)

    def _start_read(self, segment: str, offset: int, length: int) -> "asyncio.Future[Message]":
        return self._link.send_request(
            lambda number: ReadSegment(segment, offset, length, self._token(segment), number)
        )

    async def _read_answer(
        self, answer: "asyncio.Future[Message]", segment: str, offset: int, length: int
    ) -> SegmentRead | None:
        """Return the answer to a read, cut to *length*; None at the end of a sealed segment."""
        message = await self._answer(answer)
        if isinstance(message, SegmentIsSealed):
            return None
        read = expect_answer(SegmentRead, message)
        if read.offset != offset or len(read.whole) > max(length, 8):
            raise ProtocolError(
                f"{len(read.whole)} bytes at {read.offset} for a read of {length} at "
                f"{offset} of {segment}",
                offset=0,
            )
        return read if len(read.whole) <= length else replace(read, data=read.whole[:length])

    # Appending -----------------------------------------------------------------------------------

    async def set_up_writer(self, segment: str, writer: UUID) -> AppendWriter:
        """Set *writer* up for *segment* and return what appends as it.

        Its `durable` is the number that the service has, or the least i64 (`numbers.ABSENT`). Waits
        until no append of this writer is in flight on this connection. An `AppendWriter` that was
        set up before with the same id takes no more appends.
        """
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await self.writers.set_up_writer(segment, writer)
        except TimeoutError as error:
            raise self._no_answer() from error

    # Answers -------------------------------------------------------------------------------------

    async def _ask(self, wanted: type[M], make: Callable[[int], Message]) -> M:
        return expect_answer(wanted, await self._answer(self._link.send_request(make)))

    async def _answer(self, answer: "asyncio.Future[Message]") -> Message:
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await answer
        except TimeoutError as error:
            raise self._no_answer() from error

    def _no_answer(self) -> TransientError:
        return TransientError(f"the service did not answer within {self._answer_seconds:g} s")


@contextlib.asynccontextmanager
async def connect_segment_store(
    transport: Transport,
    host: str,
    port: int,
    tls: ClientTls | None = None,
    *,
    answer_seconds: float = ANSWER_SECONDS,
    token: TokenOf = no_token,
) -> AsyncIterator[SegmentClient]:
    """Yield a client that is connected inside the context.

    Raises `TransientError` if the connection can't be made.
    """
    stream = await transport.connect(host, port, tls)
    client = SegmentClient(stream, answer_seconds=answer_seconds, token=token)
    carrying = asyncio.create_task(client.run(), name="pravega-client")
    try:
        yield client
    finally:
        carrying.cancel()
        await asyncio.wait([carrying])
        await stream.close()
