"""One connection from its first byte to its end: which dialect, reading within memory, and every way to part."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol

from logdrive.errors import ProtocolError, TransientError
from logdrive.limits import LOGDRIVE_1, MIB, PLAIN_LUMBERJACK, RUN_RECORDS
from logdrive.net.stream import Peer, Stream
from logdrive.wire.lumberjack.frames import Frame, JsonRun, RefusalCode
from logdrive.wire.lumberjack.reader import Dialect, FrameReader
from receiver.foreign import ForeignTalk
from receiver.keepalive import Keepalive
from receiver.link import Farewell, Link
from receiver.native import NativeTalk
from receiver.services import Services

_OVERDRAWN_SECONDS = 10.0
"""How long a connection may keep everybody waiting that reads beyond the memory limit, whatever it sends meanwhile."""
_TURN_SECONDS, _TURN_BYTES = 0.02, 4 * MIB
"""After so long, or so many bytes out of envelopes, the others have a turn before more of one read is looked at."""
_SLICE_FRAMES = 1024
_SLICE_EVENTS = RUN_RECORDS
"""After so many events, a batch of them, the time is looked at: a peer may let every one be a window of its own."""


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
                await self._take(link, data)
            self._look_back(link)
        except ProtocolError as error:
            self._services.counters.protocol_errors += 1
            self._log.warning("peer broke the protocol", reason=str(error), count=self._services.counters.protocol_errors)
            farewell = Farewell(RefusalCode(error.code), str(error))
        except Farewell as reason:
            say = self._log.debug if reason.told else self._log.info if reason.code is RefusalCode.DRAINING else self._log.warning
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
            await self._admitted(link)
            began, patience = loop.time(), self._patience(link, silent)
            try:
                async with asyncio.timeout(patience) as self._scope:
                    return await self._stream.read()
            except TimeoutError:
                silent += loop.time() - began
                self._lapse(link, silent)
            finally:
                self._scope = None

    async def _admitted(self, link: Link) -> None:
        """Return once there is memory to go on with. Raises `Farewell` where we have had enough."""
        admitted = False
        while not admitted and link.farewell is None:
            try:
                async with asyncio.timeout(None) as self._scope:
                    await link.account.admit()
                    admitted = True
            except TimeoutError:  # somebody told us to leave
                continue
            finally:
                self._scope = None
        if link.farewell is not None:  # what failed may just have made the room that was waited for
            raise link.farewell

    def _patience(self, link: Link, silent: float) -> float:
        """Return for how long the peer may be silent, after *silent* seconds of it, before something is due."""
        since = link.account.overdrawn_since
        if since is not None:
            return max(0.0, since + _OVERDRAWN_SECONDS - asyncio.get_running_loop().time())
        quiet = self._talk.quiet_seconds if self._talk is not None else None
        return quiet if quiet is not None and not silent else self._services.listen.idle_seconds

    def _lapse(self, link: Link, silent: float) -> None:
        """Act on a silence. Raises `Farewell` where it was too long."""
        if link.farewell is not None:
            return
        if link.account.overdrawn_since is not None:
            raise Farewell(RefusalCode.TRY_LATER, "memory is full, and this connection does not end its window")
        if silent >= self._services.listen.idle_seconds and not link.acks.owing:
            raise Farewell(RefusalCode.DRAINING, f"idle for {silent:.0f} s", finish=True)
        if self._talk is not None:
            self._talk.quiet()

    def _interrupt(self) -> None:
        """Make whoever waits under `_scope` look up."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def _take(self, link: Link, data: bytes) -> None:
        """Act on *data* in steps, an envelope at most in each: what many of them hold, packed small, is never in memory at once."""
        loop = asyncio.get_running_loop()
        self._fed += len(data)
        began, unpacked = loop.time(), self._reader.unpacked
        for frames in self._steps(link, data):
            assert self._talk is not None
            await self._take_some(self._talk, frames)
            self._hold(link)
            if loop.time() - began > _TURN_SECONDS or self._reader.unpacked - unpacked > _TURN_BYTES:
                await asyncio.sleep(0)
                await self._admitted(link)
                began, unpacked = loop.time(), self._reader.unpacked
        self._hold(link)

    async def _take_some(self, talk: Talk, frames: Sequence[Frame]) -> None:
        """Let *talk* have all *frames*, and the others a turn wherever that takes long."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for some in _slices(frames):
            talk.take(some)
            if loop.time() - began > _TURN_SECONDS:
                await asyncio.sleep(0)
                began = loop.time()

    def _steps(self, link: Link, data: bytes) -> Iterator[Sequence[Frame]]:
        """Give the frames in *data*, not too many at once; the first one ever makes us meet."""
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
            for start in range(0, len(frames), _SLICE_FRAMES):
                yield frames[start : start + _SLICE_FRAMES] if len(frames) > _SLICE_FRAMES else frames

    def _hold(self, link: Link) -> None:
        assembled = self._talk.assembled if self._talk is not None else 0
        link.account.hold(self._fed - self._reader.offset + assembled)
        if self._keepalive is not None:
            self._keepalive.look()

    def _look_back(self, link: Link) -> None:
        """Say where a peer that has ended its side left something unfinished; what was whole is acknowledged all the same."""
        cut = self._fed - self._reader.offset
        if link.outbox.broken is not None:
            self._log.info("connection lost", reason=link.outbox.broken)
        elif cut or (self._talk is not None and self._talk.amid_window):
            what = f"a frame, {cut} bytes of which had come," if cut else "a window"
            self._services.counters.protocol_errors += 1
            self._log.warning("peer left too early", reason=f"it ended in the middle of {what} at stream offset {self._reader.offset}")

    def _meet(self, link: Link) -> None:
        """Begin to talk, in the dialect that ALPN or the first frame told."""
        if self._talk is not None:
            return
        talk: Talk = NativeTalk(link) if self._reader.dialect == "logdrive/1" else ForeignTalk(link, self._reader.version)
        self._talk = talk
        seconds = self._services.listen.keepalive_seconds
        self._keepalive = Keepalive(link.outbox, self._services.counters, seconds, lambda: talk.waiting)
        self._log = link.log = self._log.bind(dialect=talk.dialect)

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


def _slices(frames: Sequence[Frame]) -> Iterator[Sequence[Frame]]:
    """Cut *frames* where they have more than so many events together; a run stays whole."""
    start = events = 0
    for at, frame in enumerate(frames, 1):
        events += len(frame) if isinstance(frame, JsonRun) else 1
        if events >= _SLICE_EVENTS and at < len(frames):
            yield frames[start:at]
            start, events = at, 0
    yield frames[start:] if start else frames
