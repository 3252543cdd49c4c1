"""A source: one generation as this agent delivers it (rules G3, P2, D3, D4). Sans I/O.

It has four parts:

- its identity: `generation`, the bytes; `count`, which of the generations that look alike it is;
  `origin`, the id made of both;
- its registration on the connection there is: a state machine (`registration.py`);
- its unacknowledged runs, which follow one another from `number` (`unacknowledged.py`);
- what was acknowledged: `number` in `store`, and totals (`acknowledged.py`).

The connection calls `next_registrations` and the `on_…` methods, the source reader `add_runs`, and
the input `end_generation`. All fields but `events`, which the encoders set, are read-only outside
of this file.
"""

from collections.abc import Sequence
from uuid import UUID

from agent.events.source_events import SourceEvents
from agent.sources.acknowledged import Acknowledged
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.ending import make_last_runs
from agent.sources.incarnation_search import Counting, IncarnationIds, StoredNumber
from agent.sources.readable import DueGap, Readable
from agent.sources.registration import NextStep, SourceRegistration, SourceState
from agent.sources.resume import Closed, KnownPosition, Misfit, Resumed, resume
from agent.sources.sibling_search import SiblingSearch
from agent.sources.stored_number_check import SeenBytes, StoredNumberCheck
from agent.sources.unacknowledged import UnacknowledgedRuns
from logdrive.model.numbers import CLOSED, is_closed, position_of
from logdrive.model.records import END
from logdrive.records.runs import SKIPPED, TRUNCATED, GapOrEndMark, Run, make_end_run

NO_CONNECTION = -1
"""Stands for the connection of a source that has none yet."""

_SKIPPED = GapOrEndMark(SKIPPED)


