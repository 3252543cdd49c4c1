"""Turns on the event loop: a connection with much to do lets the others run in between.

A turn ends after so many steps (messages, as a rule) or after so much time. Who has used one up gets
the next once all who did so before had theirs, one each time round the loop: many floods together
keep a quiet connection waiting no longer than one does.
"""

import asyncio
from collections import deque
from typing import Final

TURN_STEPS: Final = 256
"""Messages of a turn: each takes some 10 µs, the dearest usual ones 100 µs."""
TURN_SECONDS: Final = 0.005


class Turns:
    """The queue for next turns, which all connections of a listener share."""

    def __init__(self) -> None:
        self.given = 0
        """How many turns were waited for and came."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._due = False

    def turn(self) -> "Turn":
        """Return a first turn, to be used by one task."""
        return Turn(self)

    async def wait(self) -> None:
        """Return at the next turn that is free; others run at least once before."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(future)
        if not self._due:
            self._due = True
            loop.call_soon(self._give)
        await future

    def _give(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # it may have been cancelled
                future.set_result(None)
                self.given += 1
                break
        self._due = bool(self._waiting)
        if self._due:
            asyncio.get_running_loop().call_soon(self._give)


class Turn:
    """What one task has used of its turn.

    Steps count until the next turn comes, whatever the task waits for meanwhile: so messages in small
    bursts are a flood, too. Time counts from `resume` on, which the task calls when it has waited.
    """

    __slots__ = ("_since", "_steps", "_time", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._time = asyncio.get_running_loop().time
        self._steps = 0
        self._since = self._time()

    def resume(self) -> None:
        """Take note that the task waited until now, and used no time."""
        self._since = self._time()

    def step(self, steps: int = 1) -> None:
        """Count *steps*."""
        self._steps += steps

    @property
    def over(self) -> bool:
        """Whether the turn is used up: then wait for the `next` one."""
        return self._steps >= TURN_STEPS or self._time() - self._since >= TURN_SECONDS

    async def next(self) -> None:
        """Return once there is another turn for this task."""
        await self._turns.wait()
        self._steps = 0
        self._since = self._time()
