"""The second phase of a session: the dialect is known, and its frames come in, until the end."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from logdrive.model.limits import RUN_RECORDS
from logdrive.net.turns import Portion
from logdrive.wire.lumberjack.frames import Frame, JsonRun
from logdrive.wire.lumberjack.reader import FrameReader
from receiver.connection import ConnectionContext, Disconnect
from receiver.dialects.keepalive import Keepalive
from receiver.peer_input import PeerInput

PORTION_STEPS = 16
"""Steps of the frame reader after which other connections have a turn; sooner if these take long.
"""
_SLICE_EVENTS = RUN_RECORDS
"""Limit on the events handled in one step, a batch of them: a peer may make each a window."""


class ReceivingDialect(Protocol):
    """What a session asks of the dialect that its peer speaks.

    One object a connection, made by `receiver.session` once the dialect is known.
    """

    @property
    def dialect(self) -> str:
        """The name in logs and batch headers: `logdrive/1`, `lumberjack/2` or `lumberjack/1`."""
        ...

    @property
    def peer_waits(self) -> bool:
        """Whether the peer waits for a frame of ours, so that it wants keepalives meanwhile."""
        ...

    @property
    def takes_keepalives(self) -> bool:
        """Whether the peer may be sent a keepalive at any time."""
        ...

    @property
    def idle_after_seconds(self) -> float | None:
        """Seconds of silence after which `on_idle` is due; None for never."""
        ...

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of whole frames that are kept because their run is not whole yet, or not handled,
        and of what is unpacked of them.
        """
        ...

    @property
    def window_unfinished(self) -> bool:
        """Whether a peer that ends its side now has left a window unfinished against the rules."""
        ...

    def on_frames(self, frames: Sequence[Frame]) -> Iterable[None]:
        """Called with the next frames of the connection, in order; at most `_SLICE_EVENTS` events,
        or one run.

        To append, submit to the sink and return; the acknowledgement follows by itself
        (`AckQueue`). What takes long, or memory, is done in steps: the frames are handled once the
        iterator is exhausted, memory is asked for before each step of it, and counted after it
        (`unfinished_bytes`).
        Raises `ProtocolError` if a frame breaks a rule, and `Disconnect` to end the connection,
        from the call or from a step.
        """
        ...

    def on_idle(self) -> None:
        """Called after `idle_after_seconds` of silence, and once before a connection that ends
        well is finished.
        """
        ...

    def send_reason(self, reason: Disconnect) -> None:
        """Called before we close the connection on purpose: send the peer the reason, if the
        dialect has a frame for it.
        """
        ...

    def on_closed(self) -> None:
        """Called once, last: give back what the connection holds. Nothing can be sent any more."""
        ...


