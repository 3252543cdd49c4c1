"""A connection's turn: how much it may do before other connections have theirs."""

import asyncio
from typing import Final

from logdrive.net.turns import PORTION_SECONDS, Turns

TURN_STEPS: Final = 256
"""Messages of one turn: each takes some 10 µs, the most expensive usual ones 100 µs."""


class ConnectionTurn:
    """What one task has used of its turn, which is over after `TURN_STEPS` or `PORTION_SECONDS`.

    Steps count until the next turn begins, whatever the task waits for meanwhile: messages in many
    small bursts are a flood, too. Time counts from the last `restart_clock`.
    """

    __slots__ = ("_since", "_steps", "_time", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._time = asyncio.get_running_loop().time
        # steps of this turn
        self._steps = 0
        # since when the task runs, in seconds on the loop's clock
        self._since = self._time()

    def restart_clock(self) -> None:
        """Start counting time now; called after the task has waited for something else."""
        self._since = self._time()

    def count_step(self) -> None:
        """Count one step: a message served or a reply taken off a queue."""
        self._steps += 1

    @property
    def is_over(self) -> bool:
        """True once the turn is used up: then await `next_turn`."""
        return self._steps >= TURN_STEPS or self._time() - self._since >= PORTION_SECONDS

    async def next_turn(self) -> None:
        """Wait for this task's next turn."""
        await self._turns.wait_turn()
        self._steps = 0
        self._since = self._time()
