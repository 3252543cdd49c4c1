"""One source as the agent speaks for it: registered or not, what is sent, what is acknowledged
(rules G3, P2, D3, D4). Sans I/O.

    IDLE ──questions()──▶ ASKING ──answer()──▶ OPEN ──end record acknowledged──▶ DONE
      ▲                     │  count is not this life's: the next one
      │                     │                   (or the store has it already)
      ├─────disconnected()──┴───────────────────┤
      └──── connected() ◀── PAUSED ◀──refused()─┘

*kept* runs follow one another from `number`, the one acknowledged last; the first `sent` of them
are in flight. A P cancels what is in flight by opening a new *epoch*: acknowledgements of an older
one say nothing.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol
from uuid import UUID

from agent.records.batch import NOT_WANTED, Mark, Run, end_run, gap_run, gone
from agent.sources.readable import Readable
from agent.sources.registration import IncarnationSearch, StoredNumber
from agent.sources.resume import Closed, KnownPosition, Misfit, Resumed, resume
from logdrive.model.numbers import is_closed, position_of
from logdrive.model.records import END


class Names(Protocol):
    """Gives origin ids by count: all that look alike share one *stem*."""

    @property
    def stem(self) -> UUID:
        """What lives that look alike have in common."""
        ...

    def origin(self, count: int) -> UUID:
        """Return the origin id of the life numbered *count*."""
        ...

    def next_count(self, source: "Source") -> int:
        """Return the lowest count above those of all known lives that look alike, *source* itself
        not counted.
        """
        ...

    def decided(self, source: "Source") -> bool:
        """Tell whether the counts of all of them but *source* are known."""
        ...


class Counting(Enum):
    """How sure a source's count is."""

    KNOWN = "known"
    MANY = "many"
    """It was begun without a checkpoint: several counts have to be asked for."""
    AFTER = "after"
    """It follows a life whose own count is still being asked for."""


class SourceState(Enum):
    """What a source may do on the connection there is."""

    IDLE = auto()
    ASKING = auto()
    OPEN = auto()
    PAUSED = auto()
    DONE = auto()


class NextStep(Enum):
    """What is to be done after an answer."""

    WAIT = auto()
    """Other counts are still being asked for."""
    ASK_MORE = auto()
    """None of the counts asked for was never seen: ask for more of them (rule G3)."""
    ASK_NEXT = auto()
    """The count is not this life's: ask for the next one (rule D4)."""
    GO_ON = auto()
    DONE = auto()


@dataclass(slots=True)
class Acknowledged:
    """What was acknowledged since the agent started."""

    events: int = 0
    bytes: int = 0
    gap_bytes: int = 0
    at_ms: int = 0

    def add(self, other: "Acknowledged") -> None:
        """Add what was acknowledged of another source."""
        self.events += other.events
        self.bytes += other.bytes
        self.gap_bytes += other.gap_bytes
        self.at_ms = max(self.at_ms, other.at_ms)


