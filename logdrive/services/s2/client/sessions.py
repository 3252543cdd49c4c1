"""Sessions: appends and reads as streams of frames. See docs/protocols/s2.md#frames."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from logdrive.errors import TransientError
from logdrive.net.http.errors import BodyTooLargeError
from logdrive.net.http.http2_client import ClientStream
from logdrive.services.s2.client.errors import classify, error_of
from logdrive.wire.s2.compression import Compression
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.frames import S2Frame, S2FrameReader, encode_frame
from logdrive.wire.s2.limits import FRAME_BYTES
from logdrive.wire.s2.protobuf import decode_append_ack, decode_read_batch, encode_append_input
from logdrive.wire.s2.records import AppendAck, AppendInput, ReadBatch

ERROR_BYTES: Final = FRAME_BYTES  # limit on the body of an answer that is an error
SILENT_SECONDS: Final = 20.0  # without a frame, after which a read session is dead


class Session:
    """Frames from the service on one HTTP/2 stream; use it as an async context manager.

    *on_advised* is called when no further stream is to be opened on the connection: the service
    says that it is about to stop, or the connection seems to be dead.
    """

    def __init__(self, stream: ClientStream, on_advised: Callable[[], None]) -> None:
        self.advised = False
        """True once the service has asked to move to another connection."""
        self._stream = stream
        self._on_advised = on_advised
        self._frames = S2FrameReader(terminals=True)
        self._accepted = False  # the response is there, and is a session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    def abort(self) -> None:
        """Break the session off, unless it has ended; may be called twice."""
        self._stream.reset()

    def retire_connection(self) -> None:
        """Let further requests use another connection: this one seems to be dead."""
        self._on_advised()

    async def accepted(self) -> None:
        """Return once the service has opened the session. Raises what `_next_frame` raises."""
        if self._accepted:
            return
        head = await self._stream.response()
        if head.status != 200:
            body = await self._stream.read_body(ERROR_BYTES)
            raise error_of(head.status, head.headers, body)
        self._accepted = True

    async def _next_frame(self) -> S2Frame | None:
        """Return the next frame, None at the end of the session.

        Raises `S2Error` for an error that will not pass, `TransientError` for one that may, and for
        a lost connection or bytes that are no frames.
        """
        try:
            await self.accepted()
            while (frame := self._frames.next_frame()) is None:
                data = await self._stream.inbound.next_chunk()
                if not data:
                    self._frames.finish()
                    return None
                self._frames.receive(data)
        except BodyTooLargeError as error:
            raise TransientError(f"the service's answer can't be read: {error}") from error
        except S2Error as error:
            if self._accepted:  # what is wrong is a frame
                raise TransientError(f"the service's frames can't be read: {error}") from error
            raise
        if frame.error is not None:
            raise classify(frame.error)
        if frame.reconnect_advised and not self.advised:
            self.advised = True
            self._on_advised()
        return frame


class AppendSession(Session):
    """Appends in order, each acknowledged in order. One task sends, one takes acknowledgements.

    An append that fails ends the session after the acknowledgements of those before it, and those
    after it are not done. When a connection is lost nothing is known of what was not acknowledged.
    """

    def __init__(
        self, stream: ClientStream, on_advised: Callable[[], None], compression: Compression
    ) -> None:
        super().__init__(stream, on_advised)
        self._compression = compression

    async def send(self, append: AppendInput) -> None:
        """Return once flow control has taken *append*.

        Raises `TransientError` once the session is over; why, `next_ack` knows.
        """
        message = encode_append_input(append)
        await self._stream.send(encode_frame(message, compression=self._compression))

    async def end_sending(self) -> None:
        """Say that no more appends come: the session ends once all are acknowledged."""
        await self._stream.end_sending()

    async def next_ack(self) -> AppendAck | None:
        """Return the next acknowledgement, None at the end of the session.

        Raises `S2Error` for the first append that failed for good (412 among them), and
        `TransientError`. Waits without limit: a service is silent while nothing is appended.
        """
        frame = await self._next_frame()
        if frame is None:
            return None
        try:
            return decode_append_ack(frame.message, framed=True)
        except S2Error as error:
            raise TransientError(f"the service's frames can't be read: {error}") from error


class ReadSession(Session):
    """Batches of a read, and heartbeats: batches with nothing but a tail."""

    async def next_batch(self) -> ReadBatch | None:
        """Return the next batch or heartbeat, None at the end of the session.

        Raises `S2Error`, and `TransientError`, also after 20 s without a frame: a service that
        waits for records says so more often.
        """
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                frame = await self._next_frame()
        except TimeoutError:
            self.abort()
            raise TransientError(f"the service has sent nothing for {SILENT_SECONDS:g} s") from None
        if frame is None:
            return None
        try:
            return decode_read_batch(frame.message, framed=True)
        except S2Error as error:
            raise TransientError(f"the service's frames can't be read: {error}") from error
