"""A client of the Pravega segment-store protocol: one connection, any number of requests and
writers on it at a time.

    async with connected(transport, "127.0.0.1", 6000) as client:
        info = await client.segment_info("logs/app/0.#epoch.0")
        async for data in client.read_range(info.segment, info.start, info.length): ...
        writer = await client.set_up(info.segment, writer_id)
        await writer.append(batch, events=3, number=position)

A connection that ends fails everything that waits with `TransientError`; connect anew then.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from logdrive.errors import LogdriveError, ProtocolError, TransientError
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from logdrive.net.stream import ByteStream, ClientTls, Transport
from logdrive.services.pravega.client.channel import RequestChannel
from logdrive.services.pravega.client.errors import M, RequestRefusedError, expected
from logdrive.services.pravega.client.writer import AppendWriter
from logdrive.services.pravega.client.writers import SegmentWriters, TokenOf, no_token
from logdrive.store.errors import NoSuchSegmentError
from logdrive.wire.pravega.control import KeepAlive, SegmentAlreadyExists, SegmentIsSealed
from logdrive.wire.pravega.layout import Message
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
# larger ones cost more: their memory goes back to the system each time
_PIECE_BYTES: Final = 1024 * KIB
_AHEAD: Final = 8


@dataclass(frozen=True, slots=True)
class SegmentState:
    """What a segment is like: its bytes are those in [start, length); *modified_ms* since 1970."""

    segment: str
    start: int
    length: int
    sealed: bool
    modified_ms: int


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Bytes read. Empty: nothing came in time or, with *end_of_segment*, nothing ever will."""

    data: bytes
    at_tail: bool = False
    end_of_segment: bool = False