class Source:
    """The state of one source. *generation* reads its bytes, None where these are gone for good."""

    __slots__ = (
        "_claims",
        "acknowledged",
        "attributes",
        "closes_when_complete",
        "count",
        "counting",
        "ended",
        "epoch",
        "generation",
        "kept",
        "must_register",
        "names",
        "number",
        "origin",
        "problem",
        "refusals",
        "resend",
        "retry_at",
        "sent",
        "state",
        "stepped_back",
        "store",
        "undecided",
    )

    def __init__(
        self,
        generation: Readable | None,
        names: Names,
        attributes: bytes | None,
        *,
        count: int,
        counting: Counting = Counting.KNOWN,
    ) -> None:
        self.generation = generation
        self.names = names
        self.attributes = attributes
        """What an S says of it; None where that is made of what it is read from
        (`SourceRegistry.attributes_of`).
        """
        self.count = count
        self.counting = counting
        self.origin = names.origin(count)
        self.number = 0
        self.store: UUID | None = None
        # no deque: an empty one takes 760 bytes, and a list of these few is as fast
        self.kept: list[Run] = []
        self.sent = 0
        self.epoch = 0
        self.state = SourceState.IDLE
        self.ended: Mark | None = None
        """Why nothing more will be read, once that is so."""
        self.closes_when_complete = False
        """`ship` of a file without a first line: its end record follows its last byte (history
        16).
        """
        self.resend = False
        """Bytes of it may be stored under another count already, as those of a clone are (rule
        A4).
        """
        self.undecided = False
        """Whether it begins at its start or at 0 depends on what the store knows of this agent
        (rule P2).
        """
        self.must_register = False
        """It registers even without anything to send: the store may have stepped back, or a
        position must be known.
        """
        self.stepped_back = False
        """The last P told that the store lost what it had acknowledged (rule G6)."""
        self.problem = ""
        self.refusals = 0
        self.retry_at = 0.0
        self.acknowledged = Acknowledged()
        self._claims: IncarnationSearch | None = None

    # What there is to do -------------------------------------------------------------------------

    @property
    def cursor(self) -> int:
        """The number from which the next run goes on."""
        return self.kept[-1].number if self.kept else self.number

    @property
    def position(self) -> int:
        """The acknowledged position."""
        return position_of(self.number)

    @property
    def readable(self) -> bool:
        """Whether its bytes can be read anew."""
        return self.generation is not None and not self.generation.over and self.ended is None

    @property
    def opens_with_gap(self) -> bool:
        """Whether the bytes before its start stand to be told as not wanted (rule P2)."""
        return (
            self.readable
            and self.generation is not None
            and position_of(self.cursor) == 0 < self.generation.start
        )

    @property
    def has_more(self) -> bool:
        """Whether there is something to send or to read."""
        if self.state is SourceState.DONE:
            return False
        if self.sent < len(self.kept) or self.opens_with_gap or self.must_end:
            return True
        return self.readable and self.generation is not None and self.generation.has_lines

    @property
    def must_end(self) -> bool:
        """Whether its end record is due: it closes when complete, and is (`ship`, history 16)."""
        return (
            self.closes_when_complete
            and self.readable
            and self.generation is not None
            and self.generation.unread == 0
        )

    @property
    def backlog(self) -> int:
        """Bytes that wait to be sent."""
        kept = sum(self.kept[index].size for index in range(self.sent, len(self.kept)))
        return kept + (
            self.generation.unread if self.readable and self.generation is not None else 0
        )

    @property
    def unacknowledged(self) -> int:
        """Bytes of its file that were seen and that no acknowledgement covers yet."""
        if self.generation is None or not self.readable:
            return position_of(self.cursor) - self.position
        return max(0, self.generation.seen - max(self.position, self.generation.start))

    @property
    def finished(self) -> bool:
        """Whether the store has all of it, its end record included."""
        return self.state is SourceState.DONE

    @property
    def may_register(self) -> bool:
        """Whether its questions can be asked: not while they depend on another source's answers."""
        return not self.undecided and (
            self.counting is not Counting.AFTER or self.names.decided(self)
        )

    # Registering ---------------------------------------------------------------------------------

    def questions(self) -> list[tuple[int, UUID]]:
        """Return the counts to register now, with their origins."""
        if self.counting is Counting.AFTER:
            self._take_count(self.names.next_count(self))
        if self._claims is None:
            many = self.counting is Counting.MANY
            self._claims = IncarnationSearch(0 if many else self.count, many=many)
        self.state = SourceState.ASKING
        return [
            (count, self.origin if count == self.count else self.names.origin(count))
            for count in self._claims.questions()
        ]

    @property
    def awaits_others(self) -> bool:
        """Whether the next answer decides nothing, as more are to come: its file need not be looked
        at for that.
        """
        return (
            self.state is SourceState.ASKING
            and self._claims is not None
            and self._claims.lacking > 1
        )

    def answer(self, answer: StoredNumber, now_ms: int) -> NextStep:
        """Take one answer to `questions`."""
        assert self._claims is not None
        self._claims.answer(answer)
        if self._claims.waiting:
            return NextStep.WAIT
        decided = self._claims.decide(self._claimable)
        if decided is None:
            return NextStep.ASK_MORE
        self._claims = None
        self._take_count(decided.count)
        return self.told(decided.number, decided.store, now_ms)

    def told(self, number: int, store: UUID, now_ms: int) -> NextStep:
        """Take a P for the count decided on, the first or a later one (rule D3)."""
        self.epoch += 1
        self.sent = 0
        self.must_register = self.stepped_back = False
        standing = KnownPosition(
            self.number,
            self.store,
            list(self.kept),
            self.readable,
            self.ended,
            self._fits,
            self._complete_at,
        )
        match resume(standing, number, store, now_ms):
            case Closed():
                self.number, self.store = number, store
                self._finish()
                return NextStep.DONE
            case Misfit(reason):
                self.problem = reason
                self._next_count()
                return NextStep.ASK_NEXT
            case Resumed(told, kept, stepped_back):
                self.number, self.store, self.kept, self.stepped_back = (
                    told,
                    store,
                    kept,
                    stepped_back,
                )
                self.state = SourceState.OPEN
                self._forget_start(told)
                if (
                    self.readable
                    and self.generation is not None
                    and self.generation.position != position_of(self.cursor)
                ):
                    self.generation.go_to(self.cursor)
                return NextStep.GO_ON

    def _forget_start(self, told: int) -> None:
        """A store that has bytes of before the start knows better: these were wanted when the
        checkpoint was lost (rule P2).
        """
        if self.generation is not None and 0 < position_of(told) < self.generation.start:
            self.generation.start = 0

    def decide_start(self, *, wanted: bool, now_ms: int) -> None:
        """Begin at the start that was found, or, where the bytes before it are *wanted* after all,
        at 0 (rule P2).
        """
        self.undecided = False
        if not wanted:
            return
        if self.generation is not None:
            self.generation.start = 0
        if self.ended is not None:  # and nothing was read of it: all there is are gaps, told anew
            seen = position_of(self.kept[-1].previous)
            self.kept.clear()
            self.end_at(self.ended, 0, seen, now_ms)

    def open_without_asking(self) -> None:
        """Begin to send on a connection that keeps no numbers: plain Lumberjack, from what was
        acknowledged last.
        """
        self.state = SourceState.OPEN
        self.counting = Counting.KNOWN
        if (
            self.readable
            and self.generation is not None
            and self.generation.position != position_of(self.cursor)
        ):
            self.generation.go_to(self.cursor)

    def _next_count(self) -> None:
        """Begin anew under the next count: what the store has under this one is another's (rule
        D4).
        """
        self._take_count(max(self.count + 1, self.names.next_count(self)))
        self.sends_again()
        self.number, self.store = 0, None
        self.kept.clear()
        self.state = SourceState.IDLE
        self._claims = None
        if self.generation is not None and self.readable:
            self.generation.go_to(0)

    def sends_again(self) -> None:
        """Say of all that is sent that it may be there twice, so that the audit looks (rule A4)."""
        self.resend = True

    def _take_count(self, count: int) -> None:
        self.counting = Counting.KNOWN
        if count != self.count:
            self.count, self.origin = count, self.names.origin(count)

    def _claimable(self, number: int) -> bool:
        return self._complete_at(number) if is_closed(number) else self._fits(number)

    def _fits(self, number: int) -> bool:
        return not self.readable or self.generation is None or self.generation.fits(number)

    def _complete_at(self, number: int) -> bool:
        generation = self.generation
        return (
            self.closes_when_complete
            and generation is not None
            and position_of(number) == generation.seen
            and generation.fits(number)
        )

    # Sending -------------------------------------------------------------------------------------

    def keep(self, runs: list[Run]) -> None:
        """Add runs that were just read."""
        self.kept += runs

    def next_run(self) -> Run | None:
        """Return the next kept run that is not in flight and count it as sent, None where there is
        none.
        """
        if self.sent == len(self.kept):
            return None
        run = self.kept[self.sent]
        self.sent += 1
        return run

    def end(self, mark: Mark, now_ms: int) -> None:
        """Take notice that nothing more can be read: what was seen and not read is a gap, then the
        end record (rules G3, P4).
        """
        start, seen = (
            (self.generation.start, self.generation.seen)
            if self.generation is not None
            else (0, self.position)
        )
        self.end_at(mark, start, seen, now_ms)

    def end_at(self, mark: Mark, start: int, seen: int, now_ms: int) -> None:
        """End a life that was wanted from *start* on, and of which bytes up to *seen* are known to
        have been.
        """
        unwanted = min(start, seen) if position_of(self.cursor) == 0 else 0
        for place, reason in ((unwanted, Mark(NOT_WANTED)), (seen, mark)):
            if place > position_of(self.cursor):
                self.kept.append(gap_run(self.cursor, gone(place), reason, now_ms))
        self.kept.append(end_run(self.cursor, mark, now_ms))
        self.ended = mark

    def acknowledge(self, epoch: int, run: Run, now_ms: int) -> bool:
        """Take the acknowledgement of a run sent in *epoch*; return whether it says anything."""
        if epoch != self.epoch:
            return False
        assert self.kept[0] is run, "runs are acknowledged in the order in which they were sent"
        del self.kept[0]
        self.sent -= 1
        self.refusals = 0
        self.acknowledged.events += run.events
        self.acknowledged.at_ms = now_ms
        size = run.position - position_of(run.previous)
        if run.mark is None:
            self.acknowledged.bytes += size
        else:
            self.acknowledged.gap_bytes += size
        self.number = run.number
        if run.kind == END:
            self._finish()
        return True

    # What goes wrong -----------------------------------------------------------------------------

    def connected(self, now: float) -> None:
        """Take notice of a new connection, or that time has passed: a pause may be over."""
        if self.state is SourceState.PAUSED and now >= self.retry_at:
            self.state = SourceState.IDLE

    def disconnected(self) -> None:
        """Take notice that the connection is gone: what was in flight may or may not be stored."""
        self.epoch += 1
        self.sent = 0
        self._claims = None
        if self.state in (SourceState.ASKING, SourceState.OPEN):
            self.state = SourceState.IDLE

    def refused(self, reason: str, retry_at: float) -> None:
        """Take an E: the source is dead until *retry_at*.

        What can be read again is not kept in memory meanwhile.
        """
        self.disconnected()
        self.problem = reason
        self.refusals += 1
        self.retry_at = retry_at
        self.read_again()
        self.state = SourceState.PAUSED

    def read_again(self) -> None:
        """Keep nothing that can be read again from what was acknowledged last.

        Nothing may be in flight.
        """
        if self.readable:
            self.kept.clear()
            if self.generation is not None and self.generation.position != self.position:
                self.generation.go_to(self.number)

    def _finish(self) -> None:
        self.kept.clear()
        self.sent = 0
        self.state = SourceState.DONE
        if self.generation is not None:
            self.generation.end()
