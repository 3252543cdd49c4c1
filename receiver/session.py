"""One connection from its first byte to its end: which dialect, reading within memory, and every
way to part.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol

from logdrive.errors import ProtocolError, TransientError
from logdrive.model.limits import RUN_RECORDS
from logdrive.net.stream import ByteStream, Peer
from logdrive.net.turns import Portion
from logdrive.wire.lumberjack.frames import Frame, JsonRun, RefusalCode
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameDialect, FrameReader
from receiver.connection import ConnectionContext, Disconnect
from receiver.dialects.keepalive import Keepalive
from receiver.dialects.logdrive1 import Logdrive1Receiver
from receiver.dialects.lumberjack import LumberjackReceiver
from receiver.services import ReceiverServices

_MOMENT = 0.001  # seconds: less is none
_PORTION_STEPS = 16
"""After so many of the reader's steps the others have a turn, and sooner where these take long."""
_SLICE_EVENTS = RUN_RECORDS
"""So many events, a batch of them, are a step: a peer may let every one be a window of its own."""


class ReceivingDialect(Protocol):
    """What differs between the dialects."""

    dialect: str

    @property
    def waiting(self) -> bool:
        """Whether the peer waits for us and may be told to go on waiting."""
        ...

    @property
    def patient(self) -> bool:
        """Whether the peer may be told at any time that we live."""
        ...

    @property
    def quiet_seconds(self) -> float | None:
        """After how long a silence `quiet` is due."""
        ...

    @property
    def assembled(self) -> int:
        """Bytes of whole frames kept because what they belong to is not whole."""
        ...

    @property
    def amid_window(self) -> bool:
        """Whether a peer that ends its side now has broken a promise."""
        ...

    def take(self, frames: Sequence[Frame]) -> None:
        """Act on *frames*."""
        ...

    def quiet(self) -> None:
        """Act on a silence."""
        ...

    def goodbye(self, farewell: Disconnect) -> None:
        """Tell the peer why we part."""
        ...

    def end(self) -> None:
        """Let go of everything."""
        ...


def dialect_of(peer: Peer) -> FrameDialect:
    """Return what *peer* speaks: agreed on by ALPN, or told by the first frame where there is no
    TLS to agree in.
    """
    if peer.alpn == "logdrive/1":
        return "logdrive/1"
    return "lumberjack" if peer.secure else "detect"


