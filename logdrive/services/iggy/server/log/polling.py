"""Polls of one partition: where they begin, and what they return."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.units import KIB, MIB
from logdrive.services.iggy.server.log.appending import message_time_us
from logdrive.services.iggy.server.log.foreign import show_foreign
from logdrive.services.iggy.server.log.stored import StoredRun, read_runs
from logdrive.services.numbering.positions import Position
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.services.numbering.walk import read_event, walk
from logdrive.store.engine import Store
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import PollingKind, PollingStrategy
from logdrive.wire.iggy.messages.polled import StoredEvents, encode_polled
from logdrive.wire.iggy.replies import Polled
from logdrive.wire.iggy.revision import Revision

POLL_BYTES: Final = 16 * MIB
"""Bytes of messages in one reply; a single longer message is returned all the same."""
_PIECE: Final = MIB
"""Bytes of a segment that are read in one go, at most."""
_LEAST: Final = 16 * KIB
"""The same, at least."""
_ENDS: Final = 64
"""Ends of polls that are remembered, since most consumers go on there."""


class PolledMessages(NamedTuple):
    """A poll's *reply*, and the offsets of its first and last message; None if it has none."""

    reply: Polled
    first_offset: int | None
    last_offset: int | None


class PartitionPoller:
    """The polls of the segment *numbered*; *id_seed* is for ids that no client chose."""

    def __init__(self, store: Store, numbered: NumberedSegment, *, id_seed: bytes) -> None:
        self._store = store
        self._numbered = numbered
        self._id_seed = id_seed
        # by offset: where polls have ended
        self._ends: OrderedDict[int, Position] = OrderedDict()

    def poll(
        self,
        revision: Revision,
        strategy: PollingStrategy,
        count: int,
        *,
        partition: int,
        stored: int | None,
        limit: int,
    ) -> PolledMessages:
        """Return up to *count* messages; see `PartitionLog.poll`. The view must be up to date."""
        view = self._numbered.view
        current = max(0, view.end.seq_num - 1)
        if not count and revision <= Revision.R1:
            raise IggyError(Reason.INVALID_MESSAGES_COUNT, "a poll of no messages")
        begin = self._begin(strategy, count, stored)
        if not count or begin.offset >= view.end.offset:
            return PolledMessages(Polled(partition, current, 0), None, None)
        runs: list[StoredRun] = []
        encoded = encode_polled(
            revision,
            self._events(begin, count, runs),
            partition=partition,
            id_seed=self._id_seed,
            most=count,
            limit=limit,
            foreign=show_foreign,
        )
        if not encoded.count:
            return PolledMessages(Polled(partition, current, 0), None, None)
        end = begin.seq_num + encoded.count
        self._remember(end, runs)
        reply = Polled(partition, current, encoded.count, encoded.batches)
        return PolledMessages(reply, begin.seq_num, end - 1)

    def _begin(self, strategy: PollingStrategy, count: int, stored: int | None) -> Position:
        view, first = self._numbered.view, self._numbered.first_position()
        match strategy.kind:
            case PollingKind.OFFSET:
                begin = self._position_of(strategy.value)
            case PollingKind.TIMESTAMP:
                begin = self._position_from(strategy.value)
            case PollingKind.FIRST:
                begin = first
            case PollingKind.LAST:
                begin = self._position_of(max(0, view.end.seq_num - count))
            case PollingKind.NEXT:
                begin = first if stored is None else self._position_of(stored + 1)
        return max(begin, first)

    def _position_from(self, time_us: int) -> Position:
        """Return where the first message of *time_us* or later begins: see `message_time_us`."""
        since = self._numbered.appended_from(time_us // 1000)
        found = self._numbered.view.position_before(since)
        if found.offset < since:  # that message began with an older append
            event = read_event(
                self._store, found, self._numbered.segment, self._numbered.view.end.offset
            )
            found = found if event is None else event.behind
        return found

    def _position_of(self, offset: int) -> Position:
        return self._ends.get(offset) or self._numbered.view.position_of(offset)

    def _events(self, begin: Position, count: int, runs: list[StoredRun]) -> Iterator[StoredEvents]:
        """Yield what is stored from *begin* on; the last run yielded is in *runs*."""
        view, first = self._numbered.view, self._numbered.first_position()
        end, at = view.end, begin
        # as long as messages are here on average
        usual = (end.offset - first.offset) // max(1, end.seq_num - first.seq_num) + EVENT_HEAD
        while at.offset < end.offset:
            wanted = usual * (count - (at.seq_num - begin.seq_num))
            read = read_runs(
                self._store,
                self._numbered.segment,
                at,
                end,
                min(_PIECE, max(_LEAST, wanted)),
            )
            if not read:
                return
            for run in read:
                runs[:] = [run]
                yield StoredEvents(run.events, run.begin.seq_num, message_time_us(run.time_ms))
            at = read[-1].end

    def _remember(self, offset: int, runs: list[StoredRun]) -> None:
        """Remember where a poll ended: before the message at *offset*, in the last of *runs*."""
        run = runs[-1]
        if run.begin.seq_num > offset:
            return
        end = run.end
        if offset < end.seq_num:
            end = walk(
                self._numbered.segment, run.begin, run.time_ms, run.events, to_seq_num=offset
            )
        if end.seq_num != offset:
            return
        self._ends[offset] = end
        self._ends.move_to_end(offset)
        if len(self._ends) > _ENDS:
            self._ends.popitem(last=False)
