"""The order of frames: windows, runs, sequence numbers, acknowledgements.

No bytes here, no clock, no sockets.

Three machines, one a side and dialect:

- `WindowReader`, for readers of Lumberjack v1 and v2: which events there are, and what to
  acknowledge once they are kept. Deployed writers disagree on nearly everything, so it refuses
  nothing.
- `RunReader`, for readers of `logdrive/1`: holds its one kind of writer to the grammar of rule D1.
- `AckTracker`, for writers of all dialects: which windows an acknowledgement completes.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, Literal, TypeVar
from uuid import UUID

from logdrive.errors import ProtocolError
from logdrive.model.framing import Part, unframe_events
from logdrive.model.limits import RUN_BYTES, RUN_RECORDS
from logdrive.model.numbers import CLOSED
from logdrive.model.records import DATA, END, GAP
from logdrive.wire.lumberjack.frames import (
    EVENT,
    RUN,
    SEQUENCES,
    VERSION_1,
    VERSION_2,
    AckFrame,
    Frame,
    JsonRun,
    KeyValueFrame,
    RefusalCode,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.limits import LIVE_INDICES, LOGDRIVE_1, WINDOW_BYTES, LumberjackLimits

# Readers of v1 and v2 ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in the order they came, and the acknowledgement that is due once these and all before
    them are kept.

    *ack* is None where more of the window is to come. There may be no events: then the
    acknowledgement is due for earlier ones, or, where it is 0, it answers a window of none.
    """

    events: tuple[KeyValueFrame | JsonRun, ...]
    count: int
    ack: int | None


class WindowReader:
    """Groups the events of one v1 or v2 connection into what is to be acknowledged together.

    Events are given as they come, never held until their window is full, so a window of 2^32 - 1
    costs nothing. The rules are those that satisfy every writer known
    (`docs/protocols/lumberjack.md`, "Windows as deployed writers use them").
    """

    __slots__ = ("_announced", "_bare", "_flushed", "_last", "_left", "_size", "_unacknowledged")

    def __init__(self) -> None:
        self._size = 0  # events of a window; 0 where none was announced
        self._left = 0  # events that the window still lacks
        # a W stands for this window, rather than the one before being counted anew
        self._announced = False
        self._unacknowledged = 0  # events given whose acknowledgement was not
        self._last = 0  # sequence number of the last event
        self._bare = True  # it came outside of an envelope
        # what there is of the window was acknowledged, for the writer is quiet
        self._flushed = False

    @property
    def open(self) -> bool:
        """Whether the writer may be waiting for events of its own to reach us; then v2 peers want a
        keepalive.
        """
        return self._unacknowledged > 0 or (self._announced and not self._flushed)

    def feed(self, frames: Iterable[Frame], version: bytes = VERSION_2) -> list[Batch]:
        """Return what *frames* bring, in order; *version* is the connection's."""
        batches: list[Batch] = []
        events: list[KeyValueFrame | JsonRun] = []
        for frame in frames:
            if isinstance(frame, WindowFrame):
                if self._unacknowledged:  # a short window ends where the next one is announced
                    batches.append(self._batch(events, end=True))
                if frame.count == 0 and version == VERSION_2:
                    batches.append(Batch((), 0, 0))
                self._size = self._left = frame.count
                self._announced, self._flushed = frame.count > 0, False
            elif isinstance(frame, KeyValueFrame | JsonRun):
                self._take(frame, events, batches)
            else:
                raise TypeError(f"{type(frame).__name__} is no frame of a v1 or v2 writer")
        if events:
            batches.append(self._batch(events, end=False))
        return batches

    def flush(self) -> Batch | None:
        """Return the acknowledgement due now that the writer has been quiet for a while, if there
        is one.

        None while a window that was announced lacks events and those there are came in envelopes:
        such writers send windows whole, and some take any answer for the whole window's.
        """
        if not self._unacknowledged or (self._announced and not self._bare):
            return None
        self._flushed = True
        return self._batch([], end=True)

    def _take(
        self,
        frame: KeyValueFrame | JsonRun,
        events: list[KeyValueFrame | JsonRun],
        batches: list[Batch],
    ) -> None:
        rest: KeyValueFrame | JsonRun | None = frame
        while rest is not None:
            part, rest = rest, None
            if isinstance(part, JsonRun) and 0 < self._left < len(part):
                part, rest = part.split(self._left)
            events.append(part)
            self._count(part)
            if self._size and self._left == 0:
                batches.append(self._batch(events, end=True))
                # streaming writers announce once; surplus counts anew
                self._left, self._announced = self._size, False

    def _count(self, part: KeyValueFrame | JsonRun) -> None:
        count, self._last = (
            (len(part), part.last) if isinstance(part, JsonRun) else (1, part.sequence)
        )
        self._unacknowledged += count
        self._bare = part.envelope == 0
        if self._size:
            self._left -= count

    def _batch(self, events: list[KeyValueFrame | JsonRun], *, end: bool) -> Batch:
        batch = Batch(
            tuple(events),
            sum(len(e) if isinstance(e, JsonRun) else 1 for e in events),
            self._last if end else None,
        )
        events.clear()
        if end:
            self._unacknowledged = 0
        return batch


