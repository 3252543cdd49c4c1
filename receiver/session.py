"""One connection from its first byte to its end: which dialect, reading within memory, and every way to part."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from logdrive.errors import ProtocolError, TransientError
from logdrive.limits import LOGDRIVE_1, PLAIN_LUMBERJACK
from logdrive.net.stream import Peer, Stream
from logdrive.wire.lumberjack.frames import Frame, RefusalCode
from logdrive.wire.lumberjack.reader import Dialect, FrameReader
from receiver.foreign import ForeignTalk
from receiver.keepalive import Keepalive
from receiver.link import Farewell, Link
from receiver.native import NativeTalk
from receiver.services import Services

_OVERDRAWN_SECONDS = 10.0
"""How long a connection may keep everybody waiting that reads beyond the memory limit."""


class Talk(Protocol):
    """What differs between the dialects."""

    dialect: str

    @property
    def waiting(self) -> bool:
        """Whether the peer waits for us and may be told to go on waiting."""
        ...

    @property
    def quiet_seconds(self) -> float | None:
        """After how long a silence `quiet` is due."""
        ...

    def take(self, frames: Sequence[Frame]) -> None:
        """Act on *frames*."""
        ...

    def quiet(self) -> None:
        """Act on a silence."""
        ...

    def goodbye(self, farewell: Farewell) -> None:
        """Tell the peer why we part."""
        ...

    def end(self) -> None:
        """Let go of everything."""
        ...


def dialect_of(peer: Peer) -> Dialect:
    """Return what *peer* speaks: agreed on by ALPN, or told by the first frame where there is no TLS to agree in."""
    if peer.alpn == "logdrive/1":
        return "logdrive/1"
    return "lumberjack" if peer.secure else "detect"


class Session:
    """Serves one connection. `run` returns when it is over; `leave` ends it from outside."""

    def __init__(self, services: Services, stream: Stream) -> None:
        self._services, self._stream = services, stream
        self._scope: asyncio.Timeout | None = None
        self._link: Link | None = None
        self._talk: Talk | None = None
        self._keepalive: Keepalive | None = None
        self._fed = 0
        dialect = dialect_of(stream.peer)
        self._reader = FrameReader(LOGDRIVE_1 if dialect == "logdrive/1" else PLAIN_LUMBERJACK, side="reader", dialect=dialect)
        self._log = services.log.bind(peer=stream.peer.address, identity=stream.peer.identity)

    async def run(self) -> None:
        """Serve until the peer or we end it."""
        async with asyncio.TaskGroup() as group:
            link = self._link = Link(self._services, self._stream, group)
            link.on_leave = self._interrupt
            link.spawn(link.outbox.run())
            try:
                await self._serve(link)
            finally:
                self._end(link)

    def leave(self, farewell: Farewell) -> None:
        """End the conversation as soon as its reader looks up."""
        if self._link is not None:
            self._link.leave(farewell)

    # Reading -----------------------------------------------------------------------------------------------------------

    async def _serve(self, link: Link) -> None:
        farewell: Farewell | None = None
        if self._reader.dialect == "logdrive/1":
            self._meet(link)
        try:
            while data := await self._next(link):
                self._take(link, data)
        except ProtocolError as error:
            self._services.counters.protocol_errors += 1
            self._log.warning("peer broke the protocol", reason=str(error), count=self._services.counters.protocol_errors)
            farewell = Farewell(RefusalCode(error.code), str(error))
        except Farewell as reason:
            say = self._log.info if reason.code is RefusalCode.DRAINING else self._log.warning
            say("connection ended here", reason=reason.text)
            farewell = reason
        except TransientError as error:
            self._log.info("connection lost", reason=str(error))
            return
        await self._part(link, farewell)

    async def _next(self, link: Link) -> bytes:
        """Return the next bytes, b"" where the peer has ended its side. Raises `Farewell` where we have had enough."""
        loop, silent = asyncio.get_running_loop(), 0.0
        while True:
            if link.farewell is not None:
                raise link.farewell
            patience = self._patience(link, silent)
            try:
                async with asyncio.timeout(None) as self._scope:
                    await link.account.admit()
                    if link.farewell is None:
                        self._scope.reschedule(loop.time() + patience)
                        return await self._stream.read()
            except TimeoutError:
                silent += patience
                self._lapse(link, silent)
            finally:
                self._scope = None

    def _patience(self, link: Link, silent: float) -> float:
        """Return for how long the peer may be silent, after *silent* seconds of it, before something is due."""
        if link.account.overdrawn:
            return _OVERDRAWN_SECONDS
        quiet = self._talk.quiet_seconds if self._talk is not None else None
        return quiet if quiet is not None and not silent else self._services.listen.idle_seconds

    def _lapse(self, link: Link, silent: float) -> None:
        """Act on a silence. Raises `Farewell` where it was too long."""
        if link.farewell is not None:
            return
        if link.account.overdrawn:
            raise Farewell(RefusalCode.TRY_LATER, "memory is full, and this connection does not end its window")
        if silent >= self._services.listen.idle_seconds and not link.acks.owing:
            raise Farewell(RefusalCode.DRAINING, f"idle for {silent:.0f} s", finish=True)
        if self._talk is not None:
            self._talk.quiet()

    def _interrupt(self) -> None:
        """Make whoever waits under `_scope` look up."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def _take(self, link: Link, data: bytes) -> None:
        self._fed += len(data)
        try:
            frames = self._reader.feed(data)
        finally:
            link.offset = self._reader.offset
            if self._reader.version:
                self._meet(link)
        if self._talk is not None:
            self._talk.take(frames)
        link.account.hold(self._fed - self._reader.offset)
        if self._keepalive is not None:
            self._keepalive.look()

    def _meet(self, link: Link) -> None:
        """Begin to talk, in the dialect that ALPN or the first frame told."""
        if self._talk is not None:
            return
        talk: Talk = NativeTalk(link) if self._reader.dialect == "logdrive/1" else ForeignTalk(link, self._reader.version)
        self._talk = talk
        seconds = self._services.listen.keepalive_seconds
        self._keepalive = Keepalive(link.outbox, self._services.counters, seconds, lambda: talk.waiting)
        self._log = self._log.bind(dialect=talk.dialect)

    # Parting -----------------------------------------------------------------------------------------------------------

    async def _part(self, link: Link, farewell: Farewell | None) -> None:
        """Say why, finish what was received where that is wanted, and close. The peer that only ended its side may still read."""
        if self._talk is not None:
            if farewell is not None:
                self._talk.goodbye(farewell)
            if farewell is None or farewell.finish:
                self._talk.quiet()
                await self._finished(link)
        link.outbox.seal()
        await link.outbox.flushed()
        await self._stream.close()

    async def _finished(self, link: Link) -> None:
        """Return once every whole window is acknowledged, or can't be."""
        link.finish()
        try:
            async with asyncio.timeout(None) as self._scope:
                await link.acks.finished()
        except TimeoutError:  # somebody told us to leave: a sink that failed, a receiver that ends
            pass
        finally:
            self._scope = None

    def _end(self, link: Link) -> None:
        if self._keepalive is not None:
            self._keepalive.cancel()
        if self._talk is not None:
            self._talk.end()
        link.account.close()
        link.cancel()
