"""Messages out and answers in over one connection, told apart by request id."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from logdrive.errors import LogdriveError, TransientError
from logdrive.host.cancel import raise_if_cancelled
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from logdrive.net.stream import ByteStream
from logdrive.wire.pravega.codec import MessageReader, encode
from logdrive.wire.pravega.control import OLDEST_COMPATIBLE, WIRE_VERSION, Hello, KeepAlive
from logdrive.wire.pravega.layout import Message

_PORTION_BYTES: Final = 256 * KIB


class RequestChannel:
    """One connection. *unasked* gets what answers no request, such as acknowledgements."""

    def __init__(self, stream: ByteStream, unasked: Callable[[Message], None]) -> None:
        self._stream, self._unasked = stream, unasked
        self._frames = MessageReader()
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._outgoing: list[Part] = []
        self._more = asyncio.Event()
        self._failure: LogdriveError | None = None
        self.greeted = asyncio.Event()
        self.moved = 0
        """How often something was read, or a part of what is to be written was taken: it stands
        still where the service is gone.
        """
        self.send(Hello())

    async def run(self) -> LogdriveError:
        """Carry messages until the connection ends; then all that waits fails with the reason,
        which is returned.
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

    def check(self) -> None:
        """Raise what ended the connection, if anything did."""
        if self._failure is not None:
            raise self._failure

    def next_id(self) -> int:
        """Return a request id that nobody has."""
        return next(self._ids)

    def send(self, message: Message) -> None:
        """Queue a message; what stands together in the queue is written together.

        Raises what ended the connection.
        """
        self.check()
        self._outgoing += encode(message, self._frames.peer_version)
        self._more.set()

    def ask(self, make: Callable[[int], Message]) -> "asyncio.Future[Message]":
        """Send the request that *make* builds around a new id; the future ends with its answer.

        Cancel it to stop waiting.
        """
        request_id = self.next_id()
        self.send(make(request_id))
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        future.add_done_callback(lambda done: self._forget(request_id, done))
        return future

    def _forget(self, request_id: int, future: "asyncio.Future[Message]") -> None:
        del self._waiting[request_id]
        if not future.cancelled():
            future.exception()  # it may have been dropped by a reader that went away

    async def _write(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            await self._write_outgoing()

    async def _write_outgoing(self) -> None:
        """Write what is queued; apart from the waiting for more, which would keep all of it in
        memory.
        """
        parts, self._outgoing = self._outgoing, []
        *portions, last = _portions(parts)
        for portion in portions:
            await self._stream.write(portion)
            self.moved += 1
        # which a dead connection may seem to take, too: the answer counts
        await self._stream.write(last)

    async def _read(self) -> None:
        while data := await self._stream.read():
            self.moved += 1
            for message in self._frames.feed(data):
                self._receive(message)
        raise TransientError(f"{self._stream.peer.address}: the service closed the connection")

    def _receive(self, message: Message) -> None:
        future = self._waiting.get(getattr(message, "request_id", -1))
        if future is not None and not future.done():
            future.set_result(message)
        elif isinstance(message, Hello):
            self._greeted(message)
        elif not isinstance(message, KeepAlive):
            self._unasked(message)

    def _greeted(self, hello: Hello) -> None:
        if hello.low > WIRE_VERSION or hello.high < OLDEST_COMPATIBLE:
            spoken = (
                f"{hello.low} to {hello.high}, this client {OLDEST_COMPATIBLE} to {WIRE_VERSION}"
            )
            raise TransientError(
                f"{self._stream.peer.address}: the service speaks wire versions {spoken}"
            )
        self.greeted.set()


def _portions(parts: list[Part]) -> list[list[Part]]:
    """Return *parts* in portions of about 256 KiB, so that a slow connection can be told from a
    dead one.
    """
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
