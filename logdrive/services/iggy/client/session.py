"""One connection to an Iggy service, logged in.

    session = await open_session(transport, target, random=…)
    streams = await session.request(GetStreams())

Requests may also be pipelined: `send` several, then `receive` as many outcomes, in their order. One
task may send while another receives; `request` is for a session of which nothing is under way.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NamedTuple, TypeVar

from logdrive.errors import ProtocolError, TransientError
from logdrive.host.transport import ByteStream
from logdrive.services.iggy.client.errors import IggySilentError, classify
from logdrive.services.iggy.client.framing import ClientFraming
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.replies_codec import decode_reply
from logdrive.wire.iggy.requests import IggyRequest, IggyRequestFor
from logdrive.wire.iggy.revision import Revision

R = TypeVar("R")

REQUEST_SECONDS: Final = 20.0  # for a whole answer: some servers never answer what they refuse


class IggyOutcome(NamedTuple):
    """How a request ended: with its *reply*, or with an *error*."""

    request: IggyRequest
    reply: object
    error: IggyError | None


class IggyClientSession:
    """A connection. After `TransientError`, from any method, it is of no more use: `abort` it.

    *where* names the service in messages.
    """

    def __init__(
        self,
        stream: ByteStream,
        framing: ClientFraming,
        where: str,
        *,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self.where = where
        self._stream = stream
        self._framing = framing
        self._seconds = request_seconds
        self._under_way: deque[IggyRequest] = deque()

    @property
    def revision(self) -> Revision:
        """The revision that the service speaks."""
        return self._framing.revision

    @property
    def under_way(self) -> int:
        """Requests that are sent and not answered."""
        return len(self._under_way)

    async def send(self, request: IggyRequest) -> None:
        """Send *request* without waiting for its reply. Raises `TransientError`."""
        parts = self._framing.encode(request)
        self._under_way.append(request)
        await self._stream.write(parts)

    async def receive(self) -> IggyOutcome:
        """Return the outcome of the oldest request under way; it waits as long as it takes.

        Raises `TransientError` if the connection is lost, or the server's bytes can't be read.
        """
        payload = await self.receive_payload()
        request = self._under_way.popleft()
        if isinstance(payload, IggyError):
            return IggyOutcome(request, None, payload)
        assert isinstance(request, IggyRequestFor)
        try:
            return IggyOutcome(request, decode_reply(self.revision, request, payload), None)
        except IggyError as error:
            raise TransientError(f"{self.where}: {error}") from error

    async def receive_payload(self) -> memoryview | IggyError:
        """Return the next reply's payload, or the error that it tells. Raises as `receive`."""
        try:
            while (payload := self._framing.next_payload()) is None:
                data = await self._stream.read()
                if not data:
                    raise TransientError(f"{self.where}: the service closed the connection")
                self._framing.receive_data(data)
        except ProtocolError as error:
            raise TransientError(f"{self.where} does not speak Iggy's protocol: {error}") from error
        return payload

    async def request(self, request: IggyRequestFor[R]) -> R:
        """Return the reply to *request*.

        Raises `TransientError` for what may pass, `IggyError` for a refusal that will not.
        """
        async with self.deadline():
            await self.send(request)
            outcome = await self.receive()
        if outcome.error is not None:
            raise classify(self.where, outcome.error)
        return outcome.reply  # type: ignore[return-value]  # `receive` decoded it for this request

    async def write(self, frame: bytes) -> None:
        """Send a *frame* whose reply `receive_payload` returns. Raises `TransientError`."""
        await self._stream.write([frame])

    @contextlib.asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Raise `IggySilentError` in the body if it takes too long."""
        try:
            async with asyncio.timeout(self._seconds):
                yield
        except TimeoutError:
            raise IggySilentError(
                f"{self.where} does not answer within {self._seconds:g} s"
            ) from None

    async def close(self) -> None:
        """Close the connection; may be called twice."""
        await self._stream.close()

    def abort(self) -> None:
        """Reset the connection, so that nothing of what was sent is still carried; may be called
        twice.
        """
        self._stream.abort()
