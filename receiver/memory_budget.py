"""Memory budget: how many bytes were read and are not durable yet, for each connection and in all.

A connection asks `Allocation.wait_admitted` before each read, and before each step of unpacking an
envelope. Beyond a limit it waits until batches of its own, or of any connection, are durable. The
last quarter of the memory is for connections that hold little, so that short windows go through
even while others are full of long envelopes.

When memory is full of parts of windows, waiting for the disk does not help. Then

- connections that hold memory, may read, and make no progress are closed, those that hold most
  first; after them, if not even short windows go through, connections that have held anything for
  long while they waited for us;
- one connection at a time is *overdrawn*: it reads on beyond the limit until its window is whole,
  so that the others can go on after it. It is closed if it keeps them waiting for too long.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from logdrive.model.units import KIB, MIB

READ_BYTES: Final = 1 * MIB
"""Bytes that one more read is expected to bring, unpacked."""
_PAUSE_SECONDS = 0.01
"""Seconds between two rounds of letting connections in."""
_TOLL = 5 * KIB // 2
"""Bytes counted for each batch beside its own: about what its objects take, here and in the store.
"""
_LITTLE: Final = 256 * KIB
"""Limit on the bytes of unfinished windows of a connection that may use the last quarter of the
memory: about one read.
"""
_PROGRESS_BYTES: Final = 256 * KIB
_STALLED_SECONDS: Final = 1.0
"""A peer that holds memory and may read makes progress if it sends `_PROGRESS_BYTES` within
`_STALLED_SECONDS`, or ends what it began.
"""
_HELD_SECONDS: Final = 5.0
"""Limit on how long a connection that waits for us may hold anything while not even short windows
go through.
"""
_LOOK_SECONDS: Final = 0.25
"""Seconds between two looks for connections to close, while any waits."""
_OVERDRAWN_SECONDS: Final = 10.0
"""Limit on how long an overdrawn connection may take to end its window, whatever it sends."""


class MemoryBudget:
    """The budget of all connections, in bytes.

    *on_change* is called with each growth, or shrinkage (below 0), of what is used.
    """

    def __init__(
        self, total: int, per_connection: int, on_change: Callable[[int], None] = lambda size: None
    ) -> None:
        self.total = total
        self.per_connection = per_connection
        self._on_change = on_change
        self.used = 0  # by all connections
        self.submitted = 0  # the part of it that is on its way to the disk

        self._overdrawn: Allocation | None = None
        self._overdrawn_from = 0.0  # its `waited` when it became overdrawn
        self._next_much = False  # whether one that holds much is overdrawn next

        # those that wait to read, in order: [0] those that hold little, [1] those that hold much
        self._waiting: tuple[dict[Allocation, None], ...] = ({}, {})
        # those let in that had no turn since: many batches may become durable at once
        self._entering: dict[Allocation, int] = {}  # bytes that each takes
        self._holders: dict[Allocation, None] = {}  # those that hold parts of windows
        self._pass: asyncio.TimerHandle | None = None  # of the next `_let_in`
        self._look: asyncio.TimerHandle | None = None  # of the next look for ones to close

    def open_allocation(self) -> "Allocation":
        """Return the allocation of a new connection."""
        return Allocation(self)

    def may_read(self, allocation: "Allocation") -> bool:
        """Return whether *allocation* may read once; it may become the overdrawn one by that."""
        if self._fits(allocation) or (self._overdrawn is allocation and not allocation.over_limit):
            return True

        # no durable batch can make room: let one connection finish its window beyond the limit
        if self._overdrawn is None and self._is_stuck(allocation) and not allocation.over_limit:
            self._overdraw(allocation)
            return True
        return False

    def overdrawn_seconds_left(self, allocation: "Allocation") -> float | None:
        """Return for how many seconds more *allocation* may keep the others waiting, None if it
        does not.
        """
        if self._overdrawn is not allocation or not allocation.buffered:
            return None
        return max(0.0, self._overdrawn_from + _OVERDRAWN_SECONDS - allocation.waited)

    async def wait_to_read(self, allocation: "Allocation") -> None:
        """Return once *allocation* may read."""
        queue = self._waiting[allocation.holds_much]
        queue[allocation] = None
        self._watch()
        try:
            await allocation.wait_let_in()
        finally:
            queue.pop(allocation, None)  # still there if it was cancelled
            self._entering.pop(allocation, None)

    def record_change(
        self, allocation: "Allocation", *, buffered: int = 0, submitted: int = 0
    ) -> None:
        """Count a change of what *allocation* holds; let others in if there is room now."""
        self.used += buffered + submitted
        self.submitted += submitted
        self._on_change(buffered + submitted)
        if allocation.buffered:
            self._holders[allocation] = None
        else:
            self._holders.pop(allocation, None)

        # its window is durable: the next one may be overdrawn
        if self._overdrawn is allocation and allocation.used == 0:
            self._overdrawn = None
        # only what was given back can let another connection in
        if any(self._waiting) and (buffered < 0 or submitted < 0):
            self._let_in()

    def end_overdraft(self, allocation: "Allocation") -> None:
        """Let another connection be overdrawn if *allocation* was."""
        if self._overdrawn is allocation:
            self._overdrawn = None
            self._let_in()

    def _room(self, much: bool) -> int:
        """Return how many bytes may be used before connections that hold little, or *much*, have
        to wait.
        """
        return self.total - self.total // 4 if much else self.total

    def _stuck(self, much: bool) -> bool:
        """Return whether they would have to wait even if all that was submitted were durable."""
        return self.used - self.submitted > self._room(much)

    def _is_stuck(self, allocation: "Allocation") -> bool:
        """Return whether *allocation* would have to wait even then."""
        return self.used - self.submitted > self._room_before(allocation)

    def _fits(self, allocation: "Allocation") -> bool:
        return self.used <= self._room_before(allocation) and not allocation.over_limit

    def _room_before(self, allocation: "Allocation") -> int:
        """Return how many bytes may be used before *allocation* has to wait.

        What it opens has to fit, too; but more than half of the room is not kept free for that, as
        it might never be.
        """
        room = self._room(allocation.holds_much)
        return room - min(allocation.opening, room // 2)

    def _overdraw(self, allocation: "Allocation") -> None:
        self._overdrawn, self._overdrawn_from = allocation, allocation.waited

    # Connections that wait -----------------------------------------------------------------------

    def _let_in(self) -> None:
        """Let in as many waiting connections as there is room for, one at the least, those that
        hold little first, in order; the rest after a pause.

        Those let in have not read yet, so that their bytes can't be counted: the pause lets the
        first ones read.
        """
        taken = sum(self._entering.values())
        paused = False
        for much in (False, True):
            queue, room = self._waiting[much], self._room(much) - self.used
            for allocation in list(filter(self._fits, queue)):
                # those let in will take all: the pause shows how much it was
                paused = taken > 0 and taken + allocation.wanted > room
                if paused:
                    break
                del queue[allocation]
                allocation.let_in()
                self._entering[allocation] = allocation.wanted
                taken += allocation.wanted
        self._let_in_overdrawn()

        # room was the limit, not memory: more can be let in once these have read
        if paused and any(self._waiting) and self._pass is None:
            self._pass = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._next_pass)

    def _let_in_overdrawn(self) -> None:
        """Let the overdrawn connection in. If there is none, overdraw one that is stuck: one that
        holds little and one that holds much in turn.
        """
        if self._overdrawn is not None:
            for queue in self._waiting:
                if self._overdrawn in queue and not self._overdrawn.over_limit:
                    del queue[self._overdrawn]
                    self._overdrawn.let_in()
            return
        for much in (self._next_much, not self._next_much):
            allocation = next(
                (
                    each
                    for each in self._waiting[much]
                    if self._is_stuck(each) and not each.over_limit
                ),
                None,
            )
            if allocation is not None:
                del self._waiting[much][allocation]
                self._overdraw(allocation)
                allocation.let_in()
                self._next_much = not much
                return

    def _next_pass(self) -> None:
        self._pass = None
        self._let_in()

    # Connections that hold memory ----------------------------------------------------------------

    def _watch(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look_round)

    def _look_round(self) -> None:
        """Close connections that hold memory without progress, while others wait that the disk
        can't help.
        """
        self._look = None
        if not any(self._waiting):
            return
        now = asyncio.get_running_loop().time()

        # not even a short window goes through: make room for many
        if self._waiting[False] and self._stuck(False):
            missing = self._evict(self._stalled(now), self.used - self.total // 2, now)
            # still too little; but what an overdrawn connection has submitted may help first
            if missing > 0 and not (self._overdrawn and self._overdrawn.submitted):
                holding = [
                    allocation
                    for queue in self._waiting
                    for allocation in queue
                    if allocation.buffered
                ]
                self._evict(
                    [
                        allocation
                        for allocation in holding
                        if now - allocation.since >= _HELD_SECONDS
                    ],
                    missing,
                    now,
                )
        # only connections that hold much wait: make room for one of them
        elif self._waiting[True] and self._stuck(True):
            self._evict(self._stalled(now), self.used - self._room(True), now)

        # an overdrawn connection that holds nothing any more need not stay so
        if self._overdrawn is not None and self._overdrawn.used == 0:
            self._overdrawn = None
        self._let_in()
        self._watch()

    def _stalled(self, now: float) -> list["Allocation"]:
        return [
            holder for holder in self._holders if holder.stalled_seconds(now) >= _STALLED_SECONDS
        ]

    def _evict(self, allocations: list["Allocation"], wanted: int, now: float) -> int:
        """Close connections, those that hold most first, until *wanted* bytes will be free; return
        how many are still missing.
        """
        for allocation in sorted(allocations, key=lambda each: each.buffered, reverse=True):
            if wanted <= 0:
                break
            wanted -= allocation.buffered
            allocation.on_evict(
                f"memory is full, and this connection has held {allocation.buffered} bytes for"
                f" {now - allocation.since:.1f} s without ending what it began"
            )
        return wanted


class Allocation:
    """What one connection holds of the budget, in bytes."""

    __slots__ = (
        "_grown_to",
        "_memory",
        "_reading_since",
        "_stalled",
        "_turn",
        "buffered",
        "on_evict",
        "opening",
        "since",
        "submitted",
        "waited",
    )

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self.buffered = 0
        """Bytes of unfinished frames and windows."""
        self.submitted = 0
        """Bytes of batches on their way to the disk."""
        self.opening = 0
        """Bytes of what it opens next, once it is let in; 0 if it reads."""
        self.on_evict: Callable[[str], None] = lambda reason: None
        """Called with the reason if the connection is to be closed, to free what it holds."""
        self._turn: asyncio.Future[None] | None = None  # done when it is let in
        self._reading_since: float | None = None  # on the loop's time; None while we don't read
        self.waited = 0.0
        """Seconds in which the peer could have sent something, since the connection began."""
        self.since = 0.0
        """When, on the loop's time, the peer last made progress: ended something that it had begun,
        or sent a fair part of it.
        """
        self._stalled = 0.0  # the part of `waited` since then
        self._grown_to = 0  # `buffered` at that time

    @property
    def used(self) -> int:
        """All bytes held."""
        return self.buffered + self.submitted

    @property
    def holds_much(self) -> bool:
        """Whether it holds too much of unfinished windows for the last quarter of the memory, or is
        about to.
        """
        return self.buffered + self.opening > _LITTLE

    @property
    def wanted(self) -> int:
        """Bytes that it takes next, once it is let in."""
        return self.opening or READ_BYTES

    @property
    def over_limit(self) -> bool:
        """Whether this connection has to wait until batches of its own are durable."""
        return self.submitted > 0 and self.used > self._memory.per_connection

    @property
    def overdrawn_seconds_left(self) -> float | None:
        """Seconds for which the peer, overdrawn, may still keep the others waiting; None if it does
        not.
        """
        return self._memory.overdrawn_seconds_left(self)

    @property
    def admitted(self) -> bool:
        """Whether this connection may read at once, so that it need not await `wait_admitted`."""
        return self._memory.may_read(self)

    async def wait_admitted(self) -> None:
        """Return once this connection may read."""
        if not self._memory.may_read(self):
            await self._memory.wait_to_read(self)

    async def wait_let_in(self) -> None:
        """Wait for `let_in`."""
        self._turn = asyncio.get_running_loop().create_future()
        await self._turn

    def let_in(self) -> None:
        """End the wait in `wait_let_in`."""
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def begin_read(self) -> None:
        """Note that we read from now on: the peer may send."""
        self._reading_since = asyncio.get_running_loop().time()

    def end_read(self) -> None:
        """Note that we do not read any more: something came, or the wait was interrupted. May be
        called again.
        """
        if self._reading_since is not None:
            seconds = asyncio.get_running_loop().time() - self._reading_since
            self.waited += seconds
            self._stalled += seconds
            self._reading_since = None

    def stalled_seconds(self, now: float) -> float:
        """Return for how many seconds the peer could have ended what it began, and has not; 0 while
        we do not read.
        """
        return self._stalled + now - self._reading_since if self._reading_since is not None else 0.0

    def set_buffered(self, buffered: int) -> None:
        """Count *buffered* bytes of unfinished frames and windows, instead of those before."""
        change, self.buffered = buffered - self.buffered, buffered
        # progress: it ended something, began something, or sent a fair part of it
        if change < 0 or change == buffered or buffered - self._grown_to >= _PROGRESS_BYTES:
            self._stalled, self._grown_to = 0.0, buffered
            self.since = asyncio.get_running_loop().time()
        if change:
            self._memory.record_change(self, buffered=change)

    def add_submitted(self, size: int) -> None:
        """Count a batch of *size* bytes that was submitted."""
        self.submitted += size + _TOLL
        self._memory.record_change(self, submitted=size + _TOLL)

    def remove_submitted(self, size: int) -> None:
        """Give back a submitted batch of *size* bytes that is durable, or failed."""
        self.submitted -= size + _TOLL
        self._memory.record_change(self, submitted=-size - _TOLL)

    def release_buffered(self) -> None:
        """Give back what was buffered; what was submitted is given back when it settles."""
        self.set_buffered(0)
        self._memory.end_overdraft(self)
