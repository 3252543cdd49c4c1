"""A source: one generation as this agent delivers it (rules G3, P2, D3, D4). Sans I/O.

It has four parts:

- its identity: `generation`, the bytes; `count`, which of the generations that look alike it is;
  `origin`, the id made of both;
- its registration on the connection there is: a state machine (`registration.py`);
- its unacknowledged runs, which follow one another from `number` (`unacknowledged.py`);
- what was acknowledged: `number` in `store`, and totals (`acknowledged.py`).

The connection calls `next_registrations` and the `on_…` methods, the source reader `add_runs`, and
the input `end_generation`. All fields are read-only outside of this file.
"""

from uuid import UUID

from agent.sources.acknowledged import Acknowledged
from agent.sources.checkpoint import CheckpointEntry
from agent.sources.ending import make_last_runs
from agent.sources.incarnation_search import Counting, IncarnationIds, StoredNumber
from agent.sources.readable import Readable
from agent.sources.registration import NextStep, SourceRegistration, SourceState
from agent.sources.resume import Closed, KnownPosition, Misfit, Resumed, resume
from agent.sources.stored_number_check import StoredNumberCheck
from agent.sources.unacknowledged import UnacknowledgedRuns
from logdrive.model.numbers import CLOSED, is_closed, position_of
from logdrive.model.records import END
from logdrive.records.runs import GapOrEndMark, Run, make_end_run


