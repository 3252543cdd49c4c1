"""Long polls: reads of one connection that wait for data at the tail
(docs/protocols/pravega.md#reading).

One task answers the reads of all segments: a read that waits costs an object, not a task. When a
segment changes, its reads are answered in the order of their offsets as far as there is data, in
turns with other connections; the reads beyond are not looked at.
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from logdrive.services.pravega.server.segments.reading import PendingRead
from logdrive.services.pravega.server.segments.turn import ConnectionTurn
from logdrive.store.engine import Store

AnswerPoll = Callable[[PendingRead], Awaitable[None]]
"""Sends the answer of a read that waits no longer."""


@dataclass(slots=True, eq=False)
class _Poll:
    """One read, which waits until *deadline* (seconds on the loop's clock)."""

    reading: PendingRead
    deadline: float


@dataclass(slots=True, eq=False)
class _WaitingReads:
    """The reads that wait at one segment's tail."""

    # done once the segment has changed
    watch: "asyncio.Future[None] | None" = None
    # the reads by offset and serial number; those answered at their deadline are still among them
    heap: list[tuple[int, int, _Poll]] = field(default_factory=list)
    # how many of them are not answered
    live: int = 0


class LongPolls:
    """The reads of one connection that wait, each for *poll_seconds* at most.

    The connection's reader calls `add_poll`, and at the end `stop_polling`. A task of its own runs
    `answer_polls`.
    """

    def __init__(self, store: Store, poll_seconds: float, turn: ConnectionTurn) -> None:
        self._store = store
        self._poll_seconds = poll_seconds
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        # reads that are not answered, the earliest deadline first
        self._polls: OrderedDict[_Poll, None] = OrderedDict()
        # by segment; only those at which a read waits
        self._tails: dict[str, _WaitingReads] = {}
        # segments that changed and whose reads were not looked at since
        self._changed: dict[str, None] = {}
        # set when `answer_polls` has something to do
        self._wake = asyncio.Event()
        # of the read added last: reads at one offset are answered in the order of their arrival
        self._serial = 0
        self._stopped = False

    def __len__(self) -> int:
        return len(self._polls)

    def add_poll(self, reading: PendingRead) -> None:
        """Add a read that must wait; `answer_polls` answers it."""
        reading.follow_tail()
        segment, offset = reading.request.segment, reading.request.offset
        tail = self._tails.setdefault(segment, _WaitingReads())
        self._watch(segment, tail)

        poll = _Poll(reading, self._loop.time() + self._poll_seconds)
        self._serial += 1
        heapq.heappush(tail.heap, (offset, self._serial, poll))
        tail.live += 1
        if not self._polls:
            self._wake.set()  # `answer_polls` waits without a deadline
        self._polls[poll] = None

    def stop_polling(self) -> None:
        """Answer no more reads: `answer_polls` returns."""
        self._stopped = True
        self._wake.set()

    async def answer_polls(self, answer: AnswerPoll) -> None:
        """Call *answer* for each read that has data, or whose deadline is over.

        Returns after `stop_polling`. Raises the store's errors.
        """
        try:
            while not self._stopped:
                await self._wait()
                self._turn.restart_clock()
                while self._changed and not self._stopped:
                    segment = next(iter(self._changed))
                    del self._changed[segment]
                    await self._answer_ready(segment, answer)
                await self._answer_late(answer)
        finally:
            for segment in list(self._tails):
                self._unwatch(segment)

    async def _wait(self) -> None:
        """Return when a segment has changed, at the first deadline, or at the end."""
        timer: asyncio.TimerHandle | None = None
        if self._polls:
            timer = self._loop.call_at(next(iter(self._polls)).deadline, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._wake.clear()

    async def _answer_ready(self, segment: str, answer: AnswerPoll) -> None:
        """Answer the reads of *segment* for which there is data."""
        tail = self._tails.get(segment)
        if tail is None:
            return
        self._watch(segment, tail)  # first: a change during the loop below is seen later
        while tail.heap and not self._stopped:
            poll = tail.heap[0][2]
            if poll in self._polls:
                if not poll.reading.has_answer:
                    return  # nor have the others: none has a lower offset
                await self._answer(poll, answer)
            else:
                heapq.heappop(tail.heap)  # answered already

    async def _answer_late(self, answer: AnswerPoll) -> None:
        """Answer the reads whose deadline is over."""
        while self._polls and not self._stopped:
            poll = next(iter(self._polls))
            if poll.deadline > self._loop.time():
                return
            await self._answer(poll, answer)

    async def _answer(self, poll: _Poll, answer: AnswerPoll) -> None:
        segment = poll.reading.request.segment
        del self._polls[poll]
        tail = self._tails[segment]
        tail.live -= 1
        if tail.live == 0:
            self._unwatch(segment)
        elif len(tail.heap) > 2 * tail.live + 8:
            # mostly answered reads: drop them, so that the heap stays small
            tail.heap = [entry for entry in tail.heap if entry[2] in self._polls]
            heapq.heapify(tail.heap)

        await answer(poll.reading)
        self._turn.count_step()
        if self._turn.is_over:
            await self._turn.next_turn()

    # Watching segments ---------------------------------------------------------------------------

    def _watch(self, segment: str, tail: _WaitingReads) -> None:
        if tail.watch is None:
            tail.watch = self._store.watch(segment)
            tail.watch.add_done_callback(partial(self._on_changed, segment, tail))

    def _on_changed(self, segment: str, tail: _WaitingReads, watch: "asyncio.Future[None]") -> None:
        tail.watch = None
        if not watch.cancelled():
            self._changed[segment] = None
            self._wake.set()

    def _unwatch(self, segment: str) -> None:
        watch = self._tails.pop(segment).watch
        if watch is not None:
            self._store.unwatch(segment, watch)
