"""The Iggy face: serves the connections that it is given.

R3's frames begin with four zero bytes, those of the classic revisions never do.
"""

import asyncio
import contextlib
from typing import Final

import structlog

from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.host.heap import Heap
from logdrive.host.transport import ByteStream
from logdrive.model.units import MIB
from logdrive.net.turns import Turns
from logdrive.services.face_memory import FaceMemoryBudget
from logdrive.services.iggy.server.answering import IggyAnswering
from logdrive.services.iggy.server.classic_dialog import ClassicDialog
from logdrive.services.iggy.server.connection import IggyConnection
from logdrive.services.iggy.server.dialog import IggyDialog
from logdrive.services.iggy.server.sessions import IggySession, IggySessions
from logdrive.services.iggy.server.vsr_dialog import VsrDialog
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.frames import encode_reply_frame
from logdrive.wire.iggy.revision import Revision

HELD_BYTES: Final = 256 * MIB
"""Limit on the bytes of requests that have come in part or are not answered, and of answers that
clients do not read, over all connections."""
SEND_BYTES: Final = 96 * MIB
"""Limit on one send: it holds a message of the greatest length, with its headers."""
_DRAIN_SECONDS: Final = 5.0
"""Limit on the time in which connections may finish when the server closes."""
_LOOK_SECONDS: Final = 10.0
"""Seconds between two searches for clients that have been silent for too long."""
_MARK_BYTES: Final = 4
"""First bytes of a connection, which are all zero in R3 alone."""
_log = structlog.get_logger("logdrive.store.iggy")


class IggyServer:
    """Serves the clients of one store: pass `serve_connection` to `Transport.listen`.

    *fixed* is the revision that all clients speak; None: that of each client is recognized by what
    it sends first. *nameless*: clients of R0 are served, which has no logins. Run
    `evict_silent_clients` as a task. At the end `close` answers what was begun and then ends all
    connections; `abort` resets them at once.
    """

    def __init__(
        self,
        answering: IggyAnswering,
        sessions: IggySessions,
        *,
        fixed: Revision | None,
        nameless: bool,
        held_bytes: int = HELD_BYTES,
        send_bytes: int = SEND_BYTES,
    ) -> None:
        self._answering = answering
        self._sessions = sessions
        self._fixed = fixed
        self._nameless = nameless
        self._send_bytes = send_bytes
        self._memory = FaceMemoryBudget(held_bytes, Heap())
        self._turns = Turns()
        self._connections: dict[IggyConnection, None] = {}
        # connections without their first bytes
        self._detecting: dict[ByteStream, None] = {}
        self._none = asyncio.Event()
        self._none.set()
        self._closed = False

    async def serve_connection(self, stream: ByteStream) -> None:
        """Serve one connection until it ends."""
        # its TLS handshake was under way when the listener was closed
        if self._closed:
            stream.abort()
            return
        self._none.clear()
        try:
            first = await self._read_first(stream)
            if first:
                await self._serve(stream, first)
        finally:
            if not self._connections and not self._detecting:
                self._none.set()

    async def _read_first(self, stream: ByteStream) -> bytes:
        """Return the first bytes, by which R3's frames are recognized; b"" if none come."""
        first = b""
        self._detecting[stream] = None
        try:
            while len(first) < _MARK_BYTES and not self._closed:
                data = await stream.read()
                if not data:
                    return b""
                first += data
        except TransientError:
            return b""
        finally:
            del self._detecting[stream]
        return first

    async def _serve(self, stream: ByteStream, first: bytes) -> None:
        replicated = first[:_MARK_BYTES] == bytes(_MARK_BYTES)
        if self._fixed is not None and replicated != (self._fixed is Revision.R3):
            await self._turn_away(stream, self._fixed, replicated)
            return
        session = self._sessions.open_session(stream.peer.address, Revision.R3)
        dialog = self._dialog_of(session, replicated)
        connection = IggyConnection(
            stream, dialog, self._answering, memory=self._memory, turns=self._turns
        )
        self._connections[connection] = None
        try:
            await connection.run(first)
        finally:
            del self._connections[connection]
            self._sessions.close_session(dialog.session)

    def _dialog_of(self, session: IggySession, replicated: bool) -> IggyDialog:
        if replicated:
            return VsrDialog(session, self._sessions, send_bytes=self._send_bytes)
        return ClassicDialog(
            session,
            self._answering,
            fixed=self._fixed,
            nameless=self._nameless,
            send_bytes=self._send_bytes,
        )

    async def _turn_away(self, stream: ByteStream, fixed: Revision, replicated: bool) -> None:
        """Close the connection of a client that speaks another revision than was configured.

        A client of R3 is told, as by a real server of a classic revision.
        """
        reason = f"its frames are {'those of R3' if replicated else 'classic'}"
        _log.info("connection ended", peer=stream.peer.address, reason=reason, serves=fixed.name)
        if replicated:
            with contextlib.suppress(TransientError):
                code = IggyError(Reason.INVALID_COMMAND).code(fixed)
                await stream.write([encode_reply_frame(code)])

    async def evict_silent_clients(self, clock: Clock) -> None:
        """End the sessions of clients that are silent for too long, until cancelled."""
        while True:
            await clock.sleep(_LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection in list(self._connections):
                if connection.is_stale(now):
                    await connection.expire()

    async def close(self) -> None:
        """End all connections within a few seconds: what was begun is answered first.

        Close the listener before.
        """
        self._closed = True
        for stream in list(self._detecting):
            stream.abort()
        for connection in list(self._connections):
            connection.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._none.wait()
        self.abort()
        await self._none.wait()

    def abort(self) -> None:
        """Reset all connections: nothing is answered any more."""
        self._closed = True
        for stream in list(self._detecting):
            stream.abort()
        for connection in list(self._connections):
            connection.abandon()
