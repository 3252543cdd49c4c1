"""A stream over a socket, on the event loop's add_reader and add_writer."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from logdrive.errors import TransientError
from logdrive.host.transport import Peer
from logdrive.model.framing import Part
from logdrive.model.units import KIB, MIB
from logdrive.net.readiness import drain_unread, wait_ready
from logdrive.net.wires import Want, Wire

_CLOSE_SECONDS: Final = 2.0  # limit on the time that closing takes
_PIECE_BYTES: Final = 256 * KIB  # up to this size, small parts are joined for one call
_HEAD_BYTES: Final = 16 * KIB  # a small part before a long one is filled up to this size
_TURN_BYTES: Final = 1 * MIB  # bytes written before other connections have a turn
_RESET = struct.pack("ii", 1, 0)  # struct linger: on, 0 s
_CLOSED = "the connection was closed on this side"


class SystemStream:
    """One connection; *wire* is ready to carry bytes over *sock*.

    The socket is watched from the first read on, and bytes are read only when it has some: an idle
    connection costs no calls, and a busy one an unsuccessful one each turn. A turn reads up to 256
    KiB, then lets other connections run.
    """

    __slots__ = (
        "_arrived",
        "_broken",
        "_closing",
        "_failure",
        "_loop",
        "_number",
        "_patience",
        "_read_wants_write",
        "_reader",
        "_released",
        "_since_wait",
        "_socket",
        "_torn",
        "_watched",
        "_wire",
        "_writer",
        "peer",
    )

    def __init__(self, sock: socket.socket, wire: Wire, peer: Peer) -> None:
        self.peer = peer
        self._socket = sock
        self._wire = wire
        # what selectors look for, and name in an error that asyncio makes at every registration
        self._number = sock.fileno()
        self._loop = asyncio.get_running_loop()

        self._arrived: bytes | None = None  # bytes for the next `read`; b"" after the peer's end
        self._failure: TransientError | None = None  # of reading
        self._broken: TransientError | None = None  # of writing
        self._reader: asyncio.Future[None] | None = None  # wakes the task that reads
        self._writer: asyncio.Future[None] | None = None  # wakes the task that writes
        self._watched = False  # the loop tells when the socket is readable
        self._read_wants_write = False  # reading goes on once the socket is writable
        self._since_wait = 0  # bytes written since other connections had a turn

        self._torn = False  # a write is under way, or was given up half-way
        self._closing = False  # `close` or `abort` was called
        self._released = False  # the socket is closed
        self._patience: asyncio.Timeout | None = None  # the time limit of `close`

    # Reading -------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        """Return the next bytes, at most 256 KiB; b"" after the peer's end, or `close`."""
        while self._arrived is None:
            if self._failure is not None:
                raise self._failure.with_traceback(None)  # it may be raised again and again
            if self._closing:
                return b""
            self._reader = self._loop.create_future()
            # what waits above the socket does not make it readable
            if self._wire.more:
                self._loop.call_soon(self._take)
            self._watch()
            try:
                await self._reader
            finally:
                self._reader = None

        data = self._arrived
        if data:  # the end stays
            self._arrived = None
        return data

    def _watch(self) -> None:
        if not self._watched and not self._released:
            self._watched = True
            self._loop.add_reader(self._number, self._on_readable)

    def _on_readable(self) -> None:
        # no task reads: leave the bytes to the kernel, which slows the peer
        if self._reader is None or self._reader.done():
            self._watched = False
            self._loop.remove_reader(self._number)
        else:
            self._take()

    def _take(self) -> None:
        """Read what is there and wake the reading task. If that was cancelled, the bytes wait in
        the kernel for the next one.
        """
        if self._released or self._reader is None or self._reader.done():
            return

        try:
            received = self._wire.receive()
        except TransientError as error:
            self._failure = error
        # a bug: it must end this connection, not leave its reader waiting
        except Exception as error:
            self._reader.set_exception(error)
            return
        else:
            if received is Want.READ:
                return
            # TLS must answer first, such as a key update
            if isinstance(received, Want):
                self._read_wants_write = True
                self._loop.add_writer(self._number, self._on_writable)
                return
            # TCP reports a reset only once, and the write got that report
            if not received and self._broken is not None:
                self._failure = self._broken
            else:
                self._arrived = received

        self._reader.set_result(None)

    # Writing -------------------------------------------------------------------------------------

    async def write(self, parts: Sequence[Part]) -> None:
        """Return once the kernel has taken all *parts*.

        After a write that was cancelled half-way all further ones raise `TransientError`.
        """
        if self._torn and not self._closing:
            raise TransientError(f"{self.peer.address}: an earlier write was given up half-way")
        self._torn = True
        try:
            for piece in _pieces(parts):
                await self._send(memoryview(piece))
                self._since_wait += len(piece)
        except TransientError as error:
            # without the traceback, which would keep *parts*: megabytes, until the next collection
            self._broken = TransientError(str(error))
            raise
        self._torn = False
        # a peer that takes all at once must not keep the others from running
        if self._since_wait >= _TURN_BYTES:
            self._since_wait = 0
            await asyncio.sleep(0)

    async def _send(self, data: memoryview) -> None:
        while data:
            if self._closing:
                raise TransientError(f"{self.peer.address}: {_CLOSED}")
            sent = self._wire.send(data)
            if isinstance(sent, int):
                data = data[sent:]
            elif sent is Want.WRITE:
                await self._until_writable()
            # TLS waits for the peer before it sends
            else:
                raise TransientError(
                    f"{self.peer.address}: the peer asked for a renegotiation, which is "
                    "not done here"
                )

    async def _until_writable(self) -> None:
        self._since_wait = 0
        self._writer = self._loop.create_future()
        self._loop.add_writer(self._number, self._on_writable)
        try:
            await self._writer
        finally:
            self._writer = None
            if not self._read_wants_write and not self._released:
                self._loop.remove_writer(self._number)

    def _on_writable(self) -> None:
        if self._read_wants_write:
            self._read_wants_write = False
            self._take()
        # a writable socket would wake the loop again and again
        if self._writer is None:
            if not self._read_wants_write:
                self._loop.remove_writer(self._number)
        elif not self._writer.done():
            self._writer.set_result(None)

    # Ending --------------------------------------------------------------------------------------

    def refuse_more(self) -> None:
        """Let what the peer writes from now on fail, over a Unix socket; `read` returns what came.

        There the kernel refuses it, and the end comes behind what is in its buffer.
        """
        if self._socket.family == socket.AF_UNIX and not self._released:
            with contextlib.suppress(OSError):  # the peer has gone
                self._socket.shutdown(socket.SHUT_RD)

    async def close(self) -> None:
        """End the stream, let the peer read what was written, and close, within two seconds."""
        if self._closing:
            return
        self._closing = True
        self._wake()
        self._unwatch()
        try:
            if self._failure is None and not self._torn:
                with contextlib.suppress(TransientError, TimeoutError):
                    async with asyncio.timeout(_CLOSE_SECONDS) as self._patience:
                        await self._part()
        finally:
            self._patience = None
            self._release()

    async def _part(self) -> None:
        while (want := self._wire.say_goodbye()) is not None:
            await wait_ready(self._socket, want)
        # the peer may still send what we do not read
        if self._arrived != b"":
            await drain_unread(self._socket, _CLOSE_SECONDS)

    def abort(self) -> None:
        """Reset the connection."""
        if self._released:
            return
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._unwatch()
        self._release()
        self._wake()
        # a `close` that is under way ends at once
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(self._loop.time())

    def _wake(self) -> None:
        for waiting in (self._reader, self._writer):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def _unwatch(self) -> None:
        if not self._released:
            self._watched = self._read_wants_write = False
            self._loop.remove_reader(self._number)
            self._loop.remove_writer(self._number)

    def _release(self) -> None:
        if not self._released:
            self._released = True
            self._socket.close()


def _pieces(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield *parts*, with small neighbors joined up to 256 KiB, so that they share TLS records and
    calls. Longer parts are not copied.

    A small part before a long one is joined with its beginning: alone it would cost a packet, and
    wake the peer for nothing.
    """
    run: list[Part] = []
    size = 0
    for part in parts:
        if run and size + len(part) > _PIECE_BYTES:
            # how much of this part goes along with the small ones before it
            along = _HEAD_BYTES - size
            view = memoryview(part)[max(0, along) :]
            if along > 0:
                run.append(memoryview(part)[:along])
            yield run[0] if len(run) == 1 else b"".join(run)
            run, size = [view], len(view)
        else:
            run.append(part)
            size += len(part)
    if run:
        yield run[0] if len(run) == 1 else b"".join(run)
