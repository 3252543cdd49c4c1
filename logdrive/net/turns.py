"""Turns of tasks with much to do: they work in portions, one portion of one task in each round of
the event loop.

So a round takes as long as one portion, however many tasks have much to do, and tasks that have
little to do, and wait for a byte or a timer, never wait for all of them.
"""

import asyncio
from collections import deque
from typing import Final

PORTION_SECONDS: Final = 0.005
"""Limit on a portion; a round of the loop costs a hundredth of it."""


class Turns:
    """Queue of the tasks of one loop that wait for their next portion."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()  # in the order in which they came
        self._passing = False  # whether `_pass_on` is due in the next round

    async def wait_turn(self) -> None:
        """Return when it is this task's turn, after all that is ready in the loop now."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if not self._passing:
            self._passing = True
            loop.call_soon(self._pass_on, loop)
        await turn

    def _pass_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the first task that still waits; the others follow in later rounds."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # False for a task that was cancelled
                turn.set_result(None)
                break
        self._passing = bool(self._waiting)
        if self._passing:
            loop.call_soon(self._pass_on, loop)


class Portion:
    """Work of one task until its next turn: at most *steps* steps, and `PORTION_SECONDS`."""

    __slots__ = ("_began", "_done", "_loop", "_steps", "_turns")

    def __init__(self, turns: Turns, steps: int) -> None:
        self._turns = turns
        self._steps = steps  # limit on the steps of a portion
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()  # when this portion began (s)
        self._done = 0  # steps of this portion

    async def end_step(self) -> None:
        """Note that a step was done; wait for the next turn if it was the portion's last."""
        self._done += 1
        if self._done >= self._steps or self._loop.time() - self._began > PORTION_SECONDS:
            await self._turns.wait_turn()
            self._began, self._done = self._loop.time(), 0
