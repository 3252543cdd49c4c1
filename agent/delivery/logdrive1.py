"""The dialect `logdrive/1` as the agent speaks it: sources register by S frames, and P frames say
which position the store has (rules D1–D5, D9).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal
from uuid import UUID

from agent.delivery.dialect import ReceiverRefusedError, SessionServices
from agent.delivery.refusals import ReceiverRefusals, is_receivers_own, refusal_pause_seconds
from agent.delivery.source_indices import SourceIndices
from agent.delivery.window import WindowRoom
from agent.sources.incarnation_search import MORE_COUNTS, StoredNumber
from agent.sources.paths import printable_path
from agent.sources.readable import SourceTruncatedError
from agent.sources.registration import NextStep, SourceState
from agent.sources.source import NO_CONNECTION, Source
from logdrive.errors import ProtocolError, TransientError, file_error_text
from logdrive.model.numbers import ABSENT, LOST, NOT_KEPT
from logdrive.records.run_pack import FramePart, RunPack
from logdrive.records.runs import Run
from logdrive.wire.lumberjack.envelope import Codec
from logdrive.wire.lumberjack.frames import (
    CONNECTION,
    SEQUENCES,
    VERSION_2,
    Frame,
    PositionFrame,
    RefusalFrame,
    RunFrame,
    SourceFrame,
)
from logdrive.wire.lumberjack.limits import LIVE_INDICES, LOGDRIVE_1, UNANSWERED_SOURCES
from logdrive.wire.lumberjack.reader import FrameReader

_FEWEST_FREE: Final = 4 * MORE_COUNTS
"""With fewer indices left, idle sources give theirs back."""


class Logdrive1Sender:
    """Registers sources and handles the answers, on one connection. See `SendingDialect`."""

    numbering: Literal["window", "connection"] = "connection"
    version = VERSION_2
    reconnect_at: float | None = None  # there is no better dialect

    def __init__(self, services: SessionServices, codec: Codec | None) -> None:
        self._services = services
        self.codec = codec
        self.room = WindowRoom(services.settings.window_bytes)
        self.frame_reader = FrameReader(LOGDRIVE_1, side="writer", dialect="logdrive/1")
        self._indices = SourceIndices(services.send_queue.wake)
        # The sequence number of the last J or Z frame.
        self._sequence = 0
        self.refusals = ReceiverRefusals()
        # Whether a Z frame was sent.
        self.packs_sent = False

        # Stores that are known to have had data of some source before this connection's Ps.
        self._known_stores: set[UUID] = set()
        # Stores that lost data on this connection.
        self._stepped_back: set[UUID] = set()
        # One object for each store id, however many sources are stored there.
        self._store_ids: dict[UUID, UUID] = {}

    # Registering ---------------------------------------------------------------------------------

    @property
    def awaits_answer(self) -> bool:
        """Whether a P is owed."""
        return self._indices.unanswered > 0

    @property
    def open_sources(self) -> int:
        """How many sources have an index."""
        return self._indices.sources

    def on_connected(self) -> None:
        """Fill the send queue with sources that have something to send, and with one more.

        The P of the source that was acknowledged last shows whether its store went back (D9).
        """
        services = self._services
        now_ms = services.clock.now_ms()
        probes = services.registry.last_acknowledged(services.sources(), now_ms)
        for source in (*probes, *services.spread.revive_first_run(services.send_queue)):
            source.registration.require()
            services.spread.assign(source, services.send_queue)
        services.send_queue.begin_session(services.sources(), services.clock.monotonic())

    def registration_frames(self) -> list[bytes]:
        """Return S frames: those that register sources, and those that free indices."""
        indices = self._indices
        frames = indices.take_freeing_frames()
        # One source may ask for many counts at once.
        while (
            indices.unanswered + MORE_COUNTS <= UNANSWERED_SOURCES
            and (source := self._services.send_queue.next_to_register()) is not None
        ):
            if len(indices) > LIVE_INDICES - _FEWEST_FREE:
                self._unregister_idle(frames)
            indices.reconsider(source)
            attributes = self._services.registry.attributes_of(source)
            for count, origin in source.next_registrations():
                index = indices.ask(source, count, origin)
                frames.append(SourceFrame(index, origin, attributes).encode())
        return frames

    def retry_refused(self) -> float | None:
        """Let refused sources register again whose pause is over; return when the next one ends."""
        services = self._services
        return services.send_queue.retry_paused(services.clock.monotonic())

    def _unregister_idle(self, frames: list[bytes]) -> None:
        """Free the indices of idle sources, as a connection may have only so many live ones."""
        for source in self._indices.registered:
            if source.state is SourceState.OPEN and not source.is_behind:
                self._indices.give_up(source)
                source.on_disconnected()
        frames += self._indices.take_freeing_frames()

    # Sending -------------------------------------------------------------------------------------

    def encode_runs(self, runs: Sequence[tuple[Source, int, Run]]) -> list[FramePart]:
        """Return the B frames of *runs*, and the J frames or the Z frame of each.

        Raises `TransientError` if the connection has no sequence numbers left.
        """
        frames: list[FramePart] = []
        for source, _, run in runs:
            index = self._indices.index_of(source)
            records = len(run.records)
            if self._sequence + records >= SEQUENCES - 1:
                raise TransientError("the sequence numbers of this connection are used up")
            frames.append(
                RunFrame(
                    index,
                    run.kind,
                    run.previous,
                    run.number,
                    run.read_ms,
                    run.skipped,
                    run.events,
                    records,
                ).encode()
            )
            frames += run.encode_frames(self._sequence + 1)
            self._sequence += records
            self.packs_sent |= isinstance(run.records, RunPack)
        return frames

    # Answers -------------------------------------------------------------------------------------

    def on_frame(self, frame: Frame) -> None:
        """Handle a P or an E frame.

        Raises `ReceiverRefusedError` for an E that ends the connection, `ProtocolError` for an
        index that was never given, or a number that no store has.
        """
        # the frame reader lets nothing else through
        if not isinstance(frame, PositionFrame | RefusalFrame):
            return
        if isinstance(frame, RefusalFrame) and frame.index == CONNECTION:
            raise ReceiverRefusedError(frame.code, frame.text)
        if not self._indices.was_given(frame.index):
            raise ProtocolError(
                f"an answer for the index {frame.index}, which names no source",
                offset=self.frame_reader.offset,
            )
        if isinstance(frame, RefusalFrame):
            self._on_refusal(frame)
            return

        # an unknown special number must not be taken for one that was never seen
        if frame.number < 0 and frame.number not in (ABSENT, NOT_KEPT, LOST):
            raise ProtocolError(
                f"the number {frame.number}, which no store has", offset=self.frame_reader.offset
            )
        self._on_position(frame)

    def _on_position(self, frame: PositionFrame) -> None:
        entry = self._indices.count_answer(frame.index)
        if entry is None or entry.source is None:
            return
        services, source = self._services, entry.source
        # The file may have changed since it was read last; a look at it costs more than an answer.
        decides = not source.registration.awaits_more_answers
        if decides and not services.input.verify_source(source):
            self._pause_source(source, None, "its file can't be read")
            return
        old_number, old_store = source.number, source.store
        try:
            step = self._apply_position(source, entry.count, frame)
        except OSError as error:
            # The bytes that the number is compared with.
            reason = f"its file can't be read: {file_error_text(error)}"
            self._pause_source(source, None, reason)
            return
        except SourceTruncatedError as error:
            services.input.on_read_failed(source, error)
            source.registration.misfit("")
            step = NextStep.ASK_OTHER

        services.registry.mark_changed()
        self._take_step(source, step, entry.count)
        if step is NextStep.GO_ON:
            self._compare_stores(source, old_number, old_store)

    def _apply_position(self, source: Source, count: int, frame: PositionFrame) -> NextStep:
        """Pass a P to *source*.

        Raises OSError if its file can't be read to compare, or `SourceTruncatedError` if that was
        truncated since the last look: then the source, which ends, has to register again.
        """
        now_ms = self._services.clock.now_ms()
        store = self._store_ids.setdefault(frame.store, frame.store)
        if source.state is SourceState.ASKING:
            return source.on_answer(StoredNumber(count, frame.number, store), now_ms)
        return source.on_position(frame.number, store, now_ms)

    def _take_step(self, source: Source, step: NextStep, count: int) -> None:
        """Do with *source* what follows from the answer for *count*."""
        services = self._services
        if step is NextStep.ASK_MORE:
            services.send_queue.enqueue_registration(source)
        elif step is NextStep.ASK_NEXT:
            services.file_log.error(
                "position does not fit",
                self._path(source),
                count=count,
                reason=source.registration.problem,
                remedy="none where the checkpoint was lost; else give each host its own id in "
                "[agent]: the file is sent under the next count",
            )
            self._indices.give_up(source)
            services.send_queue.enqueue_registration(source)
        elif step is NextStep.ASK_OTHER:
            self._indices.give_up(source)
            services.send_queue.enqueue_registration(source)
        elif step is NextStep.DONE:
            self.on_source_finished(source)
        elif step is NextStep.GO_ON:
            self._indices.register(source)
            if source.has_more:
                services.send_queue.enqueue(source, services.clock.monotonic())

    def on_source_finished(self, source: Source) -> None:
        """Forget a source that was acknowledged to its end."""
        self._services.send_queue.forget(source)
        self._indices.give_up(source)
        self._services.registry.finish_source(source, self._services.clock.now_ms())
        self._services.spread.on_finished(source)

    def _compare_stores(self, source: Source, number: int, store: UUID | None) -> None:
        """Register all sources concerned if the store of *source* lost data, or is another one.

        *number* and *store* are what *source* had before its P (rules D5, D9, G6).
        """
        services, current = self._services, source.store
        if source.stepped_back and current is not None:
            # Logged once a store: it may concern every source.
            if current not in self._stepped_back:
                services.log.warning(
                    "store stepped back", store=str(current), position=source.position
                )
            self._stepped_back.add(current)
            services.registry.revive_ended(current, services.clock.now_ms())
            # each connection may have sources whose data the store has lost
            self._register_again(services.registry.sources, lambda other: other.store == current)
        elif current not in self._known_stores and number and store != current:
            services.log.info("another store", store=str(current), before=str(store))
            self._register_again(
                services.sources(),
                lambda other: other.store is not None and other.store != current,
            )

        # A source that was new says nothing about the stores of the others.
        if current is not None and number:
            self._known_stores.add(current)

    def _register_again(
        self, sources: Iterable[Source], concerned: Callable[[Source], bool]
    ) -> None:
        services = self._services
        for source in sources:
            if source.state is SourceState.IDLE and (
                source.registration.required or concerned(source)
            ):
                source.registration.require()
                # one that was just revived: this connection leads to its store
                if source.connection == NO_CONNECTION:
                    services.spread.assign(source, services.send_queue)
                services.spread.enqueue(source)

    def _on_refusal(self, frame: RefusalFrame) -> None:
        entry = self._indices.count_answer(frame.index)
        if entry is not None and entry.source is not None:
            self._pause_source(entry.source, frame.code, f"refused (E {frame.code}): {frame.text}")

    def _pause_source(self, source: Source, code: int | None, reason: str) -> None:
        """Take *source* off the connection until its pause is over; *code* is as for
        `refusal_pause_seconds`.
        """
        services = self._services
        luck = services.random.random()
        seconds = refusal_pause_seconds(code, source.registration.refusals, luck)
        services.file_log.warning(
            "source refused",
            self._path(source),
            origin=str(source.origin),
            reason=reason,
            again_in=round(seconds, 1),
        )
        services.send_queue.remove(source)
        self._indices.give_up(source)
        now, of_receiver = services.clock.monotonic(), is_receivers_own(code)
        if of_receiver:
            self.refusals.note(reason, now)
        source.on_refused(reason, now + seconds, of_receiver=of_receiver, of_file=code is None)
        services.send_queue.paused[source] = None
        services.send_queue.wake()

    def _path(self, source: Source) -> str:
        return printable_path(self._services.registry.path_of(source))

    def release_source(self, source: Source) -> None:
        """Take *source* off the connection, and give its index back."""
        self._indices.give_up(source)
        source.on_disconnected()

    def on_disconnected(self) -> None:
        """Take every source off the connection."""
        services = self._services
        for source in services.sources():
            source.on_disconnected()
        services.send_queue.end_session(services.sources, services.clock.monotonic())
