"""The memory budget of a face: what the messages and answers of all connections may take.

It counts messages that are incomplete or being answered, and answers that clients do not read. What
the store has accepted is not counted here: the store limits that itself.

Theory of operation:

- A connection awaits `FaceAllocation.wait_until_admitted` before each read and each long answer,
  and reports what it holds with `set_unfinished` and `hold_answer`.
- How much of the budget may be in use when a connection is admitted depends on what it holds
  itself: nothing, all of it; up to `LITTLE_BYTES`, seven eighths; more, three quarters. So short
  messages still get through when memory is full of long ones. Connections that hold nothing are
  admitted first.
- Beyond that a connection waits until others have finished.

Waiting does not help where memory is full of parts of messages, and of answers that clients do not
read. Then

- a connection that holds memory and makes no progress, though its peer could, is closed, the
  largest first;
- one connection at a time is *overcommitted*: it is admitted until its message is complete, so that
  the others get room after it;
- if no long message is completed for `STALLED_SECONDS`, the largest connections are closed until
  half of the budget is free.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from logdrive.host.heap import Heap
from logdrive.model.units import KIB, MIB

LITTLE_BYTES: Final = 1 * MIB
"""Connections that hold no more may use seven eighths of the budget: most appends have less."""
PROGRESS_BYTES: Final = 64 * KIB
"""Bytes of a message that count as progress."""
STALLED_SECONDS: Final = 1.0
"""Seconds in which a peer that may send brings `PROGRESS_BYTES`, or completes its message.

