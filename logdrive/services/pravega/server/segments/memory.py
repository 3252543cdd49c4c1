"""Memory that connections of a face hold for what is not whole, done, or taken: one budget for all.

A connection asks `FaceAllocation.admit` before each read and says with `hold` what it has of
messages. What the store has accepted is not counted here: the store bounds that itself. Long
messages have three quarters of the budget; the last eighth is for connections that hold nothing,
and these come first where several wait: memory may be full of others' messages, and short ones
still go through.

Beyond its part a connection waits until others are done. Where that would not help, because memory
is full of parts of messages and of answers that clients do not take, then

- who holds memory and makes no progress, though it could, is closed, the one that holds most first;
- one connection at a time is *overdrawn*: it reads on until its message is whole, so that the
  others come on too;
- where none ends a long message for a second, those that hold most are closed until half is free.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from logdrive.host.heap import Heap
from logdrive.model.units import KIB, MIB

LITTLE_BYTES: Final = 1 * MIB
"""Who holds no more may use seven eighths of the budget: most appends have less."""
PROGRESS_BYTES: Final = 64 * KIB
STALLED_SECONDS: Final = 1.0
"""A peer that holds memory and may go on brings so many bytes in so many seconds, or ends its
message.

So long, too, may memory be full of long messages none of which ends.
"""
UNTAKEN_SECONDS: Final = 5.0
"""A client takes an answer within so many seconds."""
LOOK_SECONDS: Final = 0.25
_READ_BYTES: Final = 256 * KIB
"""What one more read may bring."""
_PAUSE_SECONDS: Final = 0.01
_QUIET_SECONDS: Final = 10.0
_log = structlog.get_logger("logdrive.store.pravega")


class FaceMemoryBudget:
    """*total* bytes for all connections; *heap* gives back to the system what is free after a
    peak.
    """

    def __init__(self, total: int, heap: Heap) -> None:
        self.total = total
        self.used = 0
        self._busy = 0  # of `used`: comes free without anything that a peer does
        self._heap = heap
        self._overdrawn: FaceAllocation | None = None
        self._waiting: dict[
            asyncio.Future[None], FaceAllocation
        ] = {}  # in the order in which they came
        self._holders: dict[FaceAllocation, None] = {}
        self._pass: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None
        self._jammed_since: float | None = None
        self._closed = 0
        self._said = float("-inf")

    def holding(self, evict: Callable[[str], None]) -> "FaceAllocation":
        """Return a new connection's part; *evict* is called, with the reason, to close it."""
        return FaceAllocation(self, evict)

    def may_read(self, holding: "FaceAllocation") -> bool:
        """Decide whether *holding* may read once; it may become the one that is overdrawn."""
        if self.used <= self._room(holding) or self._overdrawn is holding:
            return True
        if self._overdrawn is None and self._stuck(holding):
            self._overdrawn = holding
            return True
        return False

    async def wait(self, holding: "FaceAllocation") -> None:
        """Return once *holding* may have room; then ask again."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = holding
        self._watch()
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def move(self, holding: "FaceAllocation", change: int, busy: int) -> None:
        """Book that *holding* has *change* bytes more, *busy* of which come free by themselves."""
        self.used += change
        self._busy += busy
        self._heap.add_held(change)
        if holding.size:
            self._holders[holding] = None
        else:
            self._holders.pop(holding, None)
            if self._overdrawn is holding:
                self._overdrawn = None
        if self._waiting and (change < 0 or busy > 0):
            self._let_in()

    def note_end(self, size: int) -> None:
        """Take note that a message of *size* bytes was ended."""
        if size > LITTLE_BYTES:
            self._jammed_since = None

    def _room(self, holding: "FaceAllocation") -> int:
        if not holding.size:
            return self.total
        eighth = self.total // 8
        return self.total - eighth if holding.size <= LITTLE_BYTES else self.total - 2 * eighth

    def _stuck(self, holding: "FaceAllocation") -> bool:
        """Tell whether there would be no room for *holding* if all that is being done were done."""
        return self.used - self._busy > self._room(holding)

    # Those who wait ------------------------------------------------------------------------------

    def _let_in(self) -> None:
        """Let in those for whom there is room, as many as can read; others later."""
        if self.used > self.total and self._overdrawn is not None:
            return
        most = max(1, (self.total - self.used) // _READ_BYTES)
        first = [(future, holding) for future, holding in self._waiting.items() if not holding.size]
        for future, holding in first + [pair for pair in self._waiting.items() if pair[1].size]:
            if not most or (self.used > self.total and self._overdrawn is not None):
                break
            if self.may_read(holding) and not future.done():
                most -= 1
                del self._waiting[future]
                future.set_result(None)
        if not most and self._waiting and self._pass is None:
            self._pass = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._next_pass)

    def _next_pass(self) -> None:
        self._pass = None
        self._let_in()

    # Those who hold ------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_round)

    def _look_round(self) -> None:
        """Close who holds memory without progress, while somebody waits who would wait for ever."""
        self._look = None
        now = asyncio.get_running_loop().time()
        stuck = any(map(self._stuck, self._waiting.values()))
        if not stuck:
            self._jammed_since = None
        elif self._jammed_since is None:
            self._jammed_since = now
        if not self._waiting:
            return
        if stuck and self._jammed_since is not None and now - self._jammed_since >= STALLED_SECONDS:
            self._jammed_since = now
            self._evict(
                [holding for holding in self._holders if not holding.busy],
                self.used - self.total // 2,
            )
        else:
            stalled = [holding for holding in self._holders if holding.leaves_untaken(now)]
            if stuck:
                stalled += [holding for holding in self._holders if holding.leaves_unfinished(now)]
            self._evict(stalled, self.used - min(map(self._room, self._waiting.values())))
        self._let_in()
        self._watch()

    def _evict(self, candidates: list["FaceAllocation"], wanted: int) -> None:
        """Close *candidates*, those that hold most first, until *wanted* bytes will come free."""
        for holding in sorted(candidates, key=lambda each: each.size, reverse=True):
            if wanted <= 0:
                break
            wanted -= holding.size
            self._closed += 1
            reason = f"memory is full, and it holds {holding.size} bytes without making progress"
            holding.evict(reason)
        now = asyncio.get_running_loop().time()
        if self._closed and now - self._said >= _QUIET_SECONDS:
            _log.warning(
                "memory is full of unfinished messages: connections that hold much are closed",
                closed=self._closed,
            )
            self._said, self._closed = now, 0


class FaceAllocation:
    """What one connection holds, and since when its peer makes no progress with it.

    At any time it waits for the peer to send (`reads`), for the peer to take an answer (`writing`),
    for memory (`admit`), or for us.
    """

    __slots__ = (
        "_budget",
        "_grown_to",
        "_read_since",
        "_stalled",
        "_unfinished",
        "_write_since",
        "_writing",
        "busy",
        "evict",
        "size",
    )

    def __init__(self, budget: FaceMemoryBudget, evict: Callable[[str], None]) -> None:
        self._budget = budget
        self.evict = evict
        self.size = 0
        """Bytes held."""
        self.busy = 0
        """Bytes of a message that is being answered: they come free whatever the peer does."""
        self._unfinished = self._writing = 0
        self._read_since: float | None = None
        self._write_since: float | None = None
        self._stalled = 0.0  # seconds in which the peer could have sent, since it last got on
        self._grown_to = 0  # bytes held when it last got on

    async def admit(self) -> None:
        """Return once this connection may take more: a read, or an answer.

        Several tasks may wait.
        """
        while not self._budget.may_read(self):
            await self._budget.wait(self)

    def reads(self) -> None:
        """Say that it is the peer's turn from now on: it may send."""
        self._read_since = asyncio.get_running_loop().time()

    def has_read(self) -> None:
        """Say that something came, or that the wait for it ended."""
        if self._read_since is not None:
            self._stalled += asyncio.get_running_loop().time() - self._read_since
            self._read_since = None

    def hold(self, unfinished: int, busy: int = 0) -> None:
        """Say how many bytes there are of messages that are not whole, and of one being
        answered.
        """
        grown = unfinished - self._grown_to >= PROGRESS_BYTES
        ended = unfinished < self._grown_to // 2
        if ended:
            self._budget.note_end(self._grown_to)
        if grown or ended or not self._unfinished:
            self._stalled, self._grown_to = 0.0, unfinished
        self._unfinished = unfinished
        self._set(unfinished + busy + self._writing, busy)

    @contextmanager
    def writing(self, size: int) -> Iterator[None]:
        """Hold an answer of *size* bytes while the peer takes it; one at a time."""
        self._write_since, self._writing = asyncio.get_running_loop().time(), size
        self._set(self.size + size, self.busy)
        try:
            yield
        finally:
            self._write_since, self._writing = None, 0
            self._set(self.size - size, self.busy)

    def leaves_untaken(self, now: float) -> bool:
        """Tell whether the peer does not read, for longer than it may while memory is short."""
        return self._write_since is not None and now - self._write_since >= UNTAKEN_SECONDS

    def leaves_unfinished(self, now: float) -> bool:
        """Tell whether the peer does not send on, for longer than it may while memory is short."""
        return (
            self._read_since is not None
            and self._stalled + now - self._read_since >= STALLED_SECONDS
        )

    def close(self) -> None:
        """Give everything back."""
        self._set(0, 0)

    def _set(self, size: int, busy: int) -> None:
        change, busy_change = size - self.size, busy - self.busy
        self.size, self.busy = size, busy
        if change or busy_change:
            self._budget.move(self, change, busy_change)