def keepalive(version: bytes) -> bytes | None:
    """Return the frame that keeps a waiting writer patient; None in v1, whose writers take any
    answer for a success.
    """
    return AckFrame(0).encode(VERSION_2) if version == VERSION_2 else None


# Readers of logdrive/1 --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunReceived:
    """A run with all its records, *size* bytes of Pravega events in *parts*.

    *last* is the sequence number of its last J frame.
    """

    run: RunFrame
    last: int
    parts: Sequence[Part]
    size: int

    @property
    def payloads(self) -> list[bytes]:
        """The records, made at each call."""
        return unframe_events(b"".join(self.parts))


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """A window is complete: `A last` is due once all its runs are durable or refused."""

    last: int


class _Due(Enum):
    """What the writer may send next."""

    BETWEEN = "S or W"  # no window is open
    RUN = "B"  # a window is open, no run
    RECORDS = "J"  # a run is open


_DUE: Final[dict[_Due, tuple[type, ...]]] = {
    _Due.BETWEEN: (SourceFrame, WindowFrame),
    _Due.RUN: (RunFrame,),
    _Due.RECORDS: (JsonRun,),
}


class RunReader:
    """Holds a `logdrive/1` writer to rule D1, and hands over its sources, runs and ends of windows.

    It keeps one unfinished run and the origins of live indices. What it can't know is the
    session's: that a B waits for its P, whether `previous` is the stored number, and how many
    windows wait for their acknowledgement.
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
        self._due = _Due.BETWEEN
        self._origins: dict[int, UUID] = {}
        self._sequence = 0  # of the last J frame
        self._left = 0  # J frames that the window lacks
        self._bytes = 0  # of the window, unpacked
        self._run: RunFrame | None = None
        self._parts: list[Part] = []  # of the run
        self._count = 0  # of its records
        self._size = 0  # of the run, framed
        self._offset = 0

    @property
    def amid_window(self) -> bool:
        """Whether a window has begun and lacks something."""
        return self._due is not _Due.BETWEEN

    @property
    def assembled(self) -> int:
        """Bytes of the unfinished run that is kept here."""
        return self._size if self._due is _Due.RECORDS else 0

    def feed(
        self, frames: Iterable[Frame], *, offset: int = 0
    ) -> list[SourceFrame | RunReceived | WindowEnd]:
        """Return what *frames* complete.

        Raises `ProtocolError` with *offset*, for which the reader's serves.
        """
        self._offset = offset
        given: list[SourceFrame | RunReceived | WindowEnd] = []
        for frame in frames:
            if not isinstance(frame, _DUE[self._due]):
                raise self._error(f"{type(frame).__name__} where {self._due.value} is due")
            if isinstance(frame, SourceFrame):
                given.append(self._source(frame))
            elif isinstance(frame, WindowFrame):
                self._window(frame)
            elif isinstance(frame, RunFrame):
                self._begin(frame)
            elif isinstance(frame, JsonRun):
                self._records(frame, given)
        return given

    def _source(self, source: SourceFrame) -> SourceFrame:
        known = self._origins.get(source.index)
        if not source.attributes:
            if known is None:
                raise self._error(f"the index {source.index} is freed, but names no source")
            del self._origins[source.index]
        elif known not in (None, source.origin):
            raise self._error(f"the index {source.index} is given to a second source")
        elif known is None and len(self._origins) >= LIVE_INDICES:
            raise self._error(f"more than {LIVE_INDICES} live indices", RefusalCode.LIMIT)
        else:
            self._origins[source.index] = source.origin
        return source

    def _window(self, window: WindowFrame) -> None:
        if window.count == 0:
            raise self._error("a window of no events")
        if window.count > self._limits.window:
            raise self._error(
                f"a window of {window.count} events, over {self._limits.window}", RefusalCode.LIMIT
            )
        self._left, self._bytes, self._due = window.count, 0, _Due.RUN

    def _begin(self, run: RunFrame) -> None:
        if run.index not in self._origins:
            raise self._error(f"a run of the unknown index {run.index}")
        if reason := _wrong(run):
            raise self._error(reason)
        if run.records > RUN_RECORDS:
            raise self._error(
                f"a run of {run.records} records, over {RUN_RECORDS}", RefusalCode.LIMIT
            )
        if run.records > self._left:
            raise self._error(f"a run of {run.records} records in a window that lacks {self._left}")
        self._grow(RUN.size)
        self._run, self._parts, self._count, self._size, self._due = run, [], 0, 0, _Due.RECORDS

    def _records(
        self, records: JsonRun, given: list[SourceFrame | RunReceived | WindowEnd]
    ) -> None:
        run, count = self._run, len(records)
        assert run is not None
        if records.first != self._sequence + 1 or records.last >= SEQUENCES - 1:
            raise self._error(f"sequence number {records.first} after {self._sequence}")
        if records.envelope != run.envelope:
            raise self._error("a run that is not in one envelope")
        self._count += count
        if self._count > run.records:
            raise self._error(f"more than the {run.records} records that their run announced")
        self._size += records.size
        if self._size > RUN_BYTES:
            raise self._error(f"a run of more than {RUN_BYTES} bytes", RefusalCode.LIMIT)
        self._grow(records.size + (EVENT.size - 8) * count)
        self._sequence = records.last
        self._left -= count
        self._parts += records.parts
        if self._count == run.records:
            given.append(RunReceived(run, self._sequence, tuple(self._parts), self._size))
            self._run, self._parts, self._due = None, [], _Due.RUN
            if self._left == 0:
                given.append(WindowEnd(self._sequence))
                self._due = _Due.BETWEEN

    def _grow(self, size: int) -> None:
        self._bytes += size
        if self._bytes > WINDOW_BYTES:
            raise self._error(f"a window of more than {WINDOW_BYTES} bytes", RefusalCode.LIMIT)

    def _error(self, reason: str, code: RefusalCode = RefusalCode.PROTOCOL) -> ProtocolError:
        return ProtocolError(reason, offset=self._offset, code=code)


def _wrong(run: RunFrame) -> str | None:
    """Return what contradicts itself in *run*, whatever source it belongs to (rules R1, P1, D1)."""
    if run.kind not in (DATA, GAP, END):
        return f"a run of the unknown kind {run.kind}"
    if not 0 <= run.previous < run.number or run.previous >= CLOSED:
        return f"a run from {run.previous} to {run.number}"
    if (run.kind == END) != (run.number >= CLOSED):
        return f"a run of kind {run.kind} to {run.number}: an end, and nothing else, closes"
    if run.records == 0 or (run.kind != DATA and (run.records, run.events) != (1, 0)):
        return f"a run of kind {run.kind} with {run.records} records and {run.events} events"
    if run.read < 0 or run.skipped < 0:
        return f"a run read at {run.read} that skipped {run.skipped}"
    return None


# Writers ----------------------------------------------------------------------------------------

Token = TypeVar("Token")


class AckTracker(Generic[Token]):
    """The windows that a writer has sent and that were not acknowledged yet, oldest first.

    *numbering* "window": numbers begin at 1 in each window, an acknowledgement counts within the
    oldest (v1, v2). "connection": they run on, an acknowledgement means everything up to it
    (`logdrive/1`). *version* is that of the windows.
    """

    def __init__(
        self, numbering: Literal["window", "connection"], version: bytes = VERSION_2
    ) -> None:
        self._running = numbering == "connection"
        self._version = version
        self._windows: deque[tuple[Token, int]] = deque()  # with the number of their last event
        self._sent = 0
        self._acknowledged = 0

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def tokens(self) -> Sequence[Token]:
        """What is in flight, oldest first."""
        return [token for token, _ in self._windows]

    def sent(self, token: Token, last_sequence: int, count: int) -> None:
        """Note that the window *token* of *count* events, the last numbered *last_sequence*, is on
        its way.
        """
        if count < 1 or last_sequence != (self._sent if self._running else 0) + count:
            raise ValueError(
                f"a window of {count} events that ends at {last_sequence}, after {self._sent}"
            )
        self._windows.append((token, last_sequence))
        self._sent = last_sequence

    def ack(self, sequence: int, *, version: bytes = VERSION_2, offset: int = 0) -> list[Token]:
        """Return the windows that `A sequence` completes; 0 is a keepalive.

        Raises `ProtocolError` with *offset*.

        Part of a window completes nothing, and is no error. More than was sent is: the peer counts
        otherwise than we do. So is another *version* than the windows': who knows what the peer
        made of them? But Logstash's keepalives are of version 2 for everybody.
        """
        if version != self._version and (sequence or self._version != VERSION_1):
            reason = (
                f"an acknowledgement in version {version.decode()} of a window in version "
                f"{self._version.decode()}"
            )
            raise ProtocolError(reason, offset=offset)
        if sequence == 0:
            return []
        return (
            self._ack_running(sequence, offset)
            if self._running
            else self._ack_oldest(sequence, offset)
        )

    def _ack_oldest(self, sequence: int, offset: int) -> list[Token]:
        count = self._windows[0][1] if self._windows else 0
        if sequence > count:
            raise ProtocolError(
                f"an acknowledgement of {sequence} where {count} are awaited", offset=offset
            )
        return [self._windows.popleft()[0]] if sequence == count else []

    def _ack_running(self, sequence: int, offset: int) -> list[Token]:
        if not self._acknowledged < sequence <= self._sent:
            reason = (
                f"an acknowledgement of {sequence} between {self._acknowledged}, "
                f"acknowledged, and {self._sent}, sent"
            )
            raise ProtocolError(reason, offset=offset)
        self._acknowledged = sequence
        done: list[Token] = []
        while self._windows and self._windows[0][1] <= sequence:
            done.append(self._windows.popleft()[0])
        return done
