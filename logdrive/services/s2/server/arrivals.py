"""Messages that have arrived in part: how much memory they take over all connections.

HTTP/2's windows don't bound it: a message is longer than a window, so what has come of it is taken
out of the window. A peer that begins many messages and ends none would take all memory.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from logdrive.wire.s2.errors import request_timeout


class Arrivals:
    """*limit* bytes of messages that are not whole; above it the one that began first is refused.

    Whoever sends at all has sent the rest of a message soon, so the oldest ones are those of peers
    that have stopped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        # those with bytes, the one that has waited longest first
        self._waiting: dict[Arrival, int] = {}

    @property
    def size(self) -> int:
        """Bytes of all messages that are not whole."""
        return self._size

    @contextlib.asynccontextmanager
    async def arriving(self, seconds: float | None = None) -> "AsyncIterator[Arrival]":
        """Let one message after the other arrive during the context, in *seconds* if given.

        Raises `S2Error`, 408, where that is over, or the memory is needed for others.
        """
        try:
            async with asyncio.timeout(seconds) as timeout:
                arrival = Arrival(self, timeout)
                try:
                    yield arrival
                finally:
                    arrival.hold(0)
        except TimeoutError as error:
            raise request_timeout("the message did not arrive in time") from error

    def resize(self, arrival: "Arrival", size: int) -> None:
        """Note that *arrival* has *size* bytes now; refuse others above the limit."""
        self._size += size - self._waiting.get(arrival, 0)
        if size:
            self._waiting[arrival] = size
        else:
            self._waiting.pop(arrival, None)
        while self._size > self._limit and self._waiting:
            oldest = next(iter(self._waiting))
            self._size -= self._waiting.pop(oldest)
            oldest.refuse()


class Arrival:
    """What one peer has sent of a message."""

    def __init__(self, arrivals: Arrivals, timeout: asyncio.Timeout) -> None:
        self._arrivals = arrivals
        self._timeout = timeout

    def hold(self, size: int) -> None:
        """Note that *size* bytes have come of a message that is not whole; 0 once it is."""
        self._arrivals.resize(self, size)

    def refuse(self) -> None:
        """Wake the task that waits for the rest, with an error."""
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())
