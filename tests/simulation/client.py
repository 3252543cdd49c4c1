"""A foreign client of a store, which has so many things left to do and tries for as long as it
takes.
"""

import asyncio
from random import Random

from logdrive.errors import LogdriveError
from tests.simulation.oracle import BrokenPromise
from tests.support.memory_transport import MemoryNetwork

_PAUSE_SECONDS = 1.0


class Client:
    """One client with one connection, and one thing at a time: `_serve` does what is left, until a
    failure or the end of it.
    """

    def __init__(self, name: str, store: str, network: MemoryNetwork, random: Random) -> None:
        self.name, self._store = name, store
        self._network, self._random = network, random
        self.broken: BrokenPromise | None = None
        """What the client itself saw go wrong."""
        self._left = 0
        self._more = asyncio.Event()

    @property
    def settled(self) -> bool:
        """Whether all that was to be done was tried."""
        return not self._left

    def do(self, times: int) -> None:
        """Have so many more things to do."""
        self._left += times
        self._more.set()

    async def run(self) -> None:
        """Do them, for ever."""
        while True:
            await self._more.wait()
            try:
                await self._serve()
                self._more.clear()
            except (LogdriveError, TimeoutError):
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _serve(self) -> None:
        raise NotImplementedError