Also the time after which memory that is full of long messages, none of which is completed, is
freed by force.
"""
UNTAKEN_SECONDS: Final = 5.0
"""Seconds in which a client reads an answer."""
LOOK_SECONDS: Final = 0.25
"""Seconds between two searches for connections to close, while others wait."""
_READ_BYTES: Final = 256 * KIB
"""Bytes that one more read may bring at most."""
_PAUSE_SECONDS: Final = 0.01
"""Seconds between two rounds of admissions: what the first one reads is counted by then."""
_QUIET_SECONDS: Final = 10.0
"""Seconds between two warnings about closed connections."""
_log = structlog.get_logger("logdrive.store")


class FaceMemoryBudget:
    """A budget of *total* bytes for all connections.

    *heap* returns freed memory to the system after a peak.
    """

    def __init__(self, total: int, heap: Heap) -> None:
        self.total = total
        # bytes that all connections hold
        self.used = 0
        # of those, bytes that are freed whatever the peers do
        self._busy = 0
        self._heap = heap
        # the one connection that may exceed the budget
        self._overcommitted: FaceAllocation | None = None
        # connections that wait for memory, in the order in which they came
        self._waiting: dict[asyncio.Future[None], FaceAllocation] = {}
        # connections that hold memory
        self._holders: dict[FaceAllocation, None] = {}
        # timer of the next round of admissions
        self._pass: asyncio.TimerHandle | None = None
        # timer of the next search for connections to close
        self._look: asyncio.TimerHandle | None = None
        # since when memory is full of messages none of which is completed (the loop's clock)
        self._jammed_since: float | None = None
        # connections closed since the last warning, and when that was
        self._closed = 0
        self._warned = float("-inf")

    def open_allocation(self, evict: Callable[[str], None]) -> "FaceAllocation":
        """Return a new connection's allocation; *evict* must close it, and gets the reason."""
        return FaceAllocation(self, evict)

    def try_admit(self, allocation: "FaceAllocation") -> bool:
        """Return whether *allocation* may read once more; it may become the overcommitted one."""
        if self.used <= self._limit_for(allocation) or self._overcommitted is allocation:
            return True
        if self._overcommitted is None and self._is_stuck(allocation):
            self._overcommitted = allocation
            return True
        return False

    async def wait_for_room(self, allocation: "FaceAllocation") -> None:
        """Return once *allocation* may have room; then call `try_admit` again."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = allocation
        self._watch()
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def on_allocation_changed(self, allocation: "FaceAllocation", change: int, busy: int) -> None:
        """Count that *allocation* holds *change* bytes more, *busy* more of them busy."""
        self.used += change
        self._busy += busy
        self._heap.add_held(change)
        if allocation.size:
            self._holders[allocation] = None
        else:
            self._holders.pop(allocation, None)
            if self._overcommitted is allocation:
                self._overcommitted = None
        # memory was freed, or will be
        if self._waiting and (change < 0 or busy > 0):
            self._admit_waiting()

    def on_message_ended(self, size: int) -> None:
        """Note that a message of *size* bytes was completed: a long one is progress for all."""
        if size > LITTLE_BYTES:
            self._jammed_since = None

    def _limit_for(self, allocation: "FaceAllocation") -> int:
        """Return how many bytes may be in use for *allocation* to be admitted."""
        if not allocation.size:
            return self.total
        eighth = self.total // 8
        return self.total - eighth if allocation.size <= LITTLE_BYTES else self.total - 2 * eighth

    def _is_stuck(self, allocation: "FaceAllocation") -> bool:
        """Return whether *allocation* would have no room even once everything busy is freed."""
        return self.used - self._busy > self._limit_for(allocation)

    # Connections that wait -----------------------------------------------------------------------

    def _admit_waiting(self) -> None:
        """Admit connections for whose reads there is room now; more of them in later rounds."""
        if self.used > self.total and self._overcommitted is not None:
            return
        # what they read is not counted yet: assume the most
        left = max(1, (self.total - self.used) // _READ_BYTES)
        # those that hold nothing come first
        first = [pair for pair in self._waiting.items() if not pair[1].size]
        for future, allocation in first + [pair for pair in self._waiting.items() if pair[1].size]:
            if not left or (self.used > self.total and self._overcommitted is not None):
                break
            if self.try_admit(allocation) and not future.done():
                left -= 1
                del self._waiting[future]
                future.set_result(None)
        if not left and self._waiting and self._pass is None:
            self._pass = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._next_pass)

    def _next_pass(self) -> None:
        self._pass = None
        self._admit_waiting()

    # Connections that hold memory ----------------------------------------------------------------

    def _watch(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._close_stalled)

    def _close_stalled(self) -> None:
        """Close connections that hold memory without progress, while others wait in vain."""
        self._look = None
        now = asyncio.get_running_loop().time()
        stuck = any(map(self._is_stuck, self._waiting.values()))
        if not stuck:
            self._jammed_since = None
        elif self._jammed_since is None:
            self._jammed_since = now
        if not self._waiting:
            return

        if stuck and self._jammed_since is not None and now - self._jammed_since >= STALLED_SECONDS:
            # each peer may bring a little, and none completes its message: free half by force
            self._jammed_since = now
            self._evict(
                [allocation for allocation in self._holders if not allocation.busy],
                self.used - self.total // 2,
            )
        else:
            stalled = [each for each in self._holders if each.is_answer_overdue(now)]
            if stuck:
                stalled += [each for each in self._holders if each.is_message_stalled(now)]
            self._evict(stalled, self.used - min(map(self._limit_for, self._waiting.values())))
        self._admit_waiting()
        self._watch()

    def _evict(self, candidates: list["FaceAllocation"], wanted: int) -> None:
        """Close *candidates*, the largest first, until *wanted* bytes will be freed."""
        for allocation in sorted(candidates, key=lambda each: each.size, reverse=True):
            if wanted <= 0:
                break
            wanted -= allocation.size
            self._closed += 1
            allocation.evict(
                f"memory is full, and it holds {allocation.size} bytes without making progress"
            )
        now = asyncio.get_running_loop().time()
        if self._closed and now - self._warned >= _QUIET_SECONDS:
            _log.warning(
                "memory is full of unfinished messages: connections that hold much are closed",
                closed=self._closed,
            )
            self._warned, self._closed = now, 0


class FaceAllocation:
    """The memory that one connection holds, and since when its peer has made no progress with it.

    At any time the connection waits for the peer to send (between `on_read_started` and
    `on_read_ended`), for the peer to read an answer (`hold_answer`), for memory
    (`wait_until_admitted`), or for us. Only the first two count against the peer.
    """

    __slots__ = (
        "_answer_bytes",
        "_answer_since",
        "_budget",
        "_grown_to",
        "_read_since",
        "_stalled",
        "_unfinished",
        "busy",
        "evict",
        "size",
    )

    def __init__(self, budget: FaceMemoryBudget, evict: Callable[[str], None]) -> None:
        self._budget = budget
        # closes the connection
        self.evict = evict
        # bytes held
        self.size = 0
        # of those, bytes of a message that is being answered: they are freed whatever the peer does
        self.busy = 0
        # bytes of incomplete messages
        self._unfinished = 0
        # bytes of the answer being sent
        self._answer_bytes = 0
        # since when the peer may send, or has an answer to read (seconds on the loop's clock)
        self._read_since: float | None = None
        self._answer_since: float | None = None
        # seconds in which the peer could have sent, since its last progress
        self._stalled = 0.0
        # bytes of incomplete messages at its last progress
        self._grown_to = 0

    async def wait_until_admitted(self) -> None:
        """Return once this connection may read, or answer, once more; several tasks may wait."""
        while not self._budget.try_admit(self):
            await self._budget.wait_for_room(self)

    def on_read_started(self) -> None:
        """Note that the connection waits for the peer to send."""
        self._read_since = asyncio.get_running_loop().time()

    def on_read_ended(self) -> None:
        """Note that the peer sent something, or that the wait for it ended."""
        if self._read_since is not None:
            self._stalled += asyncio.get_running_loop().time() - self._read_since
            self._read_since = None

    def set_unfinished(self, unfinished: int, busy: int = 0) -> None:
        """Set the bytes of incomplete messages, and of one that is being answered (*busy*)."""
        grown = unfinished - self._grown_to >= PROGRESS_BYTES
        ended = unfinished < self._grown_to // 2
        if ended:
            self._budget.on_message_ended(self._grown_to)
        if grown or ended or not self._unfinished:
            self._stalled, self._grown_to = 0.0, unfinished
        self._unfinished = unfinished
        self._set(unfinished + busy + self._answer_bytes, busy)

    @contextmanager
    def hold_answer(self, size: int) -> Iterator[None]:
        """Count an answer of *size* bytes while the peer reads it; one at a time."""
        self._answer_since, self._answer_bytes = asyncio.get_running_loop().time(), size
        self._set(self.size + size, self.busy)
        try:
            yield
        finally:
            self._answer_since, self._answer_bytes = None, 0
            self._set(self.size - size, self.busy)

    def is_answer_overdue(self, now: float) -> bool:
        """Return whether the peer has not read its answer for `UNTAKEN_SECONDS`."""
        return self._answer_since is not None and now - self._answer_since >= UNTAKEN_SECONDS

    def is_message_stalled(self, now: float) -> bool:
        """Return whether the peer has sent nothing more of its message for `STALLED_SECONDS`."""
        return (
            self._read_since is not None
            and self._stalled + now - self._read_since >= STALLED_SECONDS
        )

    def release_all(self) -> None:
        """Free everything; called when the connection ends."""
        self._set(0, 0)

    def _set(self, size: int, busy: int) -> None:
        change, busy_change = size - self.size, busy - self.busy
        self.size, self.busy = size, busy
        if change or busy_change:
            self._budget.on_allocation_changed(self, change, busy_change)