class Source:
    """The state of one source. There are ten thousand of them: mind what each one takes."""

    __slots__ = (
        "acknowledged",
        "attributes",
        "closes_when_complete",
        "count",
        "counting",
        "ended",
        "generation",
        "incarnations",
        "number",
        "origin",
        "registration",
        "resend",
        "stepped_back",
        "store",
        "unacknowledged",
        "undecided",
    )

    def __init__(
        self,
        generation: Readable | None,
        incarnations: IncarnationIds,
        attributes: bytes | None,
        *,
        count: int,
        counting: Counting = Counting.KNOWN,
        ended: GapOrEndMark | None = None,
        closes_when_complete: bool = False,
    ) -> None:
        # What reads its bytes; None where these are gone.
        self.generation = generation
        # What its S frame says of it, as JSON; None where the registry makes it of the generation.
        self.attributes = attributes

        self.incarnations = incarnations
        self.count = count
        self.counting = counting
        self.origin = incarnations.origin_for(count)

        # Its registration on the connection there is.
        self.registration = SourceRegistration()
        # Whether the last P was lower than what the same store had acknowledged (rule G6).
        self.stepped_back = False

        # Its runs that no acknowledgement covers.
        self.unacknowledged = UnacknowledgedRuns()
        # The mark of its end record, once nothing more will be read.
        self.ended = ended
        # Its end record follows its last byte: `agent ship` of a file without a first line, which
        # would have another origin id if it were shipped again after it has grown.
        self.closes_when_complete = closes_when_complete
        # The store may have its bytes under another count already, as those of a clone (rule A4).
        self.resend = False
        # Whether it begins at its start or at 0 depends on the store's answer (rule P2).
        self.undecided = False

        # The number acknowledged last.
        self.number = 0
        # The store that has it; None before the first answer.
        self.store: UUID | None = None
        # Totals of what was acknowledged.
        self.acknowledged = Acknowledged()

    def restore(self, entry: CheckpointEntry) -> None:
        """Take over a checkpoint's *entry*; its origin id goes before one made now (rule G2)."""
        self.origin = entry.origin
        self.number, self.store = entry.number, entry.store
        self.undecided, self.resend = entry.undecided, entry.resend
        self.acknowledged.at_ms = entry.acknowledged

    def revive(self, mark: GapOrEndMark, now_ms: int) -> None:
        """Register a restored source that has ended once more, to send its end record again."""
        if is_closed(self.number):
            self.number -= CLOSED
        self.ended = mark
        self.unacknowledged.add(make_end_run(self.number, mark, now_ms))
        self.registration.require()

    # What there is to do -------------------------------------------------------------------------

    @property
    def state(self) -> SourceState:
        """The state of its registration."""
        return self.registration.state

    @property
    def epoch(self) -> int:
        """The epoch of the runs in flight: their acknowledgements must name it."""
        return self.unacknowledged.epoch

    @property
    def cursor(self) -> int:
        """The number from which the next run goes on."""
        runs = self.unacknowledged.runs
        return runs[-1].number if runs else self.number

    @property
    def position(self) -> int:
        """The acknowledged position, in bytes."""
        return position_of(self.number)

    @property
    def living(self) -> Readable | None:
        """The generation while its bytes can be read, else None."""
        generation = self.generation
        if generation is None or generation.retired or self.ended is not None:
            return None
        return generation

    @property
    def readable(self) -> bool:
        """Whether its bytes can be read, or read again."""
        return self.living is not None

    @property
    def gap_is_due(self) -> bool:
        """Whether its next run is the gap before its start, of bytes not wanted (rule P2)."""
        generation = self.living
        return generation is not None and position_of(self.cursor) == 0 < generation.start

    @property
    def end_is_due(self) -> bool:
        """Whether its next run is its end record, as it closes when complete and is complete."""
        generation = self.living
        return self.closes_when_complete and generation is not None and generation.unread == 0

    @property
    def has_more(self) -> bool:
        """Whether there is something to send or to read."""
        if self.state is SourceState.DONE:
            return False
        if self.unacknowledged.unsent or self.gap_is_due or self.end_is_due:
            return True
        generation = self.living
        return generation is not None and generation.has_lines

    @property
    def is_behind(self) -> bool:
        """Whether something of it was not acknowledged: runs, or bytes that can be sent."""
        return bool(self.unacknowledged) or self.has_more

    @property
    def backlog_bytes(self) -> int:
        """Bytes that wait to be sent: encoded ones of runs, and those not read."""
        unread = self.living.unread if self.living is not None else 0
        return self.unacknowledged.unsent_bytes + unread

    @property
    def unacknowledged_bytes(self) -> int:
        """Bytes of its file that were seen and that no acknowledgement covers."""
        if (generation := self.living) is None:
            return position_of(self.cursor) - self.position
        return max(0, generation.seen - max(self.position, generation.start))

    # Registering ---------------------------------------------------------------------------------

    @property
    def may_register(self) -> bool:
        """Whether it can register now, not only after the answer for another source."""
        return not self.undecided and (
            self.counting is not Counting.AFTER or self.incarnations.counts_known(self)
        )

    def next_registrations(self) -> list[tuple[int, UUID]]:
        """Return the counts to register now, each with its origin id.

        Send an S frame for each, and give every answer to `on_answer`.
        """
        if self.counting is Counting.AFTER:
            self._take_count(self.incarnations.next_count(self))

        # the answers for several counts decide which one it is
        many = self.counting is Counting.MANY
        counts = self.registration.ask(0 if many else self.count, many=many)
        return [
            (count, self.origin if count == self.count else self.incarnations.origin_for(count))
            for count in counts
        ]

    def on_answer(self, answer: StoredNumber, now_ms: int) -> NextStep:
        """Handle the P frame for one of the counts of `next_registrations`, while ASKING.

        Raises OSError where the bytes to compare with can't be read.
        """
        decided = self.registration.add_answer(answer, self._stored_number_check().may_be_own)
        if isinstance(decided, NextStep):
            return decided
        self._take_count(decided.count)
        return self.on_position(decided.number, decided.store, now_ms)

    def on_position(self, number: int, store: UUID, now_ms: int) -> NextStep:
        """Handle the *number* that *store* has: the first P frame or a later one (rule D3).

        Runs in flight are given up: those that the store lacks are sent again. Raises OSError where
        the bytes to compare with can't be read.
        """
        self.unacknowledged.give_up_in_flight()
        self.registration.on_position()
        self.stepped_back = False

        check = self._stored_number_check()
        known = KnownPosition(
            self.number,
            self.store,
            self.unacknowledged.runs,
            self.readable,
            self.ended,
            check.matches,
            check.is_complete_at,
        )

        match resume(known, number, store, now_ms):
            case Closed():
                self.number, self.store = number, store
                self._finish()
                return NextStep.DONE
            case Misfit(reason):
                self._begin_next_count(reason)
                return NextStep.ASK_NEXT
            case Resumed(resumed, runs, stepped_back):
                self.number, self.store = resumed, store
                self.unacknowledged.replace(tuple(runs))
                self.stepped_back = stepped_back
                self.registration.resume()
                self._drop_start(resumed)
                self._read_from_cursor()
                return NextStep.GO_ON

    def open_unregistered(self) -> None:
        """Let it send, from what was acknowledged last, to a peer that keeps no numbers."""
        self.registration.open_unregistered()
        self.counting = Counting.KNOWN
        self._read_from_cursor()

    def mark_resent(self) -> None:
        """Let its headers say that its bytes may be stored twice, for the audit (rule A4)."""
        self.resend = True

    def _take_count(self, count: int) -> None:
        self.counting = Counting.KNOWN
        if count != self.count:
            self.count = count
            self.origin = self.incarnations.origin_for(count)

    def _begin_next_count(self, problem: str) -> None:
        """Start over under the next count: the store has another's bytes under this one (D4)."""
        self._take_count(max(self.count + 1, self.incarnations.next_count(self)))
        self.mark_resent()
        self.number, self.store = 0, None
        self.unacknowledged.clear()
        self.registration.misfit(problem)
        if (generation := self.living) is not None:
            generation.resume_from(0)

    def _read_from_cursor(self) -> None:
        if (generation := self.living) is not None and generation.position != position_of(
            self.cursor
        ):
            generation.resume_from(self.cursor)

    def _stored_number_check(self) -> StoredNumberCheck:
        return StoredNumberCheck(
            self.generation, self.living, closes_when_complete=self.closes_when_complete
        )

    # Where to start ------------------------------------------------------------------------------

    def await_start_decision(self) -> None:
        """Keep it from registering until `on_start_decided` (rule P2)."""
        self.undecided = True

    def on_start_decided(self, *, wanted: bool, now_ms: int) -> None:
        """Begin at the start that was found, or at 0 if the bytes before it are *wanted* (P2)."""
        self.undecided = False
        if not wanted:
            return
        if self.generation is not None:
            self.generation.set_start(0)
        if self.ended is not None:
            # Nothing was read of it, so its runs are gaps and the end record: they are made again.
            seen = position_of(self.unacknowledged.runs[-1].previous)
            self.unacknowledged.clear()
            self.end_generation_at(self.ended, 0, seen, now_ms)

    def _drop_start(self, number: int) -> None:
        """Begin at 0 if the store has bytes before the start: they were wanted before (rule P2)."""
        if self.generation is not None and 0 < position_of(number) < self.generation.start:
            self.generation.set_start(0)

    # Sending -------------------------------------------------------------------------------------

    def add_runs(self, runs: list[Run]) -> None:
        """Add runs that were just read; the first one goes on from `cursor`."""
        self.unacknowledged.add(*runs)

    def replace_runs(self, runs: list[Run]) -> None:
        """Hold *runs*, the same bytes in another form, instead; nothing may be in flight."""
        self.unacknowledged.replace(tuple(runs))

    def next_unsent_run(self) -> Run | None:
        """Return the next run that is not in flight and count it as sent; None without one."""
        return self.unacknowledged.send_next()

    def give_back_raw_text(self) -> None:
        """Drop what was read and waits uncompressed for its turn, if it can be read again then.

        Much may: a line too long for one pack is read whole, short lines make many full records.
        """
        if self.readable and self.unacknowledged.holds_raw_text:
            self.unacknowledged.drop_unsent()
            self._read_from_cursor()

    def end_generation(self, mark: GapOrEndMark, now_ms: int) -> None:
        """End it: nothing more can be read. Bytes seen and not read become a gap (G3, P4)."""
        if (generation := self.generation) is not None:
            self.end_generation_at(mark, generation.start, generation.seen, now_ms)
        else:
            self.end_generation_at(mark, 0, self.position, now_ms)

    def end_generation_at(self, mark: GapOrEndMark, start: int, seen: int, now_ms: int) -> None:
        """End it: its bytes were wanted from *start* on, and are known to have reached *seen*."""
        runs = make_last_runs(self.cursor, mark, start=start, seen=seen, now_ms=now_ms)
        self.unacknowledged.add(*runs)
        self.ended = mark

    def on_acknowledged(self, epoch: int, run: Run, now_ms: int) -> bool:
        """Handle the acknowledgement of *run*, sent in *epoch*; return whether it counts.

        Not where the run was given up since: then it is sent again.
        """
        if not self.unacknowledged.acknowledge(epoch, run):
            return False
        self.registration.on_progress()
        self.number = run.number
        self.acknowledged.add_run(run, now_ms)
        if run.kind == END:
            self._finish()
        return True

    # What goes wrong -----------------------------------------------------------------------------

    def on_disconnected(self) -> None:
        """Handle the loss of its registration: what was in flight may or may not be stored."""
        self.unacknowledged.give_up_in_flight()
        self.registration.disconnect()

    def on_refused(self, reason: str, retry_at: float) -> None:
        """Pause it until *retry_at* because of *reason*: an E frame, or an unreadable file.

        Runs that can be read again leave memory meanwhile.
        """
        self.unacknowledged.give_up_in_flight()
        self.registration.refuse(reason, retry_at)
        self.drop_rereadable_runs()

    def drop_rereadable_runs(self) -> None:
        """Drop the runs that can be read again; nothing may be in flight."""
        if (generation := self.living) is not None:
            self.unacknowledged.clear()
            if generation.position != self.position:
                generation.resume_from(self.number)

    def _finish(self) -> None:
        self.unacknowledged.clear()
        self.registration.complete()
        if self.generation is not None:
            self.generation.retire()
