"""The dialect `logdrive/1` as the agent speaks it: sources register, Ps say where they stand (rules
D1–D5, D9).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from agent.delivery.dialect import ReceiverRefusedError, SessionServices
from agent.delivery.window import WindowRoom
from agent.records.batch import Run
from agent.sources.checkpoint import shown
from agent.sources.registration import MORE_COUNTS, StoredNumber
from agent.sources.source import NextStep, Source, SourceState
from logdrive.errors import ProtocolError, TransientError, file_error_text
from logdrive.model.numbers import ABSENT, LOST, NOT_KEPT
from logdrive.net.retry import Exponential
from logdrive.wire.lumberjack.envelope import Codec
from logdrive.wire.lumberjack.frames import (
    CONNECTION,
    SEQUENCES,
    VERSION_2,
    Frame,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
)
from logdrive.wire.lumberjack.frames import RunFrame as RunFrame
from logdrive.wire.lumberjack.frames import SourceFrame as SourceFrame
from logdrive.wire.lumberjack.limits import LIVE_INDICES, LOGDRIVE_1, UNANSWERED_SOURCES
from logdrive.wire.lumberjack.reader import FrameReader

_PATIENT_CODES: Final = (
    RefusalCode.NOT_ALLOWED,
    RefusalCode.NO_ROUTE,
    RefusalCode.NO_PROGRESS,
    RefusalCode.BAD_ATTRIBUTES,
)
_SOON, _LATER = Exponential(1.0, 3600.0), Exponential(60.0, 3600.0)  # seconds
_FEWEST_FREE: Final = 4 * MORE_COUNTS


def pause_after(code: int, refusals: int, luck: float) -> float:
    """Return for how long a source waits after its *refusals*-th refusal in a row; *luck* in [0, 1)
    spreads it.
    """
    wait = _LATER if code in _PATIENT_CODES else _SOON
    return wait.after(refusals + 1) * (1 + luck / 2)


@dataclass(slots=True)
class _Index:
    """Whom an index names, None where it is to be freed as soon as it is answered: readers count
    what they have not answered.
    """

    source: Source | None
    count: int
    origin: UUID
    answered: bool = False


class Logdrive1Sender:
    """Registers sources and acts on their Ps. An index is never given twice on a connection."""

    numbering: Literal["window", "connection"] = "connection"
    version = VERSION_2
    until: float | None = None

    def __init__(self, services: SessionServices, codec: Codec | None) -> None:
        self._services = services
        self.codec = codec
        self.room = WindowRoom(services.settings.window_bytes)
        self.reader = FrameReader(LOGDRIVE_1, side="writer", dialect="logdrive/1")
        self._indices: dict[int, _Index] = {}
        self._of: dict[Source, tuple[int, ...]] = {}
        self._next_index = 0
        self._sequence = 0
        self._unanswered = 0
        self._paused: dict[Source, None] = {}
        self._to_free: list[bytes] = []
        self._stores: set[UUID] = set()
        self._back: set[UUID] = set()  # stores that lost what they had
        # one object for each store, however many sources it tells of
        self._told: dict[UUID, UUID] = {}

    # Registering ---------------------------------------------------------------------------------

    @property
    def awaiting(self) -> bool:
        """Whether a P is owed."""
        return self._unanswered > 0

    @property
    def open_sources(self) -> int:
        """How many sources are registered."""
        return len(self._of)

    def begin(self) -> None:
        """Register what has something to send, and, to notice a step back, what was acknowledged
        last (D9).
        """
        services = self._services
        now_ms = services.clock.now_ms()
        for source in (*services.book.acknowledged_last(now_ms), *services.book.arrived(now_ms)):
            source.must_register = True
        now = services.clock.monotonic()
        services.demand.begin(services.book.sources, now)
        self._paused = dict.fromkeys(
            source for source in services.book.sources if source.state is SourceState.PAUSED
        )

    def greet(self) -> list[bytes]:
        """Return S frames, and those that free indices."""
        frames, self._to_free = self._to_free, []
        while (
            self._unanswered + MORE_COUNTS <= UNANSWERED_SOURCES
            and (source := self._services.demand.next_waiting()) is not None
        ):
            if len(self._indices) > LIVE_INDICES - _FEWEST_FREE:
                self._rest_idle(frames)
            attributes = self._services.book.attributes_of(source)
            for count, origin in source.questions():
                self._indices[self._next_index] = _Index(source, count, origin)
                self._of[source] = (*self._of.get(source, ()), self._next_index)
                frames.append(SourceFrame(self._next_index, origin, attributes).encode())
                self._next_index += 1
                self._unanswered += 1
        return frames

    def next_retry(self) -> float | None:
        """Let sources ask again whose pause is over."""
        now = self._services.clock.monotonic()
        for source in list(self._paused):
            source.connected(now)
            if source.state is not SourceState.PAUSED:
                del self._paused[source]
                self._services.demand.ask(source)
        return min((source.retry_at for source in self._paused), default=None)

    def _rest_idle(self, frames: list[bytes]) -> None:
        """Free the indices of sources that rest: nobody may have more than so many."""
        for source in list(self._of):
            if source.state is SourceState.OPEN and not source.kept and not source.has_more:
                self._free(source)
                source.disconnected()
        frames += self._to_free
        self._to_free = []

    def _free(self, source: Source, keep: int | None = None) -> None:
        """Give back the indices of *source*, all but *keep*."""
        for index in self._of.pop(source, ()):
            if index == keep:
                self._of[source] = (index,)
            else:
                self._indices[index].source = None
                self._free_if_answered(index)

    def _free_if_answered(self, index: int) -> None:
        known = self._indices[index]
        if known.answered and known.source is None:
            del self._indices[index]
            self._to_free.append(SourceFrame(index, known.origin, b"").encode())
            self._services.demand.changed.set()

    def _answered(self, index: int) -> _Index | None:
        """Count the answer for *index*, the first one; return whom it names, None where nobody
        cares any more.
        """
        known = self._indices.get(index)
        if known is None:
            return None
        self._unanswered -= not known.answered
        known.answered = True
        self._free_if_answered(index)
        return known

    # Sending -------------------------------------------------------------------------------------

    def frames(self, runs: Sequence[tuple[Source, int, Run]]) -> list[bytes]:
        """Return B and J frames.

        Raises `TransientError` where the connection's sequence numbers are used up.
        """
        frames: list[bytes] = []
        for source, _, run in runs:
            (index,) = self._of[source]
            records = len(run.records)
            if self._sequence + records >= SEQUENCES - 1:
                raise TransientError("the sequence numbers of this connection are used up")
            frames.append(
                RunFrame(
                    index, run.kind, run.previous, run.number, run.read_ms, 0, run.events, records
                ).encode()
            )
            frames += run.frames(self._sequence + 1)
            self._sequence += records
        return frames

    # Answers -------------------------------------------------------------------------------------

    def take(self, frame: Frame) -> None:
        """Act on a P or an E.

        Raises `ReceiverRefusedError` for an E that ends the connection, `ProtocolError` for an
        index never given.
        """
        if not isinstance(frame, PositionFrame | RefusalFrame):
            return
        if isinstance(frame, RefusalFrame) and frame.index == CONNECTION:
            raise ReceiverRefusedError(frame.code, frame.text)
        if frame.index >= self._next_index:
            raise ProtocolError(
                f"an answer for the index {frame.index}, which names no source",
                offset=self.reader.offset,
            )
        if (
            isinstance(frame, PositionFrame)
            and frame.number < 0
            and frame.number not in (ABSENT, NOT_KEPT, LOST)
        ):
            raise ProtocolError(
                f"the number {frame.number}, which no store has", offset=self.reader.offset
            )
        if isinstance(frame, PositionFrame):
            self._position(frame)
        else:
            self._refusal(frame)

    def _position(self, frame: PositionFrame) -> None:
        known = self._answered(frame.index)
        if known is None or known.source is None:
            return
        services, source = self._services, known.source
        if not source.awaits_others and not services.input.prepare(source):
            self._pause(source, RefusalCode.TRY_LATER, "its file can't be read")
            return
        old_number, old_store = source.number, source.store
        try:
            outcome = self._outcome(source, known.count, frame)
        except OSError as error:  # the bytes that tell whether the number fits
            self._pause(
                source, RefusalCode.TRY_LATER, f"its file can't be read: {file_error_text(error)}"
            )
            return
        services.book.changed = True
        self._act(source, outcome, known.count, frame.index)
        if outcome is NextStep.GO_ON:
            self._compare_stores(source, old_number, old_store)

    def _outcome(self, source: Source, count: int, frame: PositionFrame) -> NextStep:
        """Let *source* judge what it was told.

        Raises OSError where its file does not give the bytes to judge by.
        """
        now_ms = self._services.clock.now_ms()
        store = self._told.setdefault(frame.store, frame.store)
        if source.state is SourceState.ASKING:
            return source.answer(StoredNumber(count, frame.number, store), now_ms)
        return source.told(frame.number, store, now_ms)

    def _act(self, source: Source, outcome: NextStep, count: int, index: int) -> None:
        services = self._services
        if outcome is NextStep.ASK_MORE:
            services.demand.ask(source)
        elif outcome is NextStep.ASK_NEXT:
            services.file_log.error(
                "position does not fit", self._path(source), count=count, reason=source.problem
            )
            self._free(source)
            services.demand.ask(source)
        elif outcome is NextStep.DONE:
            self.finished(source)
        elif outcome is NextStep.GO_ON:
            own = next(i for i in self._of[source] if self._indices[i].count == source.count)
            self._free(source, keep=own)
            if source.has_more:
                services.demand.want(source, services.clock.monotonic())

    def finished(self, source: Source) -> None:
        """Forget a source that was acknowledged to its end."""
        self._services.demand.forget(source)
        self._free(source)
        self._services.book.finish(source, self._services.clock.now_ms())

    def _compare_stores(self, source: Source, number: int, store: UUID | None) -> None:
        """Let everything register that a store which stepped back, or is another one, concerns
        (rules D5, D9, G6).
        """
        services, current = self._services, source.store
        if source.stepped_back and current is not None:
            if current not in self._back:  # it may concern every source
                services.log.warning(
                    "store stepped back", store=str(current), position=source.position
                )
            self._back.add(current)
            services.book.revive(current, services.clock.now_ms())
            self._register_again(lambda other: other.store == current)
        elif current not in self._stores and number and store != current:
            services.log.info("another store", store=str(current), before=str(store))
            self._register_again(lambda other: other.store is not None and other.store != current)
        if current is not None and number:  # one that was new says nothing of those that were not
            self._stores.add(current)

    def _register_again(self, concerned: Callable[[Source], bool]) -> None:
        services = self._services
        now = services.clock.monotonic()
        for source in services.book.sources:
            if source.state is SourceState.IDLE and (source.must_register or concerned(source)):
                source.must_register = True
                services.demand.want(source, now)

    def _refusal(self, frame: RefusalFrame) -> None:
        known = self._answered(frame.index)
        if known is not None and known.source is not None:
            self._pause(known.source, frame.code, f"refused (E {frame.code}): {frame.text}")

    def _pause(self, source: Source, code: int, reason: str) -> None:
        services = self._services
        seconds = pause_after(code, source.refusals, services.random.random())
        about = {"origin": str(source.origin), "reason": reason, "again_in": round(seconds, 1)}
        services.file_log.warning("source refused", self._path(source), **about)
        services.demand.forget(source)
        self._free(source)
        source.refused(reason, services.clock.monotonic() + seconds)
        self._paused[source] = None
        services.demand.changed.set()

    def _path(self, source: Source) -> str:
        return shown(self._services.book.path(source))

    def end(self) -> None:
        """Take every source off the connection."""
        for source in self._services.book.sources:
            source.disconnected()
        self._services.demand.begin(self._services.book.sources, self._services.clock.monotonic())
