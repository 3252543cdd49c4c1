"""A foreign client of a store, which repeats an action as often as steps ask for it."""

import asyncio
from random import Random

from logdrive.errors import LogdriveError
from tests.simulation.promises import BrokenPromise
from tests.support.memory.transport import MemoryNetwork

_PAUSE_SECONDS = 1.0  # after a failure


class Client:
    """A client with one connection that does one action at a time.

    A subclass does the actions that are left in `_serve`, until a failure or none is left.
    """

    def __init__(self, name: str, store: str, network: MemoryNetwork, random: Random) -> None:
        self.name = name
        # the promise that the client itself saw broken
        self.broken: BrokenPromise | None = None
        # host of the store
        self._store = store
        self._network = network
        self._random = random
        # actions still to be done
        self._left = 0
        # set when there are such actions
        self._more = asyncio.Event()

    @property
    def settled(self) -> bool:
        """True if all actions were tried."""
        return not self._left

    def do(self, times: int) -> None:
        """Add *times* actions."""
        self._left += times
        self._more.set()

    async def run(self) -> None:
        """Do the actions as they are added; never returns."""
        while True:
            await self._more.wait()
            try:
                await self._serve()
                self._more.clear()
            except (LogdriveError, TimeoutError):
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _serve(self) -> None:
        raise NotImplementedError
