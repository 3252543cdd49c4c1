"""How much the receiver holds of what it has read and that is not durable yet, per connection and in all.

A connection asks `admit` before each read. Beyond a limit it waits for its own or everybody's batches to become durable.
Where memory is full of parts of windows and nothing is on its way to the disk, one connection at a time is *overdrawn*:
it reads on until its window is whole, so that the others come on too; it is closed if it keeps everybody waiting.
"""

import asyncio
from collections import deque

from logdrive.limits import KIB, MIB

_READ_BYTES = 1 * MIB
"""What one more read is taken to bring, unpacked, when those who wait are let in."""
_PAUSE_SECONDS = 0.01
_TOLL = 5 * KIB // 2
"""What a batch counts beside its bytes: about what its objects take, here and in the store, until it is durable."""


class Memory:
    """The total over all connections, in bytes."""

    def __init__(self, total: int, per_connection: int) -> None:
        self.total, self.per_connection = total, per_connection
        self.used = 0
        self.submitted = 0
        self._overdrawn: Account | None = None
        self._overdrawn_since = 0.0
        self._waiting: deque[Account] = deque()
        self._pass: asyncio.TimerHandle | None = None

    def account(self) -> "Account":
        """Return a new connection's account."""
        return Account(self)

    def may_read(self, account: "Account") -> bool:
        """Decide whether *account* may read once; it may become the one that is overdrawn."""
        if account.submitted and account.used > self.per_connection:
            return False
        if self.used <= self.total or self._overdrawn is account:
            return True
        if self.submitted == 0 and self._overdrawn is None:
            self._overdrawn, self._overdrawn_since = account, asyncio.get_running_loop().time()
            return True
        return False

    def overdrawn_since(self, account: "Account") -> float | None:
        """Return when, on the loop's time, *account* was let read beyond the total because somebody has to; None: it was not."""
        return self._overdrawn_since if self._overdrawn is account else None

    async def wait(self, account: "Account") -> None:
        """Return once *account* may read."""
        self._waiting.append(account)
        try:
            await account.turn()
        finally:
            if account in self._waiting:  # cancelled
                self._waiting.remove(account)

    def move(self, account: "Account", *, buffered: int = 0, submitted: int = 0) -> None:
        """Book a change of what *account* holds."""
        self.used += buffered + submitted
        self.submitted += submitted
        if self._overdrawn is account and account.used == 0:
            self._overdrawn = None
        if self._waiting and (buffered < 0 or submitted < 0):
            self._let_in()

    def close(self, account: "Account") -> None:
        """Let somebody else be overdrawn."""
        if self._overdrawn is account:
            self._overdrawn = None
            self._let_in()

    def _let_in(self) -> None:
        """Let in as many of those who wait as there is room for, in the order in which they came; the rest a little later.

        Those let in have not read yet, so their bytes can't be counted; the pause lets the first ones read.
        """
        room = max(1, (self.total - self.used) // _READ_BYTES)
        for _ in range(len(self._waiting)):
            account = self._waiting.popleft()
            if room and self.may_read(account):
                room -= 1
                account.let_in()
            else:
                self._waiting.append(account)
        if room == 0 and self._waiting and self._pass is None:
            self._pass = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._next_pass)

    def _next_pass(self) -> None:
        self._pass = None
        self._let_in()


class Account:
    """What one connection holds: *buffered* bytes of unfinished frames and windows, and *submitted* ones on their way to the disk."""

    __slots__ = ("_memory", "_turn", "buffered", "submitted")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.buffered = self.submitted = 0
        self._turn: asyncio.Future[None] | None = None

    @property
    def used(self) -> int:
        """All bytes held."""
        return self.buffered + self.submitted

    @property
    def overdrawn_since(self) -> float | None:
        """Since when this connection reads beyond the limit, because somebody has to; None where it does not."""
        return self._memory.overdrawn_since(self)

    async def admit(self) -> None:
        """Return once this connection may read."""
        if not self._memory.may_read(self):
            await self._memory.wait(self)

    async def turn(self) -> None:
        """Wait for `let_in`."""
        self._turn = asyncio.get_running_loop().create_future()
        await self._turn

    def let_in(self) -> None:
        """End the wait in `turn`."""
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def hold(self, buffered: int) -> None:
        """Say how many bytes of unfinished frames and windows there are now."""
        change, self.buffered = buffered - self.buffered, buffered
        if change:
            self._memory.move(self, buffered=change)

    def submit(self, size: int) -> None:
        """Say that a batch of *size* bytes is on its way to the disk."""
        self.submitted += size + _TOLL
        self._memory.move(self, submitted=size + _TOLL)

    def settle(self, size: int) -> None:
        """Say that a batch of *size* bytes that was submitted is durable or dropped."""
        self.submitted -= size + _TOLL
        self._memory.move(self, submitted=-size - _TOLL)

    def close(self) -> None:
        """Give back what was buffered; what was submitted is given back as it settles."""
        self.hold(0)
        self._memory.close(self)