class ReceiverSession:
    """Serves one connection. `run` returns when it is over; `leave` ends it from outside."""

    __slots__ = (
        "_fed",
        "_keepalive",
        "_link",
        "_reader",
        "_scope",
        "_services",
        "_stopped",
        "_stream",
        "_talk",
    )

    def __init__(self, services: ReceiverServices, stream: ByteStream) -> None:
        self._services, self._stream = services, stream
        self._scope: asyncio.Timeout | None = None
        self._link: ConnectionContext | None = None
        self._talk: ReceivingDialect | None = None
        self._keepalive: Keepalive | None = None
        self._fed = 0
        self._stopped = False  # reading, for want of memory
        dialect = dialect_of(stream.peer)
        self._reader = FrameReader(
            LOGDRIVE_1 if dialect == "logdrive/1" else PLAIN_LUMBERJACK,
            side="reader",
            dialect=dialect,
        )

    async def run(self) -> None:
        """Serve until the peer or we end it."""
        async with asyncio.TaskGroup() as group:
            link = self._link = ConnectionContext(self._services, self._stream, group)
            link.on_leave = self._interrupt
            link.account.evict = self._evict
            link.spawn(link.outbox.run())
            try:
                await self._serve(link)
            finally:
                self._end(link)

    def leave(self, farewell: Disconnect) -> None:
        """End the conversation as soon as its reader looks up."""
        if self._link is not None:
            self._link.leave(farewell)

    def _evict(self, reason: str) -> None:
        self.leave(Disconnect(RefusalCode.TRY_LATER, reason))

    # Reading -------------------------------------------------------------------------------------

    async def _serve(self, link: ConnectionContext) -> None:
        farewell: Disconnect | None = None
        if self._reader.dialect == "logdrive/1":
            self._meet(link)
        try:
            while data := await self._next(link):
                await self._take(link, data)
            self._look_back(link)
        except ProtocolError as error:
            self._services.counters.protocol_errors += 1
            link.log.warning(
                "peer broke the protocol",
                reason=str(error),
                count=self._services.counters.protocol_errors,
            )
            farewell = Disconnect(RefusalCode(error.code), str(error))
        except Disconnect as reason:
            say = (
                link.log.debug
                if reason.told
                else link.log.info
                if reason.code is RefusalCode.DRAINING
                else link.log.warning
            )
            say("connection ended here", reason=reason.text)
            farewell = reason
            farewell.__traceback__ = None  # which would keep what was being read
        except TransientError as error:
            link.log.info("connection lost", reason=str(error))
            return
        await self._part(link, farewell)

    async def _next(self, link: ConnectionContext) -> bytes:
        """Return the next bytes, b"" where the peer has ended its side.

        Raises `Disconnect` where we have had enough.
        """
        loop, silent = asyncio.get_running_loop(), 0.0
        while True:
            await self._admitted(link)
            began, patience = loop.time(), self._patience(link, silent)
            link.account.reads()
            try:
                async with asyncio.timeout(patience) as self._scope:
                    return await self._stream.read()
            except TimeoutError:
                silent += loop.time() - began
                link.account.has_read()
                self._lapse(link, silent)
            finally:
                link.account.has_read()
                self._scope = None

    async def _admitted(self, link: ConnectionContext) -> None:
        """Return once there is memory to go on with. Raises `Disconnect` where we have had enough.

        The peer may be waiting for us though nothing of its window was read: it is kept patient.
        """
        if link.farewell is None and link.account.admitted:
            return
        admitted, self._stopped = False, True
        if self._keepalive is not None:
            self._keepalive.look()
        while not admitted and link.farewell is None:
            try:
                async with asyncio.timeout(None) as self._scope:
                    await link.account.admit()
                    admitted = True
            except TimeoutError:  # somebody told us to leave
                continue
            finally:
                self._scope = None
        self._stopped = False
        if link.farewell is not None:  # what failed may just have made the room that was waited for
            raise link.farewell

    def _patience(self, link: ConnectionContext, silent: float) -> float:
        """Return for how long the peer may be silent, after *silent* seconds of it, before
        something is due.
        """
        if (patience := link.account.patience) is not None:
            return patience
        quiet = self._talk.quiet_seconds if self._talk is not None else None
        return quiet if quiet is not None and not silent else self._services.listen.idle_seconds

    def _lapse(self, link: ConnectionContext, silent: float) -> None:
        """Act on a silence. Raises `Disconnect` where it was too long."""
        if link.farewell is not None:
            return
        patience = link.account.patience
        if patience is not None and patience < _MOMENT:
            raise Disconnect(
                RefusalCode.TRY_LATER, "memory is full, and this connection does not end its window"
            )
        if silent >= self._services.listen.idle_seconds and not link.acks.owing:
            raise Disconnect(RefusalCode.DRAINING, f"idle for {silent:.0f} s", finish=True)
        if self._talk is not None:
            self._talk.quiet()

    def _interrupt(self) -> None:
        """Make whoever waits under `_scope` look up."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def _take(self, link: ConnectionContext, data: bytes) -> None:
        """Act on *data* in small steps, with turns for the others between them.

        What an envelope holds is asked for before it is unpacked: each step has to be admitted, as
        a read has.
        """
        self._fed += len(data)
        portion = Portion(self._services.turns, _PORTION_STEPS)
        for frames in self._steps(link, data):
            assert self._talk is not None
            for some in _slices(frames):
                if some:
                    self._talk.take(some)
                await portion.step()
            self._hold(link)
            await self._admitted(link)
        self._hold(link)

    def _steps(self, link: ConnectionContext, data: bytes) -> Iterator[Sequence[Frame]]:
        """Give the frames in *data*, a few at a time; the first one ever makes us meet."""
        steps = self._reader.steps(data)
        while True:
            try:
                frames = next(steps, None)
            finally:
                link.offset = self._reader.offset
                if self._reader.version:
                    self._meet(link)
            if frames is None:
                return
            yield frames

    def _hold(self, link: ConnectionContext) -> None:
        assembled = self._talk.assembled if self._talk is not None else 0
        link.account.hold(self._fed - self._reader.offset + self._reader.opened + assembled)
        if self._keepalive is not None:
            self._keepalive.look()

    def _look_back(self, link: ConnectionContext) -> None:
        """Say where a peer that has ended its side left something unfinished; what was whole is
        acknowledged all the same.
        """
        cut = self._fed - self._reader.offset
        if link.outbox.broken is not None:
            link.log.info("connection lost", reason=link.outbox.broken)
        elif cut or (self._talk is not None and self._talk.amid_window):
            what = f"a frame, {cut} bytes of which had come," if cut else "a window"
            self._services.counters.protocol_errors += 1
            link.log.warning(
                "peer left too early",
                reason=f"it ended in the middle of {what} at stream offset {self._reader.offset}",
            )

    def _meet(self, link: ConnectionContext) -> None:
        """Begin to talk, in the dialect that ALPN or the first frame told."""
        if self._talk is not None:
            return
        talk: ReceivingDialect = (
            Logdrive1Receiver(link)
            if self._reader.dialect == "logdrive/1"
            else LumberjackReceiver(link, self._reader.version)
        )
        self._talk = talk
        seconds = self._services.listen.keepalive_seconds
        self._keepalive = Keepalive(
            link.outbox, self._services.counters, seconds, self._keeps_waiting
        )
        link.log = link.log.bind(dialect=talk.dialect)

    def _keeps_waiting(self) -> bool:
        """Tell whether the peer waits for us, and may be told to go on waiting."""
        return self._talk is not None and (
            self._talk.waiting or (self._stopped and self._talk.patient)
        )

    # Parting -------------------------------------------------------------------------------------

    async def _part(self, link: ConnectionContext, farewell: Disconnect | None) -> None:
        """Say why, finish what was received where that is wanted, and close.

        The peer that only ended its side may still read.
        """
        self._reader.forget()
        link.account.hold(self._talk.assembled if self._talk is not None else 0)
        if self._talk is not None:
            if farewell is not None:
                self._talk.goodbye(farewell)
            if farewell is None or farewell.finish:
                self._talk.quiet()
                await self._finished(link)
        link.outbox.seal()
        await link.outbox.flushed()
        await self._stream.close()

    async def _finished(self, link: ConnectionContext) -> None:
        """Return once every whole window is acknowledged, or can't be."""
        link.finish()
        try:
            async with asyncio.timeout(None) as self._scope:
                await link.acks.finished()
        except TimeoutError:  # somebody told us to leave: a sink that failed, a receiver that ends
            pass
        finally:
            self._scope = None

    def _end(self, link: ConnectionContext) -> None:
        if self._keepalive is not None:
            self._keepalive.cancel()
        if self._talk is not None:
            self._talk.end()
        link.account.close()
        link.cancel()


def _slices(frames: Sequence[Frame]) -> Iterator[Sequence[Frame]]:
    """Cut *frames* where they have more than so many events together; a run stays whole."""
    start = events = 0
    for at, frame in enumerate(frames, 1):
        events += len(frame) if isinstance(frame, JsonRun) else 1
        if events >= _SLICE_EVENTS and at < len(frames):
            yield frames[start:at]
            start, events = at, 0
    yield frames[start:] if start else frames  # none, too: that was a step all the same
