"""How much the receiver holds of what it has read and that is not durable yet, per connection and
in all.

A connection asks `admit` before each read, and before each step of opening an envelope. Beyond a
limit it waits for its own or everybody's batches to become durable. A quarter of the memory is for
connections that hold little: others may be full of long envelopes, and short windows still go
through.

Where memory is full of parts of windows, waiting for the disk does not help. Then

- who holds memory, may go on, and makes no progress is closed, the one that holds most first, and
  then, if not even short windows go through, who has held anything for long, waiting for us;
- one connection at a time is *overdrawn*: it reads on until its window is whole, so that the others
  come on too. It is closed if it keeps everybody waiting.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from logdrive.model.units import KIB, MIB

_READ_BYTES = 1 * MIB
"""What one more read is taken to bring, unpacked, when those who wait are let in."""
_PAUSE_SECONDS = 0.01
_TOLL = 5 * KIB // 2
"""What a batch counts beside its bytes: about what its objects take, here and in the store, until
it is durable.
"""
_LITTLE: Final = 256 * KIB
"""Who holds no more of unfinished windows may use the last quarter of the memory: about one
read.
"""
_PROGRESS_BYTES: Final = 256 * KIB
_STALLED_SECONDS: Final = 1.0
"""A peer that holds memory and may go on brings so many bytes in so many seconds, or ends what it
began.
"""
_HELD_SECONDS: Final = 5.0
"""So long a connection that waits for us may hold anything while not even short windows go
through.
"""
_LOOK_SECONDS: Final = 0.25
_OVERDRAWN_SECONDS: Final = 10.0
"""So long a peer that is overdrawn may take to end its window, whatever it sends meanwhile."""


class MemoryBudget:
    """The total over all connections, in bytes.

    *on_change* is told by how much it grew or shrank.
    """

    def __init__(
        self, total: int, per_connection: int, on_change: Callable[[int], None] = lambda size: None
    ) -> None:
        self.total, self.per_connection = total, per_connection
        self._on_change = on_change
        self.used = 0
        self.submitted = 0
        self._overdrawn: Allocation | None = None
        self._overdrawn_from = 0.0  # seconds that its peer had had before
        # who holds little, and who more, as they came
        self._waiting: tuple[dict[Allocation, None], ...] = ({}, {})
        self._next_much = False  # whether one of the latter is overdrawn next
        self._holders: dict[Allocation, None] = {}  # of parts of windows
        self._pass: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None

    def open_allocation(self) -> "Allocation":
        """Return a new connection's account."""
        return Allocation(self)

    def may_read(self, account: "Allocation") -> bool:
        """Decide whether *account* may read once; it may become the one that is overdrawn."""
        if self._fits(account) or (self._overdrawn is account and not account.over_limit):
            return True
        if self._overdrawn is None and self._stuck(account.holds_much) and not account.over_limit:
            self._overdraw(account)
            return True
        return False

    def overdrawn_seconds_left(self, account: "Allocation") -> float | None:
        """Return for how many seconds more *account*'s peer may keep the others waiting; None where
        it does not.
        """
        if self._overdrawn is not account or not account.buffered:
            return None
        return max(0.0, self._overdrawn_from + _OVERDRAWN_SECONDS - account.waited)

    async def wait_to_read(self, account: "Allocation") -> None:
        """Return once *account* may read."""
        queue = self._waiting[account.holds_much]
        queue[account] = None
        self._watch()
        try:
            await account.wait_let_in()
        finally:
            queue.pop(account, None)  # cancelled

    def record_change(
        self, account: "Allocation", *, buffered: int = 0, submitted: int = 0
    ) -> None:
        """Book a change of what *account* holds."""
        self.used += buffered + submitted
        self.submitted += submitted
        self._on_change(buffered + submitted)
        if account.buffered:
            self._holders[account] = None
        else:
            self._holders.pop(account, None)
        if self._overdrawn is account and account.used == 0:
            self._overdrawn = None
        if any(self._waiting) and (buffered < 0 or submitted < 0):
            self._let_in()

    def end_overdraft(self, account: "Allocation") -> None:
        """Let somebody else be overdrawn."""
        if self._overdrawn is account:
            self._overdrawn = None
            self._let_in()

    def _room(self, much: bool) -> int:
        """Return up to where connections may go on without being overdrawn that hold little, or
        *much*.
        """
        return self.total - self.total // 4 if much else self.total

    def _stuck(self, much: bool) -> bool:
        """Tell whether there would be no room for them if all that is on its way to the disk were
        durable.
        """
        return self.used - self.submitted > self._room(much)

    def _fits(self, account: "Allocation") -> bool:
        return self.used <= self._room(account.holds_much) and not account.over_limit

    def _overdraw(self, account: "Allocation") -> None:
        self._overdrawn, self._overdrawn_from = account, account.waited

    # Those who wait ------------------------------------------------------------------------------

    def _let_in(self) -> None:
        """Let in as many of those who wait as there is room for, who hold little first, as they
        came; the rest a little later.

        Those let in have not read yet, so their bytes can't be counted; the pause lets the first
        ones read.
        """
        room = max(1, (self.total - self.used) // _READ_BYTES) if self.used <= self.total else 0
        for queue in self._waiting:
            for account in list(queue) if room else ():
                if self._fits(account):
                    del queue[account]
                    account.let_in()
                    room -= 1
                    if not room:
                        break
        self._let_in_overdrawn()
        if self.used <= self.total and not room and any(self._waiting) and self._pass is None:
            self._pass = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._next_pass)

    def _let_in_overdrawn(self) -> None:
        """Let the one in that is overdrawn, or make one so that is stuck: of those who hold little,
        then of the others, in turn.
        """
        if self._overdrawn is not None:
            for queue in self._waiting:
                if self._overdrawn in queue and not self._overdrawn.over_limit:
                    del queue[self._overdrawn]
                    self._overdrawn.let_in()
            return
        for much in (self._next_much, not self._next_much):
            account = (
                next((each for each in self._waiting[much] if not each.over_limit), None)
                if self._stuck(much)
                else None
            )
            if account is not None:
                del self._waiting[much][account]
                self._overdraw(account)
                account.let_in()
                self._next_much = not much
                return

    def _next_pass(self) -> None:
        self._pass = None
        self._let_in()

    # Those who hold ------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look_round)

    def _look_round(self) -> None:
        """Close who holds memory without progress, while somebody waits whom the disk can't
        help.
        """
        self._look = None
        if not any(self._waiting):
            return
        now = asyncio.get_running_loop().time()
        # not even a short window goes through: make room for many
        if self._waiting[False] and self._stuck(False):
            left = self._evict(self._stalled(now), self.used - self.total // 2, now)
            # for which the disk has to come first
            if left > 0 and not (self._overdrawn and self._overdrawn.submitted):
                held = [account for queue in self._waiting for account in queue if account.buffered]
                self._evict(
                    [account for account in held if now - account.since >= _HELD_SECONDS], left, now
                )
        elif self._waiting[True] and self._stuck(True):
            self._evict(self._stalled(now), self.used - self._room(True), now)
        if self._overdrawn is not None and self._overdrawn.used == 0:  # a peer that is idle
            self._overdrawn = None
        self._let_in()
        self._watch()

    def _stalled(self, now: float) -> list["Allocation"]:
        return [
            holder for holder in self._holders if holder.stalled_seconds(now) >= _STALLED_SECONDS
        ]

    def _evict(self, accounts: list["Allocation"], wanted: int, now: float) -> int:
        """Close connections of *accounts*, those that hold most first, until *wanted* bytes will
        come free; return the rest.
        """
        for account in sorted(accounts, key=lambda each: each.buffered, reverse=True):
            if wanted <= 0:
                break
            wanted -= account.buffered
            account.on_evict(
                f"memory is full, and this connection has held {account.buffered} bytes for"
                f" {now - account.since:.1f} s without ending what it began"
            )
        return wanted


class Allocation:
    """What one connection holds: *buffered* bytes of unfinished frames and windows, and *submitted*
    ones on their way to the disk.

    *evict* is called, with the reason, where the connection is to be closed to free what it holds.
    """

    __slots__ = (
        "_grown_to",
        "_memory",
        "_reading_since",
        "_stalled",
        "_turn",
        "buffered",
        "on_evict",
        "since",
        "submitted",
        "waited",
    )

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self.buffered = self.submitted = 0
        self.on_evict: Callable[[str], None] = lambda reason: None
        self._turn: asyncio.Future[None] | None = None
        self._reading_since: float | None = None
        self.waited = 0.0
        """Seconds in which the peer could have sent something, ever."""
        self.since = 0.0
        """When, on the loop's time, the peer last got on: ended something it had begun, or brought
        a fair part of it.
        """
        self._stalled = 0.0  # of these, since it last got on
        self._grown_to = 0  # bytes buffered when it last got on

    @property
    def used(self) -> int:
        """All bytes held."""
        return self.buffered + self.submitted

    @property
    def holds_much(self) -> bool:
        """Whether it holds too much of unfinished windows for the last quarter of the memory."""
        return self.buffered > _LITTLE

    @property
    def over_limit(self) -> bool:
        """Whether this connection has to wait for batches of its own to become durable."""
        return self.submitted > 0 and self.used > self._memory.per_connection

    @property
    def overdrawn_seconds_left(self) -> float | None:
        """For how many seconds more the peer may keep the others waiting, who reads beyond the
        limit; None where it does not.
        """
        return self._memory.overdrawn_seconds_left(self)

    @property
    def admitted(self) -> bool:
        """Whether this connection may go on at once; then it need not await `wait_admitted`."""
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
        """Say that it is the peer's turn from now on: it may send."""
        self._reading_since = asyncio.get_running_loop().time()

    def end_read(self) -> None:
        """Say that it is our turn: something came, or we look up for another reason."""
        if self._reading_since is not None:
            seconds = asyncio.get_running_loop().time() - self._reading_since
            self.waited += seconds
            self._stalled += seconds
            self._reading_since = None

    def stalled_seconds(self, now: float) -> float:
        """Return for how many seconds the peer could have ended what it began; 0 while it waits for
        us.
        """
        return self._stalled + now - self._reading_since if self._reading_since is not None else 0.0

    def set_buffered(self, buffered: int) -> None:
        """Say how many bytes of unfinished frames and windows there are now."""
        change, self.buffered = buffered - self.buffered, buffered
        if change < 0 or change == buffered or buffered - self._grown_to >= _PROGRESS_BYTES:
            self._stalled, self._grown_to = 0.0, buffered
            self.since = asyncio.get_running_loop().time()
        if change:
            self._memory.record_change(self, buffered=change)

    def add_submitted(self, size: int) -> None:
        """Say that a batch of *size* bytes is on its way to the disk."""
        self.submitted += size + _TOLL
        self._memory.record_change(self, submitted=size + _TOLL)

    def remove_submitted(self, size: int) -> None:
        """Say that a batch of *size* bytes that was submitted is durable or dropped."""
        self.submitted -= size + _TOLL
        self._memory.record_change(self, submitted=-size - _TOLL)

    def release_buffered(self) -> None:
        """Give back what was buffered; what was submitted is given back as it settles."""
        self.set_buffered(0)
        self._memory.end_overdraft(self)