class Conversation:
    """The frames of one connection whose dialect is known; *data* was read already."""

    __slots__ = ("_data", "_dialect", "_input", "_keepalive", "_link", "_reader", "_received")

    def __init__(
        self,
        link: ConnectionContext,
        peer_input: PeerInput,
        reader: FrameReader,
        dialect: ReceivingDialect,
        data: bytes,
    ) -> None:
        self._link = link
        self._input = peer_input
        self._reader = reader
        self._dialect = dialect
        self._data = data  # to be handled next; b"" while nothing has come
        self._received = 0  # bytes given to the reader
        self._keepalive = Keepalive(
            link.outbox,
            link.services.counters,
            link.services.listen.keepalive_seconds,
            self._peer_waits,
        )

    async def run(self) -> None:
        """Handle what comes until the peer has ended its side.

        Raises `ProtocolError`, `Disconnect` and `TransientError`.
        """
        if self._data:
            await self._handle()
        while True:
            self._data = await self._input.read(self)
            if not self._data:
                break
            await self._handle()
        warn_if_truncated(
            self._link,
            self._reader,
            self._received,
            window_unfinished=self._dialect.window_unfinished,
        )

    # What the input asks and tells ---------------------------------------------------------------

    @property
    def idle_after_seconds(self) -> float | None:
        """Seconds of silence after which the dialect wants `on_idle`."""
        return self._dialect.idle_after_seconds

    def on_idle(self) -> None:
        """Pass a silence on to the dialect."""
        self._dialect.on_idle()

    def on_reading_stopped(self) -> None:
        """Send keepalives while nothing is read: the peer may wait for us, though nothing of its
        window was read yet.
        """
        self._keepalive.start_if_peer_waits()

    def _peer_waits(self) -> bool:
        dialect = self._dialect
        return dialect.peer_waits or (self._input.stopped and dialect.takes_keepalives)

    # Frames --------------------------------------------------------------------------------------

    async def _handle(self) -> None:
        """Act on `_data` in small steps, with turns for other connections between them.

        Memory for what an envelope or a pack holds is asked for before each step that unpacks some
        of it, as it is before a read.
        """
        # an idle connection must not keep what it read last
        data, self._data = self._data, b""
        self._received += len(data)
        portion = Portion(self._link.services.turns, PORTION_STEPS)
        for frames in self._steps(data):
            for some in _slices(frames):
                for _ in self._dialect.on_frames(some) if some else ():
                    await self._end_step(portion)
                await portion.end_step()
            self._update_allocation()
            await self._input.wait_admitted(self)
        self._update_allocation()

    async def _end_step(self, portion: Portion) -> None:
        """Count what the dialect's step has taken, and wait for memory for the next one."""
        self._update_allocation()
        await portion.end_step()
        await self._input.wait_admitted(self)

    def _steps(self, data: bytes) -> Iterator[Sequence[Frame]]:
        """Yield the frames in *data*, a few at a time; `ConnectionContext.offset` follows them."""
        steps = self._reader.receive_in_steps(data)
        while True:
            try:
                frames = next(steps, None)
            finally:
                self._link.offset = self._reader.offset
            if frames is None:
                return
            yield frames

    def _update_allocation(self) -> None:
        unread = self._received - self._reader.offset
        self._link.allocation.set_buffered(
            unread + self._reader.unpacked_bytes + self._dialect.unfinished_bytes
        )
        self._keepalive.start_if_peer_waits()

    # Ending --------------------------------------------------------------------------------------

    async def close(self, reason: Disconnect | None) -> None:
        """Send *reason*, if we end the connection, and finish what was received unless the reason
        says not to.

        A peer that only ended its side may still read its acknowledgements.
        """
        self._reader.discard_rest()
        self._link.allocation.set_buffered(self._dialect.unfinished_bytes)

        if reason is not None:
            self._dialect.send_reason(reason)

        if reason is None or reason.finish:
            self._dialect.on_idle()  # a window that the peer left unfinished is acknowledged so far
            self._link.begin_finishing()
            # interrupted by a sink that failed, or a receiver that ends: the rest is not awaited
            await self._input.wait_unless_interrupted(self._link.acks.wait_finished())

    def end(self) -> None:
        """Release what the conversation holds, however it ended.

        The budget counts none of it any more, and its objects may wait long for Python's collector.
        """
        self._keepalive.cancel()
        self._reader.discard_rest()
        self._dialect.on_closed()


def warn_if_truncated(
    link: ConnectionContext, reader: FrameReader, received: int, *, window_unfinished: bool
) -> None:
    """Log a warning if the peer ended its side, after *received* bytes, in the middle of a frame or
    a window. What was whole is acknowledged all the same.
    """
    cut = received - reader.offset
    if link.outbox.broken is not None:  # we aborted the stream ourselves: the peer is not at fault
        link.log.info("connection lost", reason=link.outbox.broken)
    elif cut or window_unfinished:
        what = f"a frame, {cut} bytes of which had come," if cut else "a window"
        link.services.counters.protocol_errors += 1
        link.log.warning(
            "peer left too early",
            reason=f"it ended in the middle of {what} at stream offset {reader.offset}",
        )


def _slices(frames: Sequence[Frame]) -> Iterator[Sequence[Frame]]:
    """Yield *frames* in slices of at most `_SLICE_EVENTS` events; a run stays whole.

    No frames are one empty slice: the reader's step that gave them counts all the same.
    """
    start = events = 0
    for at, frame in enumerate(frames, 1):
        events += len(frame) if isinstance(frame, JsonRun) else 1
        if events >= _SLICE_EVENTS and at < len(frames):
            yield frames[start:at]
            start, events = at, 0
    yield frames[start:] if start else frames
