"""The grammar of a `logdrive/1` writer's frames (rule D1): sources, windows, runs, records.

No bytes here, no clock, no sockets.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from logdrive.errors import ProtocolError
from logdrive.model.framing import EVENT_HEAD, Part, unframe_events
from logdrive.model.limits import RUN_BYTES, RUN_RECORDS
from logdrive.model.numbers import CLOSED, position_of
from logdrive.model.records import DATA, END, GAP
from logdrive.packs.contents import check_run
from logdrive.packs.pack import PackError, PackHead, parse_head
from logdrive.wire.lumberjack.frames import (
    EVENT,
    RUN,
    SEQUENCES,
    Frame,
    JsonRun,
    PackFrame,
    RefusalCode,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.limits import LIVE_INDICES, LOGDRIVE_1, WINDOW_BYTES, LumberjackLimits


@dataclass(frozen=True, slots=True)
class RunReceived:
    """A run with all its records, framed as Pravega events."""

    run: RunFrame  # the B frame that began it
    last: int  # sequence number of the last J frame, or of the Z frame
    parts: Sequence[Part]  # the events
    size: int  # bytes of *parts*
    pack: PackHead | None = None  # what the one record says of itself, if it is a pack

    @property
    def payloads(self) -> list[bytes]:
        """The records, cut out of *parts* at each call."""
        return unframe_events(b"".join(self.parts))


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """The end of a window: `A last` is due once all its runs are durable or refused."""

    last: int  # sequence number of its last J or Z frame


# A connection's frames are: (S | window)*, where
#
#     window = W run+     as many records in all as W announces
#     run    = B J+       as many records as B announces
#            | B Z        a pack, which B announces as one record
#
# so that each state has its frames:


class _Due(Enum):
    """State of a `RunReader`, by the frames that may come next."""

    BETWEEN = "S or W"  # no window is open
    RUN = "B"  # a window is open, no run
    RECORDS = "J"  # a run is open, and has several records, or is a gap or an end
    PACK = "J or Z"  # a run is open that may be a pack


_LETTERS: Final[dict[type, str]] = {
    SourceFrame: "S",
    WindowFrame: "W",
    RunFrame: "B",
    JsonRun: "J",
    PackFrame: "Z",
}
_DUE: Final[dict[_Due, tuple[type, ...]]] = {
    _Due.BETWEEN: (SourceFrame, WindowFrame),
    _Due.RUN: (RunFrame,),
    _Due.RECORDS: (JsonRun,),
    _Due.PACK: (JsonRun, PackFrame),
}


class RunReader:
    """Checks the frames of a `logdrive/1` writer (rule D1), and puts runs together.

    It keeps one unfinished run, and the origins of the live indices. The session checks the rest:
    that a B comes after its P, that `previous` is the stored number, and how many windows are not
    acknowledged.
    """

    __slots__ = (
        "_bytes",
        "_count",
        "_due",
        "_left",
        "_limits",
        "_offset",
        "_origins",
        "_parts",
        "_run",
        "_sequence",
        "_size",
    )

    def __init__(self, limits: LumberjackLimits = LOGDRIVE_1) -> None:
        self._limits = limits
        self._due = _Due.BETWEEN  # which frames may come next
        self._origins: dict[int, UUID] = {}  # by live index
        self._sequence = 0  # number of the last J frame
        self._left = 0  # J frames that the window lacks
        self._bytes = 0  # bytes of the window, unpacked
        self._run: RunFrame | None = None  # the unfinished run
        self._parts: list[Part] = []  # its records, framed as events
        self._count = 0  # of its records so far
        self._size = 0  # bytes of its parts
        self._offset = 0  # of the frames at hand, for errors

    @property
    def window_unfinished(self) -> bool:
        """Whether a window has begun and is not complete."""
        return self._due is not _Due.BETWEEN

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the unfinished run that are kept here."""
        return self._size

    def check_frames(
        self, frames: Iterable[Frame], *, offset: int = 0
    ) -> list[SourceFrame | RunReceived | WindowEnd]:
        """Return the sources, runs and ends of windows that *frames* complete, in order.

        Raises `ProtocolError` with *offset*, that of the `FrameReader`.
        """
        self._offset = offset
        given: list[SourceFrame | RunReceived | WindowEnd] = []
        for frame in frames:
            if not isinstance(frame, _DUE[self._due]):
                letter = _LETTERS.get(type(frame), type(frame).__name__)
                raise self._error(f"a frame {letter} where {self._due.value} is due")
            if isinstance(frame, SourceFrame):
                given.append(self._check_source(frame))
            elif isinstance(frame, WindowFrame):
                self._begin_window(frame)
            elif isinstance(frame, RunFrame):
                self._begin_run(frame)
            elif isinstance(frame, JsonRun):
                self._add_records(frame, given)
            elif isinstance(frame, PackFrame):
                self._add_pack(frame, given)
            else:
                raise TypeError(f"{type(frame).__name__} may come, but nothing acts on it")
        return given

    def _check_source(self, source: SourceFrame) -> SourceFrame:
        named = self._origins.get(source.index)
        # an S without attributes frees its index
        if not source.attributes:
            if named is None:
                raise self._error(f"the index {source.index} is freed, but names no source")
            del self._origins[source.index]
        elif named not in (None, source.origin):
            raise self._error(f"the index {source.index} is given to a second source")
        elif named is None and len(self._origins) >= LIVE_INDICES:
            raise self._error(f"more than {LIVE_INDICES} live indices", RefusalCode.LIMIT)
        else:
            self._origins[source.index] = source.origin
        return source

    def _begin_window(self, window: WindowFrame) -> None:
        if window.count == 0:
            raise self._error("a window of no events")
        if window.count > self._limits.window:
            raise self._error(
                f"a window of {window.count} events, over {self._limits.window}", RefusalCode.LIMIT
            )
        self._left, self._bytes, self._due = window.count, 0, _Due.RUN

    def _begin_run(self, run: RunFrame) -> None:
        if run.index not in self._origins:
            raise self._error(f"a run of the unknown index {run.index}")
        if reason := _contradiction(run):
            raise self._error(reason)
        if run.records > RUN_RECORDS:
            raise self._error(
                f"a run of {run.records} records, over {RUN_RECORDS}", RefusalCode.LIMIT
            )
        if run.records > self._left:
            raise self._error(f"a run of {run.records} records in a window that lacks {self._left}")
        self._grow(RUN.size)
        self._run, self._parts, self._count, self._size = run, [], 0, 0
        self._due = _Due.PACK if (run.kind, run.records) == (DATA, 1) else _Due.RECORDS

    def _add_records(
        self, records: JsonRun, given: list[SourceFrame | RunReceived | WindowEnd]
    ) -> None:
        run, count = self._run, len(records)
        assert run is not None
        self._check_place(run, records.first, records.last, records.envelope)
        self._count += count
        if self._count > run.records:
            raise self._error(f"more than the {run.records} records that their run announced")
        self._size += records.size
        if self._size > RUN_BYTES:
            raise self._error(f"a run of more than {RUN_BYTES} bytes", RefusalCode.LIMIT)

        # as frames: their heads are longer than those of events
        self._grow(records.size + (EVENT.size - EVENT_HEAD) * count)
        self._sequence = records.last
        self._left -= count
        self._parts += records.parts

        if self._count == run.records:
            self._end_run(RunReceived(run, self._sequence, tuple(self._parts), self._size), given)

    def _add_pack(
        self, frame: PackFrame, given: list[SourceFrame | RunReceived | WindowEnd]
    ) -> None:
        run = self._run
        assert run is not None
        self._check_place(run, frame.sequence, frame.sequence, frame.envelope)
        try:
            head = parse_head(frame.pack)
            check_run(
                head,
                previous=position_of(run.previous),
                position=position_of(run.number),
                events=run.events,
                skipped=run.skipped,
            )
        except PackError as error:
            raise self._error(f"a run with {error}") from error

        self._grow(EVENT.size - EVENT_HEAD + frame.size)
        self._sequence = frame.sequence
        self._left -= 1
        self._end_run(RunReceived(run, frame.sequence, frame.parts, frame.size, head), given)

    def _check_place(self, run: RunFrame, first: int, last: int, envelope: int) -> None:
        # numbers run on over the connection, and must not wrap around
        if first != self._sequence + 1 or last >= SEQUENCES - 1:
            raise self._error(f"sequence number {first} after {self._sequence}")
        if envelope != run.envelope:
            raise self._error("a run that is not in one envelope")

    def _end_run(
        self, run: RunReceived, given: list[SourceFrame | RunReceived | WindowEnd]
    ) -> None:
        given.append(run)
        self._run, self._parts, self._size, self._due = None, [], 0, _Due.RUN
        if self._left == 0:
            given.append(WindowEnd(self._sequence))
            self._due = _Due.BETWEEN

    def _grow(self, size: int) -> None:
        self._bytes += size
        if self._bytes > WINDOW_BYTES:
            raise self._error(f"a window of more than {WINDOW_BYTES} bytes", RefusalCode.LIMIT)

    def _error(self, reason: str, code: RefusalCode = RefusalCode.PROTOCOL) -> ProtocolError:
        return ProtocolError(reason, offset=self._offset, code=code)


def _contradiction(run: RunFrame) -> str | None:
    """Return what no run of any source may say; None for a valid *run* (rules R1, P1, D1)."""
    if run.kind not in (DATA, GAP, END):
        return f"a run of the unknown kind {run.kind}"
    if not 0 <= run.previous < run.number or run.previous >= CLOSED:
        return f"a run from {run.previous} to {run.number}"
    # an end closes its number, and only an end does
    if (run.kind == END) != (run.number >= CLOSED):
        return f"a run of kind {run.kind} to {run.number}: an end, and nothing else, closes"
    # gaps and ends are one record each, which is no event
    if run.records == 0 or (run.kind != DATA and (run.records, run.events) != (1, 0)):
        return f"a run of kind {run.kind} with {run.records} records and {run.events} events"
    if run.read < 0 or run.skipped < 0:
        return f"a run read at {run.read} that skipped {run.skipped}"
    return None
