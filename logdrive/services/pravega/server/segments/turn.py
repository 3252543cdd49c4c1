"""A connection's turn: how much of the event loop's time it may use before others have theirs."""

import asyncio
from typing import Final

from logdrive.net.turns import PORTION_SECONDS, Turns

TURN_STEPS: Final = 256
"""Messages of a turn: each takes some 10 µs, the dearest usual ones 100 µs."""


class Turn:
    """What one task has used of its turn, which ends after `TURN_STEPS` or `PORTION_SECONDS`.

    Steps count until the next turn comes, whatever the task waits for meanwhile: so messages in
    small bursts are a flood, too. Time counts from `resume` on, which the task calls when it has
    waited.
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

    def step(self) -> None:
        """Count one step."""
        self._steps += 1

    @property
    def over(self) -> bool:
        """Whether the turn is used up: then wait for the `next` one."""
        return self._steps >= TURN_STEPS or self._time() - self._since >= PORTION_SECONDS

    async def next(self) -> None:
        """Return once there is another turn for this task."""
        await self._turns.wait_turn()
        self._steps = 0
        self._since = self._time()
