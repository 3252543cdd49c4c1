"""One connection from its first byte to its end.

A session has two phases:

1. `DialectDetection`: until it is known which dialect the peer speaks. TLS with an ALPN name of
   `logdrive/1` says so before the first byte; otherwise the first two bytes of the first frame do.
2. `Conversation` (`receiver.conversation`): the frames, in that dialect.

Either phase ends because the peer ends its side, breaks the protocol, is to be disconnected
(`Disconnect`), or is lost. Unless it is lost, the phase then says goodbye, and the session writes
out what is queued and closes the stream.
"""

import asyncio

from logdrive.errors import ProtocolError, TransientError
from logdrive.host.transport import ByteStream, Peer
from logdrive.wire.lumberjack.extent import KIND_HEAD
from logdrive.wire.lumberjack.frames import RefusalCode
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, NATIVE, PACKED, PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameDialect, FrameReader
from receiver.connection import ConnectionContext, Disconnect
from receiver.conversation import Conversation, ReceivingDialect, warn_if_truncated
from receiver.dialects.logdrive1 import Logdrive1Receiver
from receiver.dialects.lumberjack import LumberjackReceiver
from receiver.peer_input import PeerInput
from receiver.services import ReceiverServices


class ReceiverSession:
    """Serves one connection. `run` returns when it is over; `disconnect` ends it from outside."""

    __slots__ = ("_input", "_link", "_phase", "_services", "_stream", "_tasks")

    def __init__(self, services: ReceiverServices, stream: ByteStream) -> None:
        self._services = services
        self._stream = stream
        self._tasks = asyncio.TaskGroup()
        self._link = ConnectionContext(services, stream, self._tasks)
        self._input = PeerInput(self._link, stream)
        self._phase: DialectDetection | Conversation = DialectDetection(
            self._link, self._input, stream.peer
        )

    async def run(self) -> None:
        """Serve until the peer or we end the connection."""
        link = self._link
        async with self._tasks:
            link.on_disconnect = self._input.interrupt
            link.allocation.on_evict = self._evict
            link.start_task(link.outbox.run())
            try:
                await self._serve()
            finally:
                self._phase.end()
                link.allocation.release_buffered()
                link.cancel_tasks()

    def disconnect(self, reason: Disconnect) -> None:
        """End the session with *reason*, at its next wait; only the first reason counts."""
        self._link.disconnect(reason)

    def _evict(self, reason: str) -> None:
        self.disconnect(Disconnect(RefusalCode.TRY_LATER, reason))

    async def _serve(self) -> None:
        """Run both phases; then, unless the connection is lost, say why it ends, and close it."""
        reason: Disconnect | None = None  # None: the peer has ended its side
        try:
            while (following := await self._phase.run()) is not None:
                self._phase = following
        except ProtocolError as error:
            reason = self._broken(error)
        except Disconnect as disconnect:
            reason = self._disconnected(disconnect)
        except TransientError as error:  # nothing can be sent any more
            self._link.log.info("connection lost", reason=str(error))
            return

        await self._phase.close(reason)
        self._link.outbox.seal()
        await self._link.outbox.wait_flushed()
        await self._stream.close()

    def _broken(self, error: ProtocolError) -> Disconnect:
        counters = self._services.counters
        counters.protocol_errors += 1
        self._link.log.warning(
            "peer broke the protocol", reason=str(error), count=counters.protocol_errors
        )
        return Disconnect(RefusalCode(error.code), str(error))

    def _disconnected(self, reason: Disconnect) -> Disconnect:
        log = self._link.log
        if reason.logged:  # by what asked for the end, with more detail
            say = log.debug
        elif reason.code is RefusalCode.DRAINING:  # a stop, or an idle peer: nothing is wrong
            say = log.info
        else:
            say = log.warning
        say("connection ended here", reason=reason.text)
        reason.__traceback__ = None  # which would keep what was being read
        return reason


class DialectDetection:
    """The first phase: finds out which dialect the peer speaks. Nothing is sent to it yet."""

    __slots__ = ("_data", "_input", "_link", "_reader")

    idle_after_seconds: float | None = None

    def __init__(self, link: ConnectionContext, peer_input: PeerInput, peer: Peer) -> None:
        self._link = link
        self._input = peer_input
        dialect = dialect_of(peer)
        self._reader = FrameReader(
            LOGDRIVE_1 if dialect == NATIVE else PLAIN_LUMBERJACK,
            side="reader",
            dialect=dialect,
        )
        self._data = b""  # read so far, for the conversation to begin with

    async def run(self) -> Conversation | None:
        """Return the conversation, None if the peer ended its side before its first two bytes.

        Raises `ProtocolError` if they begin no frame, `Disconnect` and `TransientError`.
        """
        if self._reader.dialect != NATIVE:
            if not await self._read_head():  # the peer has ended its side
                warn_if_truncated(
                    self._link, self._reader, len(self._data), window_unfinished=False
                )
                return None
            self._reader.detect(self._data[:KIND_HEAD])
            if not self._reader.version:  # neither v1 nor v2
                self._reader.receive_data(self._data)  # raises `ProtocolError`

        dialect = self._dialect()
        self._link.log = self._link.log.bind(dialect=dialect.dialect)
        return Conversation(self._link, self._input, self._reader, dialect, self._data)

    async def _read_head(self) -> bool:
        """Return whether the first two bytes came."""
        while more := await self._input.read(self):
            self._data += more
            if len(self._data) >= KIND_HEAD:
                return True
            self._link.allocation.set_buffered(len(self._data))
        return False

    def _dialect(self) -> ReceivingDialect:
        if self._reader.dialect == NATIVE:
            return Logdrive1Receiver(self._link)
        return LumberjackReceiver(self._link, self._reader.version)

    def on_idle(self) -> None:
        """Do nothing: the idle limit of the configuration ends silent peers."""

    def on_reading_stopped(self) -> None:
        """Do nothing: a peer of an unknown dialect can't be told to wait."""

    async def close(self, reason: Disconnect | None) -> None:
        """Forget what was read: a peer of an unknown dialect can't be told a reason."""
        self._link.allocation.set_buffered(0)

    def end(self) -> None:
        """Do nothing: a handshake holds nothing."""


def dialect_of(peer: Peer) -> FrameDialect:
    """Return the dialect that TLS agreed on, or "detect" without TLS: the first frame decides."""
    if peer.alpn in (PACKED, NATIVE):
        return NATIVE
    return "lumberjack" if peer.secure else "detect"
