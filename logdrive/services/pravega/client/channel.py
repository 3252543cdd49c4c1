"""A channel of requests and answers over one connection, matched by request id.

`RequestChannel` writes messages in the order in which they were queued, and resolves the future of
each request when its answer arrives. It does not reconnect: when the connection ends, all futures
fail and the channel is of no more use.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from logdrive.errors import LogdriveError, TransientError
from logdrive.host.cancel import raise_if_cancelled
from logdrive.host.transport import ByteStream
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from logdrive.wire.pravega.codec import MessageReader, encode
from logdrive.wire.pravega.control import OLDEST_COMPATIBLE, WIRE_VERSION, Hello, KeepAlive
from logdrive.wire.pravega.layout import Message

_PORTION_BYTES: Final = 256 * KIB  # bytes of one write


class RequestChannel:
    """One connection.

    *unasked* is called with each message that answers no request, such as an acknowledgement.
    """

    def __init__(self, stream: ByteStream, unasked: Callable[[Message], None]) -> None:
        self._stream = stream
        self._unasked = unasked
        self._frames = MessageReader()
        self._ids = itertools.count(1)
        # Futures of the requests without an answer, by request id.
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        # Encoded messages that are not written yet.
        self._outgoing: list[Part] = []
        # Set when something is added to *_outgoing*.
        self._more = asyncio.Event()
        # Why the connection ended, None while it is open.
        self._failure: LogdriveError | None = None
        # Set once the service has sent a Hello with wire versions that this client speaks, too.
        self.hello_received = asyncio.Event()
        # Counts reads and completed partial writes. It stops growing if the service is gone.
        self.progress = 0
        self.send_message(Hello())

    async def run(self) -> LogdriveError:
        """Read and write messages until the connection ends; return why it ended.

        All requests without an answer fail with that reason.
        """
        failure: LogdriveError = TransientError(f"{self._stream.peer.address}: closed here")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write(), name="pravega-client-write")
                await self._read()  # here, not in a task: see `raise_if_cancelled`
        except* LogdriveError as failures:
            first = failures.exceptions[0]
            failure = first if isinstance(first, LogdriveError) else failure
        finally:
            self._failure = failure
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(failure)
        raise_if_cancelled()
        return failure

    def raise_if_closed(self) -> None:
        """Raise the reason why the connection ended, if it did."""
        if self._failure is not None:
            raise self._failure

    def next_request_id(self) -> int:
        """Return a request id that was not used before."""
        return next(self._ids)

    def send_message(self, message: Message) -> None:
        """Queue *message*; messages queued in one turn of the event loop are written together.

        Raises the reason why the connection ended, if it did.
        """
        self.raise_if_closed()
        self._outgoing += encode(message, self._frames.peer_version)
        self._more.set()

    def send_request(self, make: Callable[[int], Message]) -> "asyncio.Future[Message]":
        """Send the request that *make* returns for a new request id; return a future of its answer.

        Cancel the future to stop waiting. It fails when the connection ends.
        """
        request_id = self.next_request_id()
        self.send_message(make(request_id))
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        future.add_done_callback(lambda done: self._forget(request_id, done))
        return future

    def _forget(self, request_id: int, future: "asyncio.Future[Message]") -> None:
        del self._waiting[request_id]
        if not future.cancelled():
            # Retrieve it, or asyncio logs it: nothing may wait for the future any more.
            future.exception()

    async def _write(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            await self._write_outgoing()

    async def _write_outgoing(self) -> None:
        """Write what is queued.

        A method of its own, so that no local variable keeps the data in memory during the wait for
        more.
        """
        parts, self._outgoing = self._outgoing, []
        *portions, last = _portions(parts)
        for portion in portions:
            await self._stream.write(portion)
            self.progress += 1
        # Not progress: the socket's buffer takes it on a dead connection, too. Its answer counts.
        await self._stream.write(last)

    async def _read(self) -> None:
        while data := await self._stream.read():
            self.progress += 1
            for message in self._frames.receive_data(data):
                self._on_message(message)
        # the protocol has no word for a full disk: the service just closes
        raise TransientError(
            f"{self._stream.peer.address}: the service closed the connection: its log says why"
        )

    def _on_message(self, message: Message) -> None:
        future = self._waiting.get(getattr(message, "request_id", -1))
        if future is not None and not future.done():
            future.set_result(message)
        elif isinstance(message, Hello):
            self._on_hello(message)
        elif not isinstance(message, KeepAlive):
            self._unasked(message)

    def _on_hello(self, hello: Hello) -> None:
        if hello.low > WIRE_VERSION or hello.high < OLDEST_COMPATIBLE:
            spoken = (
                f"{hello.low} to {hello.high}, this client {OLDEST_COMPATIBLE} to {WIRE_VERSION}"
            )
            raise TransientError(
                f"{self._stream.peer.address}: the service speaks wire versions {spoken}"
            )
        self.hello_received.set()


def _portions(parts: list[Part]) -> list[list[Part]]:
    """Split *parts* into writes of about 256 KiB, so that a slow connection shows progress."""
    portions, size = [list[Part]()], 0
    for part in parts:
        whole = part if len(part) <= _PORTION_BYTES else memoryview(part)
        for start in range(0, len(part), _PORTION_BYTES):
            if size >= _PORTION_BYTES:
                portions.append([])
                size = 0
            piece = whole[start : start + _PORTION_BYTES]
            portions[-1].append(piece)
            size += len(piece)
    return portions
