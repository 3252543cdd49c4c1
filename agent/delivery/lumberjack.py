"""Plain Lumberjack v1 and v2 as the agent speaks them: an event a line, at least once from the
checkpoint (rule D8).

A window is one write of W and C frames, with sequence numbers from 1, as Logstash's clients send
them: J frames of full records in version 2, D frames of pairs in version 1.
Such peers keep no positions. Gaps and end records can't be sent to them, and count as acknowledged.

A source that was once registered under `logdrive/1` waits for a receiver that speaks it, if the
agent only fell back to plain Lumberjack.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, Literal

from agent.delivery.dialect import SessionServices
from agent.delivery.dialect_choice import DialectChoice
from agent.delivery.refusals import ReceiverRefusals
from agent.delivery.window import WindowRoom
from agent.sources.first_run import log_start_decision
from agent.sources.registration import SourceState
from agent.sources.source import Source
from logdrive.model.numbers import NOT_KEPT
from logdrive.model.units import MIB
from logdrive.records.lines import RUN_EVENTS
from logdrive.records.run_pack import FramePart
from logdrive.records.runs import Run
from logdrive.wire.lumberjack.envelope import Codec
from logdrive.wire.lumberjack.frames import VERSION_1, VERSION_2, Frame
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameReader

_WINDOW_EVENTS: Final = MappingProxyType({VERSION_1: 2048, VERSION_2: 4096})
"""Limit on the events of a window. Readers of version 2 take 10,000, those of version 1 are old."""
_LOOK_AGAIN_SECONDS: Final = 60.0
"""Where sources wait for `logdrive/1`, the agent connects again after this time to look for it."""
WAITS: Final = "waits for a receiver that speaks logdrive/1, under which it was registered"


class LumberjackSender:
    """A plain dialect, that of *choice*, on one connection. See `SendingDialect`."""

    numbering: Literal["window", "connection"] = "window"

    def __init__(
        self, services: SessionServices, codec: Codec | None, choice: DialectChoice
    ) -> None:
        self._services = services
        self._fell_back = choice.fell_back  # `logdrive/1` was wanted
        self.version = choice.version
        self.codec = codec
        # with so many events a window takes no further run: the last one still fits
        full = _WINDOW_EVENTS[self.version] - (RUN_EVENTS - 1)
        self.room = WindowRoom(4 * MIB, full, marks=False)
        self.frame_reader = FrameReader(PLAIN_LUMBERJACK, side="writer", dialect="lumberjack")
        self.reconnect_at: float | None = None  # set while sources wait for `logdrive/1`
        self.refusals = ReceiverRefusals()  # there are none
        self.awaits_answer = False  # nothing but acknowledgements comes back
        self.open_sources = 0  # sources that may send

    def on_connected(self) -> None:
        """Fill the send queue. Files that wait to learn where to start begin at their end."""
        services = self._services
        if decided := services.registry.decide_starts(
            here_before=False, now_ms=services.clock.now_ms()
        ):
            log_start_decision(services.log, NOT_KEPT, len(decided))
        services.send_queue.begin_session(services.sources(), services.clock.monotonic())

        waiting = [source for source in services.sources() if self._waits(source)]
        for source in waiting:
            source.registration.report(WAITS)
        if waiting:
            services.log.warning("sources wait for logdrive/1", sources=len(waiting))
            self.reconnect_at = services.clock.monotonic() + _LOOK_AGAIN_SECONDS

    def registration_frames(self) -> list[bytes]:
        """Open the sources that are to register; no frames are needed for that."""
        services, now = self._services, self._services.clock.monotonic()
        while (source := services.send_queue.next_to_register()) is not None:
            # one that waits registers again on the next connection
            if not self._waits(source):
                source.open_unregistered()
                self.open_sources += 1
                if source.has_more:
                    services.send_queue.enqueue(source, now)
        return []

    def retry_refused(self) -> float | None:
        """Return None: such peers refuse no single source."""
        return None

    def encode_runs(self, runs: Sequence[tuple[Source, int, Run]]) -> list[FramePart]:
        """Return the J or D frames of one window, without gaps and end records."""
        frames: list[FramePart] = []
        first = 1
        for _, _, run in runs:
            if run.mark is None:
                frames += run.encode_frames(first)
                first += len(run.records)
        return frames

    def on_frame(self, frame: Frame) -> None:
        """Do nothing: the frame reader lets only acknowledgements through."""

    def on_source_finished(self, source: Source) -> None:
        """Forget a source that was acknowledged to its end."""
        self._services.send_queue.forget(source)
        self._services.registry.finish_source(source, self._services.clock.now_ms())

    def release_source(self, source: Source) -> None:
        """Take *source* off the connection; such peers are not told."""
        self.open_sources -= source.state is SourceState.OPEN
        source.on_disconnected()

    def on_disconnected(self) -> None:
        """Take every source off the connection."""
        services = self._services
        for source in services.sources():
            source.on_disconnected()
        services.send_queue.end_session(services.sources, services.clock.monotonic())

    def _waits(self, source: Source) -> bool:
        # A store that keeps positions has its bytes: sent here, they would be stored twice.
        return self._fell_back and source.store is not None
