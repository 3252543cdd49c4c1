"""Session: one connection from its handshake to its end. Windows go out, acknowledgements come in
(rules D1, D3, D9).

    send queue ─▶ builder ─(frames, packing)─▶ outbox ─▶ sender ═▶ receiver ═▶ reader ─▶ sources

The builder reads files only while fewer windows are in flight than the settings allow, so memory is
bounded by these: the text of a few, and the packs of all. Threads compress packs, and what zstd
packs, while the next window is read; the outbox keeps the windows in order.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from agent.delivery.dialect import (
    EndedError,
    GivenUpError,
    RetiredError,
    SendingDialect,
    SentRuns,
    SessionServices,
)
from agent.delivery.window import OutgoingWindow, gather_window, pack_window, packs_inline
from agent.delivery.window_size import WindowSizer
from agent.failures import first_cause
from agent.sources.registration import SourceState
from logdrive.host import faults
from logdrive.host.transport import ByteStream
from logdrive.model.framing import Part
from logdrive.model.units import KIB
from logdrive.records.run_pack import FramePart
from logdrive.wire.lumberjack.ack_tracker import AckTracker
from logdrive.wire.lumberjack.frames import AckFrame

_PACKED_AHEAD: Final = 2
"""Windows in the outbox."""
_WRITE_BYTES: Final = 64 * KIB
"""Limit on one write, so that a slow link shows progress."""
_HEADS_BYTES: Final = 64
"""Added to the limit, so that W goes out together with the beginning of its C frame."""
_REGISTER_SECONDS: Final = 1.0
"""Pause between two looks for a source that may register, while some may not yet."""
_LOOKS: Final = 4
"""How often within its time limit the peer's silence is checked."""


