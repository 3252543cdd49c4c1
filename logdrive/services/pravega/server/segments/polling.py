"""Reads of one connection that wait for data at the tail (specification, section 3).

One task answers them all, whichever segments they are about: a read that waits costs an object,
not a task. Those that one append wakes are answered in turns, and the others are not looked at.
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


@dataclass(slots=True, eq=False)
class _Poll:
    """One read, which waits until *deadline* on the loop's time."""

    reading: PendingRead
    deadline: float


@dataclass(slots=True, eq=False)
class _Tail:
    """The reads of one segment.

    *heap* has them by offset and serial number, those that were answered for lateness among them;
    *live* counts the others. *watch* is done once the segment has changed.
    """

    watch: "asyncio.Future[None] | None" = None
    heap: list[tuple[int, int, _Poll]] = field(default_factory=list)
    live: int = 0


class LongPolls:
    """The waiting reads.

    `answer_polls` answers them beside whoever calls the rest; raises what the store does.
    """

    def __init__(self, store: Store, poll_seconds: float, turn: ConnectionTurn) -> None:
        self._store, self._poll_seconds, self._turn = store, poll_seconds, turn
        self._loop = asyncio.get_running_loop()
        self._polls: OrderedDict[_Poll, None] = OrderedDict()  # by their deadlines
        self._tails: dict[str, _Tail] = {}
        self._changed: dict[str, None] = {}
        self._something = asyncio.Event()
        self._serial = 0
        self._ended = False

    def __len__(self) -> int:
        return len(self._polls)

    def add_poll(self, reading: PendingRead) -> None:
        """Let *reading*, which has no answer yet, wait for one."""
        reading.follow_tail()
        segment, offset = reading.request.segment, reading.request.offset
        tail = self._tails.setdefault(segment, _Tail())
        self._watch(segment, tail)
        poll = _Poll(reading, self._loop.time() + self._poll_seconds)
        self._serial += 1
        heapq.heappush(tail.heap, (offset, self._serial, poll))
        tail.live += 1
        if not self._polls:
            self._something.set()  # `answer_polls` is to wait no longer than this one
        self._polls[poll] = None

    def stop_polling(self) -> None:
        """Answer nothing more: `answer_polls` returns."""
        self._ended = True
        self._something.set()

    async def answer_polls(self, answer: AnswerPoll) -> None:
        """Call *answer* for each read that can be answered, or has waited its time, until
        `stop_polling`.
        """
        try:
            while not self._ended:
                await self._wait()
                self._turn.restart_clock()
                while self._changed and not self._ended:
                    segment = next(iter(self._changed))
                    del self._changed[segment]
                    await self._answer_ready(segment, answer)
                await self._answer_late(answer)
        finally:
            for segment in list(self._tails):
                self._forget(segment)

    async def _wait(self) -> None:
        """Return at a change of a segment, at the first deadline, or at the end."""
        timer: asyncio.TimerHandle | None = None
        if self._polls:
            timer = self._loop.call_at(next(iter(self._polls)).deadline, self._something.set)
        try:
            await self._something.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._something.clear()

    async def _answer_ready(self, segment: str, answer: AnswerPoll) -> None:
        """Answer the reads of *segment* that need not wait any longer."""
        tail = self._tails.get(segment)
        if tail is None:
            return
        self._watch(segment, tail)  # before the first look: what changes from now on is seen later
        while tail.heap and not self._ended:
            poll = tail.heap[0][2]
            if poll in self._polls:
                if not poll.reading.has_answer:
                    return
                await self._answer(poll, answer)
            else:
                heapq.heappop(tail.heap)

    async def _answer_late(self, answer: AnswerPoll) -> None:
        """Answer those whose time is over."""
        while self._polls and not self._ended:
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
            self._forget(segment)
        elif len(tail.heap) > 2 * tail.live + 8:
            tail.heap = [entry for entry in tail.heap if entry[2] in self._polls]
            heapq.heapify(tail.heap)
        await answer(poll.reading)
        self._turn.count_step()
        if self._turn.is_over:
            await self._turn.next_turn()

    # Watching segments ---------------------------------------------------------------------------

    def _watch(self, segment: str, tail: _Tail) -> None:
        if tail.watch is None:
            tail.watch = self._store.watch(segment)
            tail.watch.add_done_callback(partial(self._note, segment, tail))

    def _note(self, segment: str, tail: _Tail, watch: "asyncio.Future[None]") -> None:
        tail.watch = None
        if not watch.cancelled():
            self._changed[segment] = None
            self._something.set()

    def _forget(self, segment: str) -> None:
        watch = self._tails.pop(segment).watch
        if watch is not None:
            self._store.unwatch(segment, watch)
