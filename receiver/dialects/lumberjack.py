"""The session of a plain Lumberjack v1 or v2 peer: events in, one acknowledgement a window out, at
least once.

The rules that satisfy every deployed writer are tabled in `docs/protocols/lumberjack.md`; which
events make a window, and what number acknowledges it, is `WindowReader`'s.
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
from logdrive.wire.lumberjack.plain_windows import Batch, WindowReader, keepalive
from receiver.acks import OpenWindow
from receiver.batch import ForeignBatches
from receiver.connection import ConnectionContext, Disconnect
from receiver.dialects.dead_letters import Burials, dead_letters
from receiver.dialects.events import EventGroup, chunks
from receiver.writers import CountingWriter, random_id

_QUIET_SECONDS = 0.5


class LumberjackReceiver:
    """Takes the frames of one plain connection.

    Its records go to one segment, so they keep their order.
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
        "patient",
    )

    def __init__(self, link: ConnectionContext, version: bytes) -> None:
        self._link, self._version = link, version
        link.version = version
        services = link.services
        self.dialect = f"lumberjack/{version.decode()}"
        self._windows = WindowReader()
        self.takes_keepalives = keepalive(version) is not None
        source = source_id(source_id(NAMESPACE, link.host), link.identity)
        self._batches = ForeignBatches(source, link.peer_header(self.dialect), services.store)
        self._key = source.hex
        self._writer = services.foreign_writers.writer_for(self._key)
        self._burials = Burials()

    @property
    def peer_waits(self) -> bool:
        """Whether the peer waits for an acknowledgement, and may be told to go on waiting (never in
        v1).
        """
        return self.takes_keepalives and (self._windows.open or self._link.acks.unacknowledged > 0)

    @property
    def idle_after_seconds(self) -> float | None:
        """How long nothing must come for `on_idle` to be due; None where nothing would be done."""
        return _QUIET_SECONDS if self._link.acks.window_open else None

    unfinished_bytes = 0  # events are appended as they come
    window_unfinished = False  # some writers announce a window that they never fill

    def on_frames(self, frames: Sequence[Frame]) -> None:
        """Store the events in *frames*. Raises `Disconnect` where the sink can't take them."""
        for batch in self._windows.group_frames(frames, self._version):
            self._store_batch(batch)

    def on_idle(self) -> None:
        """Nothing came for a while: acknowledge what streaming writers have sent so far."""
        if (batch := self._windows.end_on_idle()) is not None:
            self._store_batch(batch)

    def send_reason(self, farewell: Disconnect) -> None:
        """Say nothing: closing is the only answer that plain Lumberjack knows."""

    def on_closed(self) -> None:
        """Say what went to the dead letters."""
        self._burials.log_total(self._link.log)

    def _store_batch(self, batch: Batch) -> None:
        for chunk in chunks(batch.events):
            if isinstance(chunk, EventGroup):
                self._append_chunk(self._writer, chunk)
            elif len(chunk.payload) <= EVENT_BYTES:
                self._append_pieces(chunk.payload)
            else:
                self._append_dead_letter(chunk.payload)
        if batch.ack is None:
            return
        if batch.count == 0 and not self._link.acks.window_open:
            frame = keepalive(self._version)  # a window of no events is answered at once
            if frame is not None:
                self._link.outbox.enqueue(frame)
        else:
            self._link.acks.end_window(batch.ack)

    def _append_chunk(self, writer: CountingWriter, chunk: EventGroup) -> None:
        batch = self._batches.event_batch(
            chunk.parts, chunk.size, chunk.records, self._link.services.clock.now_ms()
        )
        self._append(writer, batch, chunk.records, chunk.records)

    def _append_pieces(self, payload: bytes) -> None:
        """Append an event over the limit of a record (rule R6): all its pieces at once, so that
        none of ours comes between.
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
        except TransientError as error:
            raise Disconnect(
                RefusalCode.TRY_LATER, f"the sink takes nothing: {error}", logged=True
            ) from error
        except StorageError as error:
            services.failure.set_error(error)
            raise Disconnect(RefusalCode.INTERNAL, str(error)) from error
        window = link.acks.hold_window()
        held = sum(map(len, batch))
        link.allocation.add_submitted(held)
        services.counters.count_batch(records, events, held - len(batch[0]))
        future.add_done_callback(partial(self._on_settled, window, held))

    def _append_dead_letter(self, payload: bytes) -> None:
        """Give an event over the limit of all to the dead letters, and leave a note in the stream
        (rule R7); its window waits for both.
        """
        services, letter = self._link.services, random_id(self._link.services.random)
        services.counters.dead_letters += 1
        self._burials.count_letter(self._link.log, len(payload))
        writer = services.dead_letter_writers.writer_for(self._key)
        for record in dead_letters(payload, letter):
            self._append_chunk(writer, EventGroup([event := frame_event(record)], len(event), 1))
        self._append(
            self._writer,
            self._batches.dead_letter_batch(payload, letter, services.clock.now_ms()),
            0,
            0,
        )

    def _on_settled(self, window: OpenWindow, held: int, future: "asyncio.Future[None]") -> None:
        error = self._link.on_append_settled(held, future)
        if error is None:
            self._link.acks.release_window(window)
        # the window is never acknowledged, so its writer sends it again on the next connection
        else:
            self._link.disconnect(
                Disconnect(RefusalCode.TRY_LATER, f"the sink failed: {error}", logged=True)
            )