class SenderSession:
    """Serves one connection; discard it afterwards.

    *on_idle* is called when the session has done all that it can do for now, *on_lasting* once the
    peer has answered or has let it stand for a while with nothing to answer, *on_proved* when its
    first run is stored. At *retire_at* (monotonic seconds) it ends as after `retire`.
    """

    def __init__(
        self,
        services: SessionServices,
        dialect: SendingDialect,
        stream: ByteStream,
        *,
        on_idle: Callable[[], None],
        on_lasting: Callable[[], None] = lambda: None,
        on_proved: Callable[[], None] = lambda: None,
        retire_at: float | None = None,
    ) -> None:
        self._services = services
        self._dialect = dialect
        self._stream = stream
        self._on_idle = on_idle
        self._on_lasting = on_lasting
        self._on_proved = on_proved
        self._retire_at = retire_at
        # Why it is to end at the end of a window, "" while it is not.
        self._retires = ""
        # Windows in flight, with their runs.
        self._acks: AckTracker[SentRuns] = AckTracker(dialect.numbering, dialect.version)
        # What the sender writes next: bytes, or windows that are being packed.
        self._outbox: asyncio.Queue[list[Part] | asyncio.Task[list[Part]]] = asyncio.Queue(
            _PACKED_AHEAD
        )
        # Adapts the windows' size to the link.
        self._sizer = WindowSizer(dialect.room.size)
        # The sequence number of the last frame sent.
        self._last_sequence = 0
        # When bytes came last (monotonic seconds); a write counts, too.
        self._heard = services.clock.monotonic()
        # When an answer came last that was no keepalive; a write counts, too.
        self._moved = self._heard
        # How many answers came that were no keepalives.
        self.progress = 0
        # Whether `on_lasting` was called.
        self._lasting = False
        # Whether anything was received.
        self.frame_received = False
        # Whether nothing was in flight, and no answer awaited, when the connection ended.
        self.ended_settled = False
        # Whether a window was acknowledged.
        self.acknowledged = False
        # Whether a run was.
        self._proved = False
        # Whether it began on trial; it may have got its share since, with nothing to send.
        self._on_trial = services.send_queue.on_trial

    @property
    def in_flight(self) -> int:
        """Windows built and not acknowledged."""
        return len(self._acks)

    @property
    def problem(self) -> str:
        """Why the receiver stores nothing now, for people; "" where it does, or nothing waits."""
        return self._dialect.refusals.reason

    @property
    def is_settled(self) -> bool:
        """Whether no window is in flight and no answer awaited."""
        return not self.in_flight and not self._dialect.awaits_answer

    def retire(self, reason: str) -> None:
        """Send no further window, and end once nothing is in flight: `run` raises `RetiredError`.

        What is in flight is waited for, so nothing has to be sent again.
        """
        self._retires = self._retires or reason
        self._services.send_queue.wake()

    async def run(self) -> None:
        """Serve until the connection ends. That raises `LogdriveError` with the reason."""
        self._dialect.on_connected()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(), name="agent-read")
                group.create_task(self._send(), name="agent-send")
                group.create_task(self._watch_silence(), name="agent-watch")
                # here, not in a task: the group's own cancelling must end while it is entered
                # (CPython 3.11)
                await self._build(group)
        except ExceptionGroup as failures:
            raise first_cause(failures) from failures
        finally:
            self.ended_settled = self.is_settled
            self._dialect.on_disconnected()

    # Out -----------------------------------------------------------------------------------------

    async def _build(self, group: asyncio.TaskGroup) -> None:
        """Put registrations and windows into the outbox, for ever."""
        send_queue, dialect = self._services.send_queue, self._dialect
        while True:
            send_queue.clear_wake()
            self._let_sources_leave()
            if self._is_retiring():
                self._on_idle()
                await send_queue.wait_for_wake()
                continue

            retry_at = dialect.retry_refused()
            if frames := dialect.registration_frames():
                await self._outbox.put([b"".join(frames)])
            if await self._build_window(group):
                continue

            # nothing is due: wait for a change, or until something is
            self._on_idle()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._idle_seconds(retry_at)):
                    await send_queue.wait_for_wake()

    def _let_sources_leave(self) -> None:
        """Take sources off the connection that are to leave it and have nothing in flight."""
        for source, then in self._services.send_queue.take_leaving():
            self._dialect.release_source(source)
            then(source)

    def _is_retiring(self) -> bool:
        """Return whether no window may be sent any more; raise `RetiredError` if that is the end.

        Answers wake the builder, so it asks again when the last one has come.
        """
        if self._retire_at is not None and self._services.clock.monotonic() >= self._retire_at:
            self._retires = self._retires or "it has reached its maximum age"
        if self._retires and self.is_settled:
            raise RetiredError(self._retires)
        return bool(self._retires)

    async def _build_window(self, group: asyncio.TaskGroup) -> bool:
        """Put the next window into the outbox if one is due; return whether it was."""
        services, dialect = self._services, self._dialect
        if self.in_flight >= services.settings.windows_in_flight or self._due_in() != 0.0:
            return False

        room = replace(dialect.room, size=self._sizer.size)
        now = services.clock.monotonic()
        window = gather_window(services.send_queue, services.source_reader, room, now)
        # the sources that were due can't be read now
        if not window.runs:
            return False
        # gaps and ends only, to a plain Lumberjack peer
        if not window.records:
            self._acknowledge_without_frames(window.runs)
            return True

        frames = dialect.encode_runs(window.runs)
        if dialect.numbering == "connection":
            self._last_sequence += window.records
        else:
            self._last_sequence = window.records
        self._acks.on_window_sent(window.runs, self._last_sequence, window.records)
        self._sizer.on_window_sent(window.size, services.clock.monotonic())
        await self._pack(group, window, frames)
        # let the tasks run that wait to read or to send
        await asyncio.sleep(0)
        return True

    async def _pack(
        self, group: asyncio.TaskGroup, window: OutgoingWindow, frames: list[FramePart]
    ) -> None:
        """Put a window into the outbox: packed, or as the task that packs it in a thread."""
        services, dialect = self._services, self._dialect
        codec, level, version = dialect.codec, services.settings.level, dialect.version
        if packs_inline(window, codec):
            await self._outbox.put(pack_window(frames, window.records, codec, level, version))
        else:
            work = services.executor.run(pack_window, frames, window.records, codec, level, version)
            await self._outbox.put(group.create_task(work, name="agent-pack"))

    def _due_in(self) -> float | None:
        """Return in how many seconds a window is due, None for never."""
        services = self._services
        return services.send_queue.seconds_until_due(
            services.clock.monotonic(),
            in_flight=self.in_flight > 0,
            open_sources=self._dialect.open_sources,
        )

    def _idle_seconds(self, retry_at: float | None) -> float | None:
        """Return after how many seconds to look for work although nothing has changed."""
        # with all windows in flight only an acknowledgement makes room, and that wakes us
        due = self._due_in() if self.in_flight < self._services.settings.windows_in_flight else None
        now = self._services.clock.monotonic()
        times = [max(0.0, at - now) for at in (retry_at, self._retire_at) if at is not None]
        if self._services.send_queue.has_to_register:
            # what it waits for may come on another connection: the count of its like (rule G3)
            times.append(_REGISTER_SECONDS)
        return min([*times, *([due] if due is not None else [])], default=None)

    async def _send(self) -> None:
        while True:
            await self._send_next()

    async def _send_next(self) -> None:
        """Write one item of the outbox.

        In a function of its own: the loop would keep the window in memory while it waits for the
        next one.
        """
        item = await self._outbox.get()
        parts = await item if isinstance(item, asyncio.Task) else item
        faults.reach("agent.window.before_send")
        for part in _split_writes(parts):
            await self._stream.write(part)
            # the peer of a slow link is not silent while it takes our bytes
            self._heard = self._moved = self._services.clock.monotonic()
        faults.reach("agent.window.after_send")

    # In ------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Handle what the peer sends until it closes the connection."""
        reader = self._dialect.frame_reader
        while data := await self._stream.read():
            self._heard, self.frame_received = self._services.clock.monotonic(), True
            for frame in reader.receive_data(data):
                if isinstance(frame, AckFrame):
                    self._on_ack(frame, reader.offset)
                else:
                    self._dialect.on_frame(frame)
                    self._note_progress()
        raise EndedError("the receiver closed the connection", idle=self.is_settled)

    def _on_ack(self, ack: AckFrame, offset: int) -> None:
        for runs in self._acks.on_ack(ack.sequence, version=ack.version, offset=offset):
            self.acknowledged = True
            faults.reach("agent.ack.before_apply")
            self._sizer.on_window_acknowledged(self._services.clock.monotonic())
            if self._acknowledge_runs(runs):
                self._on_stored()
            faults.reach("agent.ack.after_apply")
            self._note_progress()

    def _on_stored(self) -> None:
        self._dialect.refusals.clear()
        if not self._proved:
            self._proved = True
            self._on_proved()

    def _acknowledge_runs(self, runs: SentRuns) -> bool:
        """Acknowledge *runs*; return whether any of them is stored.

        A window is acknowledged, too, that has none but refused ones.
        """
        now_ms, stored = self._services.clock.now_ms(), False
        for source, epoch, run in runs:
            if source.on_acknowledged(epoch, run, now_ms):
                stored = True
                if source.state is SourceState.DONE:
                    self._dialect.on_source_finished(source)
        self._services.registry.mark_changed()
        return stored

    def _acknowledge_without_frames(self, runs: SentRuns) -> None:
        """Let runs that the dialect can't carry be acknowledged with the window before them."""
        if self.in_flight:
            self._acks.in_flight[-1].extend(runs)
        else:
            self._acknowledge_runs(runs)

    def _note_lasting(self) -> None:
        if not self._lasting:
            self._lasting = True
            self._on_lasting()

    def _note_progress(self) -> None:
        self._note_lasting()
        self.progress += 1
        self._moved = self._heard
        self._services.send_queue.wake()

    async def _watch_silence(self) -> None:
        """End a connection whose peer owes an answer and sends nothing, or only keepalives."""
        clock, settings = self._services.clock, self._services.settings
        while True:
            await clock.sleep(settings.timeout_seconds / _LOOKS)
            now = clock.monotonic()
            # the peer owes nothing, and may be silent
            if self.is_settled:
                self._heard = self._moved = now
                self._note_lasting()
                reconnect_at = self._dialect.reconnect_at
                if reconnect_at is not None and now >= reconnect_at:
                    raise EndedError("looking for logdrive/1 again", idle=False)

            if now - self._heard > settings.timeout_seconds:
                raise GivenUpError(
                    f"the receiver said nothing for {settings.timeout_seconds:g} s", idle=False
                )
            if now - self._moved > settings.stall_seconds:
                raise GivenUpError(
                    f"the receiver acknowledged nothing for {settings.stall_seconds:g} s",
                    idle=False,
                )
            self._check_refusals(now)

    def _check_refusals(self, now: float) -> None:
        """End a connection whose receiver refuses sources and stores nothing; others may take them.

        One that began on trial and stored nothing is ended at once: it failed before.
        """
        refusals, settings = self._dialect.refusals, self._services.settings
        queue = self._services.send_queue
        if refusals.since is None:
            return
        # what was refused has gone, or was taken with nothing left to send
        if self.is_settled and not queue and not queue.waits_for_receiver:
            refusals.clear()
            return
        seconds = now - refusals.since
        unproved = self._on_trial and not self._proved
        if len(settings.hosts) > 1 and (unproved or seconds > settings.stall_seconds):
            raise GivenUpError(
                f"the receiver stored nothing for {seconds:.0f} s: {refusals.reason}", idle=False
            )


def _split_writes(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield *parts* as writes of about `_WRITE_BYTES`; what is short goes in one."""
    gathered, size = list[Part](), 0
    for part in parts:
        for at in range(0, len(part), _WRITE_BYTES):
            piece = part[at : at + _WRITE_BYTES]  # a short part is not copied
            if size + len(piece) > _WRITE_BYTES + _HEADS_BYTES:
                yield gathered
                gathered, size = [], 0
            gathered.append(piece)
            size += len(piece)
    if gathered:
        yield gathered