class SegmentClient:
    """Requests over one connection.

    All raise `TransientError` when it ends, `NoSuchSegmentError` where there is no such segment.
    """

    def __init__(
        self,
        stream: ByteStream,
        *,
        answer_seconds: float = ANSWER_SECONDS,
        token: TokenOf = no_token,
    ) -> None:
        self._link = RequestChannel(stream, lambda message: self.writers.receive(message))
        self._answer_seconds = answer_seconds
        self._token = token
        self.writers = SegmentWriters(self._link, token=token)

    async def run(self) -> LogdriveError:
        """Carry messages until the connection ends, and return why it did; `connected` runs it."""
        failure: LogdriveError = TransientError("the connection was closed here")
        try:
            failure = await self._link.run()
        finally:
            self.writers.end(failure)
        return failure

    async def greeted(self) -> None:
        """Return once the service has said which wire versions it speaks, and they are ours too."""
        await self._link.greeted.wait()

    @property
    def moved(self) -> int:
        """How often something came from the service, or was taken by the connection, so far."""
        return self._link.moved

    def keep_alive(self) -> None:
        """Send what the service answers at once."""
        self._link.send(KeepAlive())

    async def segment_info(self, segment: str) -> SegmentState | None:
        """Return what *segment* is like, None where there is none."""
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
        """Create *segment*; returns False where it is there already."""
        answer = await self._answer(
            self._link.ask(
                lambda number: CreateSegment(number, segment, token=self._token(segment))
            )
        )
        return not isinstance(answer, SegmentAlreadyExists) and bool(
            expected(SegmentCreated, answer)
        )

    async def seal(self, segment: str) -> None:
        """Let nobody append to *segment* any more.

        Raises `SegmentSealedError` where that is so already.
        """
        await self._ask(
            SegmentSealed, lambda number: SealSegment(number, segment, self._token(segment))
        )

    async def attribute(self, segment: str, attribute: UUID) -> int:
        """Return an attribute of *segment*, the least i64 where there is none."""
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
        """Set an attribute if it is *expected* now; returns whether it was."""
        token = self._token(segment)
        answer = await self._ask(
            SegmentAttributeUpdated,
            lambda number: UpdateSegmentAttribute(
                number, segment, attribute, value, expected, token
            ),
        )
        return answer.success

    # Reading -------------------------------------------------------------------------------------

    async def read(self, segment: str, offset: int, length: int) -> ReadResult:
        """Return up to *length* bytes from *offset*; at the end of an open segment it waits some
        seconds for some.
        """
        found = await self._found(
            self._start_read(segment, offset, length), segment, offset, length
        )
        if found is None:
            return ReadResult(b"", end_of_segment=True)
        return ReadResult(bytes(found.whole), found.at_tail, found.end_of_segment)

    async def read_range(
        self, segment: str, start: int, end: int, *, ahead: int = _AHEAD
    ) -> AsyncIterator[Part]:
        """Yield the bytes of [start, end), which must be there, in order; *ahead* reads of 512 KiB
        are under way at a time.

        Raises `RequestRefusedError` where the segment ends before *end*.
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
                found = await self._found(answer, segment, offset, size)
                # a server may answer with less
                while found is not None and 0 < len(found.whole) < size:
                    yield found.whole
                    offset, size = offset + len(found.whole), size - len(found.whole)
                    found = await self._found(
                        self._start_read(segment, offset, size), segment, offset, size
                    )
                if found is None or not found.whole:
                    raise RequestRefusedError(f"segment {segment!r} has no bytes at {offset}")
                yield found.whole
        finally:
            for _, _, answer in asked:
                answer.cancel()

    def _start_read(self, segment: str, offset: int, length: int) -> "asyncio.Future[Message]":
        return self._link.ask(
            lambda number: ReadSegment(segment, offset, length, self._token(segment), number)
        )

    async def _found(
        self, answer: "asyncio.Future[Message]", segment: str, offset: int, length: int
    ) -> SegmentRead | None:
        """Return what was read, at most what was asked for; None at the end of a sealed segment."""
        message = await self._answer(answer)
        if isinstance(message, SegmentIsSealed):
            return None
        found = expected(SegmentRead, message)
        if found.offset != offset or len(found.whole) > max(length, 8):
            raise ProtocolError(
                f"{len(found.whole)} bytes at {found.offset} for a read of {length} at "
                f"{offset} of {segment}",
                offset=0,
            )
        return found if len(found.whole) <= length else replace(found, data=found.whole[:length])

    # Appending -----------------------------------------------------------------------------------

    async def set_up(self, segment: str, writer: UUID) -> AppendWriter:
        """Return what appends as *writer*; its `durable` is the number that the service has, the
        least i64 if none.

        It waits until nothing that was submitted for the writer on this connection is in flight; a
        writer set up before ends.
        """
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await self.writers.set_up(segment, writer)
        except TimeoutError as error:
            raise self._no_answer() from error

    # Answers -------------------------------------------------------------------------------------

    async def _ask(self, wanted: type[M], make: Callable[[int], Message]) -> M:
        return expected(wanted, await self._answer(self._link.ask(make)))

    async def _answer(self, answer: "asyncio.Future[Message]") -> Message:
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await answer
        except TimeoutError as error:
            raise self._no_answer() from error

    def _no_answer(self) -> TransientError:
        return TransientError(f"the service did not answer within {self._answer_seconds:g} s")


@contextlib.asynccontextmanager
async def connected(
    transport: Transport,
    host: str,
    port: int,
    tls: ClientTls | None = None,
    *,
    answer_seconds: float = ANSWER_SECONDS,
    token: TokenOf = no_token,
) -> AsyncIterator[SegmentClient]:
    """Connect for as long as the context lasts. Raises `TransientError` where nobody answers."""
    stream = await transport.connect(host, port, tls)
    client = SegmentClient(stream, answer_seconds=answer_seconds, token=token)
    carrying = asyncio.create_task(client.run(), name="pravega-client")
    try:
        yield client
    finally:
        carrying.cancel()
        await asyncio.wait([carrying])
        await stream.close()
