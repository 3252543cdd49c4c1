"""Turns: who has more to do than a little does it in portions, one portion of one task a round of
the loop.

So a round lasts as long as one portion, however many tasks have much to do: who has little, and
waits for a byte or a timer, never waits for all of them.
"""

import asyncio
from collections import deque
from typing import Final

PORTION_SECONDS: Final = 0.005
"""After so long a task asks for its next turn; a round of the loop costs a hundredth of it."""


class Turns:
    """The tasks of one loop that wait for their next portion, in the order in which they asked."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._passing = False

    async def wait_turn(self) -> None:
        """Return when it is this task's turn, which is after all that waits for the loop now."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if not self._passing:
            self._passing = True
            loop.call_soon(self._pass_on, loop)
        await turn

    def _pass_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the first one go on that still waits; the others come in later rounds."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled
                turn.set_result(None)
                break
        self._passing = bool(self._waiting)
        if self._passing:
            loop.call_soon(self._pass_on, loop)


class Portion:
    """What one task may do before its next turn: *steps* of its work, or `PORTION_SECONDS`."""

    __slots__ = ("_began", "_done", "_loop", "_steps", "_turns")

    def __init__(self, turns: Turns, steps: int) -> None:
        self._turns, self._steps = turns, steps
        self._loop = asyncio.get_running_loop()
        self._began, self._done = self._loop.time(), 0

    async def end_step(self) -> None:
        """Say that a step was done; wait for the next turn where that was the portion's last
        one.
        """
        self._done += 1
        if self._done >= self._steps or self._loop.time() - self._began > PORTION_SECONDS:
            await self._turns.wait_turn()
            self._began, self._done = self._loop.time(), 0