class Source:
    """The state of one source. There are ten thousand of them: mind what each one takes."""

    __slots__ = (
        "acknowledged",
        "attributes",
        "awaits_bytes",
        "closes_when_complete",
        "connection",
        "count",
        "counting",
        "ended",
        "ending",
        "events",
        "generation",
        "gone",
        "incarnations",
        "number",
        "origin",
        "registration",
        "resend",
        "sibling_search",
        "skip_to",
        "stepped_back",
        "store",
        "unacknowledged",
        "undecided",
        "withheld",
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
        # What was seen of them then, as of the checkpoint; None where that is not needed.
        self.gone: SeenBytes | None = None
        # What is done with its events: made when it is first read, None where nothing is.
        self.events: SourceEvents | None = None
        # What its S frame says of it, as JSON; None where the registry makes it of the generation.
        self.attributes = attributes

        self.incarnations = incarnations
        self.count = count
        self.counting = counting
        self.origin = incarnations.origin_for(count)

        # The connection that it lives on (`ConnectionQueue.adopt`), and its state there.
        self.connection = NO_CONNECTION
        self.registration = SourceRegistration()
        # Whether the last P was lower than what the same store had acknowledged (rule G6).
        self.stepped_back = False

        # Its runs that no acknowledgement covers.
        self.unacknowledged = UnacknowledgedRuns()
        # The mark of its end record, once nothing more will be read.
        self.ended = ended
        # The mark that its end record will have, once its rest was read from a copy (rule G5).
        self.ending: GapOrEndMark | None = None
        # Only a copy can show which count is its own: its bytes are gone (rule G5).
        self.awaits_bytes = False
        # Its end record follows its last byte: of an input that has ended, and with `agent ship` of
        # a file without a first line, which would have another origin id if it were shipped again
        # after it has grown.
        self.closes_when_complete = closes_when_complete
        # Whether it is a copy that the store knows, while that is not known.
        self.sibling_search: SiblingSearch | None = None
        # The store may have its bytes under another count already, as those of a clone (rule A4).
        self.resend = False
        # Whether it begins at its start or at 0 depends on the store's answer (rule P2).
        self.undecided = False
        # The position up to which an operator has what was not sent left out (rule A4); 0 for none.
        self.skip_to = 0
        # Nothing of it is sent before the checkpoint has what an operator asked for (rule A4).
        self.withheld = False

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
        self.undecided, self.resend, self.skip_to = entry.undecided, entry.resend, entry.skip
        self.acknowledged.at_ms = entry.acknowledged
        if self.generation is None and self.counting.asks_several:
            self.gone = SeenBytes(entry.seen, entry.last)

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
    def cursor_position(self) -> int:
        """The position from which the next run goes on."""
        return position_of(self.cursor)

    @property
    def position(self) -> int:
        """The acknowledged position, in bytes."""
        return position_of(self.number)

    @property
    def greatest(self) -> tuple[int, UUID | None]:
        """The greatest number that a store has acknowledged, and that store (rule D5).

        It is another than `store` until that one has the gap of what it lacks.
        """
        elsewhere = self.unacknowledged.elsewhere
        if elsewhere and (mark := elsewhere[-1].mark) is not None:
            return elsewhere[-1].number, mark.store
        return self.number, self.store

    @property
    def sent_position(self) -> int:
        """The position up to which runs were sent, acknowledged or not."""
        sent = self.unacknowledged.sent
        return self.unacknowledged.runs[sent - 1].position if sent else self.position

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
    def due_gap(self) -> DueGap | None:
        """The gap that its next run is: before its start (P2), say, or left out (P4, A4)."""
        if (generation := self.living) is None:
            return None
        at = position_of(self.cursor)
        gap = generation.gap_at(at)
        return DueGap(self.skip_to, _SKIPPED) if gap is None and at < self.skip_to else gap

    @property
    def end_is_due(self) -> bool:
        """Whether its next run is its end record, as it closes when complete and is complete."""
        generation = self.living
        return self.closes_when_complete and generation is not None and generation.unread == 0

    @property
    def has_more(self) -> bool:
        """Whether there is something to send or to read."""
        if self.state is SourceState.DONE or self.withheld:
            return False
        if self.unacknowledged.unsent or self.due_gap is not None or self.end_is_due:
            return True
        generation = self.living
        return generation is not None and generation.has_lines

    @property
    def is_behind(self) -> bool:
        """Whether something of it was not acknowledged: runs, or bytes that can be sent."""
        return bool(self.unacknowledged) or self.has_more

    @property
    def holds_events(self) -> bool:
        """Whether runs wait for their acknowledgement that only events can be made of again."""
        return any(run.of_events for run in self.unacknowledged.runs)

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
        if self.undecided or self.awaits_bytes or self.withheld:
            return False
        # the counts that others have taken are no copies' (rule G5)
        search = self.sibling_search
        if search is not None and search.trying:
            return self.incarnations.counted_here(self)
        waits = self.counting in (Counting.NEXT, Counting.AFTER)
        return not waits or self.incarnations.counts_known(self)

    def next_registrations(self) -> list[tuple[int, UUID]]:
        """Return the counts to register now, each with its origin id.

        Send an S frame for each, and give every answer to `on_answer`.
        """
        if self.counting is Counting.NEXT:
            self._take_count(self.incarnations.next_count(self))

        # the answers for several counts decide which one it is
        many = self.counting.asks_several
        # a source that lives on the same connection would lose its registration
        taken = self.incarnations.living_counts(self) if many else ()
        counts = self.registration.ask(0 if many else self.count, many=many, taken=taken)
        return [
            (count, self.origin if count == self.count else self.incarnations.origin_for(count))
            for count in counts
        ]

    def on_answer(self, answer: StoredNumber, now_ms: int) -> NextStep:
        """Handle the P frame for one of the counts of `next_registrations`, while ASKING.

        Raises OSError where the bytes to compare with can't be read, and `SourceTruncatedError`
        where they are others by now.
        """
        search, check = self.sibling_search, self._stored_number_check()
        # which of several it is, bytes must say
        gone = self.counting.asks_several and check.is_gone
        fits = check.may_be_own
        if search is not None and search.trying:
            fits = check.may_be_copied
        elif gone:
            fits = check.may_be_gone if self.ending is not None else check.is_surely_gone
        elif self.ending is not None:
            fits = check.may_be_own_or_copied
        decided = self.registration.add_answer(answer, fits)
        if isinstance(decided, NextStep):
            return decided
        if gone and decided.number >= 0 and not check.is_surely_gone(decided.number):
            self.awaits_bytes = True
            self.registration.misfit("")
            return NextStep.ASK_OTHER
        if search is not None and self._asks_other(search, decided):
            return NextStep.ASK_OTHER
        self._take_count(decided.count)
        return self.on_position(decided.number, decided.store, now_ms)

    def search_siblings(self, siblings: Sequence[tuple[str, IncarnationIds]]) -> None:
        """Let it be asked for under the ids of *siblings*, too, if the store has never seen it.

        Each comes with its path. Its bytes must be readable.
        """
        assert self.generation is not None
        own_path = self.generation.place.path
        self.sibling_search = SiblingSearch(self.incarnations, own_path, siblings)

    def _asks_other(self, search: SiblingSearch, decided: StoredNumber) -> bool:
        """Take other ids if *decided* says that the store does not know it under these.

        Returns False if these stay: its own, or those of which it is a copy.
        """
        if decided.number >= 0:
            self.sibling_search = None
            if search.trying:
                search.own.remove(self)
                self.incarnations.add(self)
                # the file that it was copied from was truncated, and has lived on
                self.ending = GapOrEndMark(TRUNCATED)
            return False

        if not search.trying:
            search.own_count = decided.count
        if (sibling := search.next_sibling()) is None:
            self._end_sibling_search()
        else:
            path, ids = sibling
            self.counting, self.count, self.incarnations = Counting.MANY, 0, ids
            self.origin = ids.origin_for(0)
            self._set_path(path)
        self.registration.misfit("")
        return True

    def _end_sibling_search(self) -> None:
        """Take its own ids again: it is no copy of a sibling."""
        if (search := self.sibling_search) is None:
            return
        self.sibling_search = None
        if search.trying:
            self.counting, self.count = Counting.KNOWN, search.own_count
            self.incarnations = search.own
            self.origin = search.own.origin_for(search.own_count)
            self._set_path(search.own_path)

    def _set_path(self, path: str) -> None:
        """Let its lines be known by *path*: that of the file that it may be a copy of."""
        if self.generation is not None:
            self.generation.place.path = path

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
            awaited=self.ending is not None,
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
        self._end_sibling_search()
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
            self.generation,
            self.living,
            closes_when_complete=self.closes_when_complete,
            gone=self.gone,
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
            self.drop_unsent_runs()

    def drop_unsent_runs(self) -> None:
        """Drop what was read and is not in flight: it is read again."""
        self.unacknowledged.drop_unsent()
        self._read_from_cursor()

    def skip(self, position: int) -> None:
        """Leave out what is not sent before *position*: a gap takes its place (rule A4)."""
        self.skip_to = position
        self.drop_unsent_runs()

    def close_when_complete(self) -> None:
        """Let its end record follow its last byte: nothing is added to it any more."""
        self.closes_when_complete = True

    def end_generation(self, mark: GapOrEndMark, now_ms: int) -> None:
        """End it: nothing more can be read. Bytes seen and not read become a gap (G3, P4)."""
        if (generation := self.generation) is not None:
            self.end_generation_at(mark, generation.start, generation.seen, now_ms)
        else:
            self.end_generation_at(mark, 0, self.position, now_ms)

    def end_generation_at(self, mark: GapOrEndMark, start: int, seen: int, now_ms: int) -> None:
        """End it: its bytes were wanted from *start* on, and are known to have reached *seen*."""
        runs = make_last_runs(
            self.cursor, mark, start=start, skip_to=self.skip_to, seen=seen, now_ms=now_ms
        )
        self.unacknowledged.add(*runs)
        self.ended, self.ending, self.awaits_bytes = mark, None, False

    def await_copy(self, mark: GapOrEndMark) -> None:
        """Keep it open, as a copy may have what its file had when it went: *mark* says how (G5).

        Its generation is retired. `continue_with` or `end_generation_at` follows.
        """
        self.ending = mark

    def continue_with(self, generation: Readable, *, living: bool) -> None:
        """Go on with *generation*, other bytes that begin with all that was read so far (G5).

        With *living* more may be written there; else `end_generation_at` follows once it is read.
        """
        self.generation, self.awaits_bytes = generation, False
        if living:
            self.ending = None
        self._read_from_cursor()

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

    def on_refused(
        self, reason: str, retry_at: float, *, of_receiver: bool = False, of_file: bool = False
    ) -> None:
        """Pause it until *retry_at* because of *reason*: an E frame, or an unreadable file.

        *of_receiver* says whether the receiver's own state is the cause, *of_file* whether the file
        is. Runs that can be read again leave memory meanwhile.
        """
        self.unacknowledged.give_up_in_flight()
        self.registration.refuse(reason, retry_at, of_receiver=of_receiver, of_file=of_file)
        self.drop_rereadable_runs()

    def drop_rereadable_runs(self) -> None:
        """Drop the runs that can be read again; nothing may be in flight."""
        if self.living is not None:
            self.drop_unsent_runs()

    def _finish(self) -> None:
        self.unacknowledged.clear()
        self.registration.complete()
        if self.generation is not None:
            self.generation.retire()
