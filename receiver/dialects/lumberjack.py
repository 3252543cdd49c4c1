"""Plain Lumberjack v1 and v2, receiving: events in, one acknowledgement for each window out.

These peers get at-least-once. The rules that satisfy every deployed writer are tabled in
`docs/protocols/lumberjack.md`; `WindowReader` knows which events make a window, and which number
acknowledges it.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from logdrive.errors import StorageError, TransientError
from logdrive.host import faults
from logdrive.model.framing import Part, frame_event
from logdrive.model.identity import NAMESPACE, source_id
from logdrive.model.limits import EVENT_BYTES
from logdrive.wire.lumberjack.frames import Frame, RefusalCode
from logdrive.wire.lumberjack.plain_windows import WindowPart, WindowReader, keepalive
from receiver.acks import OpenWindow
from receiver.batch import ForeignBatches
from receiver.connection import ConnectionContext, Disconnect
from receiver.dialects.dead_letters import DeadLetterTally, dead_letter_records
from receiver.dialects.events import EventGroup, group_events
from receiver.writers import CountingWriter, random_id

_IDLE_SECONDS = 0.5
"""Seconds of silence after which an unfinished window is acknowledged as far as it came."""


class LumberjackReceiver:
    """Handles the frames of one plain connection.

    All its records go to one segment, so that they keep their order.
    """

    __slots__ = (
        "_batches",
        "_burials",
        "_key",
        "_link",
        "_version",
        "_windows",
        "_writer",
        "dialect",
        "takes_keepalives",
    )

    def __init__(self, link: ConnectionContext, version: bytes) -> None:
        services = link.services
        self._link = link
        self._version = version  # version byte of the peer's frames
        link.version = version  # acknowledgements have the same
        self.dialect = f"lumberjack/{version.decode()}"
        self._windows = WindowReader()
        self.takes_keepalives = keepalive(version) is not None
        source = source_id(source_id(NAMESPACE, link.host), link.identity)
        self._batches = ForeignBatches(source, link.peer_header(self.dialect), services.store)
        self._key = source.hex  # routing key
        self._writer = services.foreign_writers.writer_for(self._key)
        self._burials = DeadLetterTally()

    @property
    def peer_waits(self) -> bool:
        """Whether the peer waits for an acknowledgement and takes keepalives (no v1 peer does)."""
        return self.takes_keepalives and (self._windows.open or self._link.acks.unacknowledged > 0)

    @property
    def idle_after_seconds(self) -> float | None:
        """Seconds of silence after which `on_idle` is due; None if it had nothing to do."""
        return _IDLE_SECONDS if self._link.acks.window_open else None

    unfinished_bytes = 0  # events are appended as they come
    window_unfinished = False  # some writers announce a window that they never fill

    def on_frames(self, frames: Sequence[Frame]) -> tuple[()]:
        """Append the events in *frames*, at once. Raises `Disconnect` if the sink takes nothing."""
        for part in self._windows.group_frames(frames, self._version):
            self._store_part(part)
        return ()

    def on_idle(self) -> None:
        """Acknowledge what a streaming writer has sent of its window so far."""
        if (part := self._windows.end_on_idle()) is not None:
            self._store_part(part)

    def send_reason(self, reason: Disconnect) -> None:
        """Send nothing: plain Lumberjack has no frame for a reason."""

    def on_closed(self) -> None:
        """Log how much went to the dead letters."""
        self._burials.log_total(self._link.log)

    def _store_part(self, part: WindowPart) -> None:
        for chunk in group_events(part.events):
            if isinstance(chunk, EventGroup):
                self._append_chunk(self._writer, chunk)
            elif len(chunk.payload) <= EVENT_BYTES:
                self._append_pieces(chunk.payload)
            else:
                self._append_dead_letter(chunk.payload)
        if part.ack is None:  # the window goes on
            return

        # a window of no events is answered at once, by a keepalive
        if part.count == 0 and not self._link.acks.window_open:
            frame = keepalive(self._version)
            if frame is not None:
                self._link.outbox.enqueue(frame)
        else:
            self._link.acks.end_window(part.ack)

    def _append_chunk(self, writer: CountingWriter, chunk: EventGroup) -> None:
        batch = self._batches.event_batch(
            chunk.parts, chunk.size, chunk.records, self._link.services.clock.now_ms()
        )
        self._append(writer, batch, chunk.records, chunk.records)

    def _append_pieces(self, payload: bytes) -> None:
        """Append an event over the limit of a record in pieces (rule R6): all of them at once, so
        that no other batch of this connection comes between.
        """
        services = self._link.services
        batches = list(
            self._batches.piece_batches(
                payload, random_id(services.random), services.clock.now_ms()
            )
        )
        for number, batch in enumerate(batches, 1):
            self._append(self._writer, batch, 1, int(number == len(batches)))

    def _append(
        self, writer: CountingWriter, batch: Sequence[Part], records: int, events: int
    ) -> None:
        link, services = self._link, self._link.services
        faults.reach("receiver.window.before_append")
        try:
            future = writer.append_batch(batch, records + 1)
        # these peers know no refusal but the end of the connection: they send the window again
        except TransientError as error:
            raise Disconnect(
                RefusalCode.TRY_LATER, f"the sink takes nothing: {error}", logged=True
            ) from error
        except StorageError as error:
            services.failure.set_error(error)
            raise Disconnect(RefusalCode.INTERNAL, str(error)) from error

        window = link.acks.hold_window()
        batch_bytes = sum(map(len, batch))
        link.allocation.add_submitted(batch_bytes)
        services.counters.count_batch(records, events, batch_bytes - len(batch[0]))
        future.add_done_callback(partial(self._on_settled, window, batch_bytes))

    def _append_dead_letter(self, payload: bytes) -> None:
        """Append an event over the limit of all to the dead letters, and a note of it to the stream
        (rule R7); its window waits for both.
        """
        services, letter = self._link.services, random_id(self._link.services.random)
        services.counters.dead_letters += 1
        self._burials.count_letter(self._link.log, len(payload))
        writer = services.dead_letter_writers.writer_for(self._key)
        for record in dead_letter_records(payload, letter):
            self._append_chunk(writer, EventGroup([event := frame_event(record)], len(event), 1))
        self._append(
            self._writer,
            self._batches.dead_letter_batch(payload, letter, services.clock.now_ms()),
            0,
            0,
        )

    def _on_settled(
        self, window: OpenWindow, batch_bytes: int, future: "asyncio.Future[None]"
    ) -> None:
        error = self._link.on_append_settled(batch_bytes, future)
        if error is None:
            self._link.acks.release_window(window)
        else:
            # never acknowledged, the window is sent again on the writer's next connection
            self._link.disconnect(
                Disconnect(RefusalCode.TRY_LATER, f"the sink failed: {error}", logged=True)
            )
