"""One connection from its handshake to its end: windows out, acknowledgements in (rules D1, D3,
D9).

    demand ─▶ builder ─(frames, packing)─▶ outbox ─▶ sender ═▶ receiver ═▶ reader ─▶ sources

The builder reads files only while fewer windows are in flight than may be, so memory is bounded by
these. zstd packs in a thread, while the next window is read; the outbox keeps them in order.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from agent.delivery.dialect import EndedError, SendingDialect, SentRuns, SessionServices
from agent.delivery.window import gather, is_light, packed
from agent.delivery.window_size import WindowSizer
from agent.failures import first_cause
from logdrive.host import faults
from logdrive.model.units import KIB
from logdrive.net.stream import ByteStream
from logdrive.wire.lumberjack.ack_tracker import AckTracker
from logdrive.wire.lumberjack.frames import AckFrame

_PACKED_AHEAD: Final = 2
_WRITE_BYTES: Final = 64 * KIB
_HEADS_BYTES: Final = 64
"""So much more may go with the first slice: W goes with the beginning of its C."""
_LOOKS: Final = 4
"""How often within its time limit the peer's silence is looked at."""


class SenderSession:
    """Serves one connection; discard it afterwards.

    *progress* counts answers that moved something.
    """

    def __init__(self, services: SessionServices, talk: SendingDialect, stream: ByteStream) -> None:
        self._services, self._talk, self._stream = services, talk, stream
        self._acks: AckTracker[SentRuns] = AckTracker(talk.numbering, talk.version)
        self._outbox: asyncio.Queue[list[bytes] | asyncio.Task[list[bytes]]] = asyncio.Queue(
            _PACKED_AHEAD
        )
        self._pace = WindowSizer(talk.room.size)
        self._last = 0  # sequence number sent last
        self._heard = self._moved = services.clock.monotonic()
        self.progress = 0
        self.heard = False
        """Whether the peer has said anything."""

    @property
    def in_flight(self) -> int:
        """Windows built and not yet acknowledged."""
        return len(self._acks)

    @property
    def settled(self) -> bool:
        """Whether nothing is in flight or awaited."""
        return not self.in_flight and not self._talk.awaiting

    async def run(self) -> None:
        """Serve until the connection ends, which raises `LogdriveError` with the reason."""
        self._talk.begin()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(), name="agent-read")
                group.create_task(self._send(), name="agent-send")
                group.create_task(self._watch(), name="agent-watch")
                # here, not in a task: the group's own cancelling must end while it is entered
                # (CPython 3.11)
                await self._build(group)
        except ExceptionGroup as failures:
            raise first_cause(failures) from failures
        finally:
            self._talk.end()

    # Out -----------------------------------------------------------------------------------------

    async def _build(self, group: asyncio.TaskGroup) -> None:
        demand, talk = self._services.demand, self._talk
        while True:
            demand.changed.clear()
            retry = talk.next_retry()
            if greeting := talk.greet():
                await self._outbox.put([b"".join(greeting)])
            if await self._build_window(group):
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._idle_seconds(retry)):
                    await demand.changed.wait()

    async def _build_window(self, group: asyncio.TaskGroup) -> bool:
        """Put the next window into the outbox if one is due; tell whether it was."""
        services, talk = self._services, self._talk
        if self.in_flight >= services.settings.windows_in_flight or self._due_in() != 0.0:
            return False
        room = replace(talk.room, size=self._pace.size)
        window = gather(services.demand, services.producer, room, services.clock.monotonic())
        if not window.runs:
            return False
        if not window.records:
            self._acknowledge_untold(window.runs)
            return True
        frames = talk.frames(window.runs)
        self._last = (
            self._last + window.records if talk.numbering == "connection" else window.records
        )
        self._acks.on_window_sent(window.runs, self._last, window.records)
        self._pace.sent(window.size, services.clock.monotonic())
        if is_light(window, talk.codec):
            await self._outbox.put(
                packed(frames, window.records, talk.codec, services.settings.level, talk.version)
            )
        else:
            work = services.executor.run(
                packed, frames, window.records, talk.codec, services.settings.level, talk.version
            )
            await self._outbox.put(group.create_task(work, name="agent-pack"))
        await asyncio.sleep(0)  # whoever waits to read or send goes first
        return True

    def _due_in(self) -> float | None:
        services = self._services
        return services.demand.due_in(
            services.clock.monotonic(),
            in_flight=self.in_flight > 0,
            open_sources=self._talk.open_sources,
        )

    def _idle_seconds(self, retry: float | None) -> float | None:
        """Return after how long there may be something to do although nothing has changed."""
        due = self._due_in() if self.in_flight < self._services.settings.windows_in_flight else None
        if retry is None:
            return due
        return min(
            due if due is not None else retry, max(0.0, retry - self._services.clock.monotonic())
        )

    async def _send(self) -> None:
        while True:
            await self._send_next()

    async def _send_next(self) -> None:
        """Send one window; apart from the loop, which would keep it in memory while there is no
        other.
        """
        item = await self._outbox.get()
        parts = await item if isinstance(item, asyncio.Task) else item
        faults.reach("agent.window.before_send")
        for slice_ in _slices(parts):
            await self._stream.write(slice_)
            # a slow link is no silence
            self._heard = self._moved = self._services.clock.monotonic()
        faults.reach("agent.window.after_send")

    # In ------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        reader = self._talk.reader
        while data := await self._stream.read():
            self._heard, self.heard = self._services.clock.monotonic(), True
            for frame in reader.receive_data(data):
                if isinstance(frame, AckFrame):
                    self._acknowledged(frame, reader.offset)
                else:
                    self._talk.take(frame)
                    self._move()
        raise EndedError("the receiver closed the connection", idle=self.settled)

    def _acknowledged(self, ack: AckFrame, offset: int) -> None:
        for runs in self._acks.on_ack(ack.sequence, version=ack.version, offset=offset):
            faults.reach("agent.ack.before_apply")
            self._pace.acknowledged(self._services.clock.monotonic())
            self._apply(runs)
            faults.reach("agent.ack.after_apply")
            self._move()

    def _apply(self, runs: SentRuns) -> None:
        now_ms = self._services.clock.now_ms()
        for source, epoch, run in runs:
            if source.acknowledge(epoch, run, now_ms) and source.finished:
                self._talk.finished(source)
        self._services.book.changed = True

    def _acknowledge_untold(self, runs: SentRuns) -> None:
        """Let runs that can't be told be acknowledged with what went before them."""
        if self.in_flight:
            self._acks.in_flight[-1].extend(runs)
        else:
            self._apply(runs)

    def _move(self) -> None:
        self.progress += 1
        self._moved = self._heard
        self._services.demand.changed.set()

    async def _watch(self) -> None:
        """End a connection whose peer owes us something and is silent, or says nothing but
        keepalives.
        """
        clock, settings = self._services.clock, self._services.settings
        while True:
            await clock.sleep(settings.timeout_seconds / _LOOKS)
            now = clock.monotonic()
            if self.settled:
                self._heard = self._moved = now
                if self._talk.until is not None and now >= self._talk.until:
                    raise EndedError("looking for logdrive/1 again", idle=False)
            if now - self._heard > settings.timeout_seconds:
                raise EndedError(
                    f"the receiver said nothing for {settings.timeout_seconds:g} s", idle=False
                )
            if now - self._moved > settings.stall_seconds:
                raise EndedError(
                    f"the receiver acknowledged nothing for {settings.stall_seconds:g} s",
                    idle=False,
                )


def _slices(parts: list[bytes]) -> Iterator[list[bytes]]:
    """Yield *parts* so that no write is long, however slow the link; what is short goes in one."""
    gathered, size = list[bytes](), 0
    for part in parts:
        for at in range(0, len(part), _WRITE_BYTES):
            piece = part[at : at + _WRITE_BYTES]
            if size + len(piece) > _WRITE_BYTES + _HEADS_BYTES:
                yield gathered
                gathered, size = [], 0
            gathered.append(piece)
            size += len(piece)
    if gathered:
        yield gathered
