"""Messages on their way, in or out: how much memory they take over all connections.

HTTP/2's windows don't bound it. A message is longer than a window, so what has come of it is taken
out of the window; and an answer waits as a whole for a client that does not read. A peer that
begins many messages, or readings, and goes on with none would take all memory.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from logdrive.wire.s2.errors import request_timeout


class Transit:
    """*limit* bytes of messages that go one way; above it the one that began first is given up.

    A peer that sends or reads at all soon completes a message, so the oldest ones belong to peers
    that have stopped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        # those with bytes, the one that has waited longest first
        self._waiting: dict[Passage, int] = {}
        self._turn = asyncio.Lock()

    async def turn(self) -> None:
        """Return to one caller after the other, once those that were given up are gone.

        To be called before a message is made: many made at once would be there at once.
        """
        async with self._turn:
            await asyncio.sleep(0)

    @property
    def size(self) -> int:
        """Bytes of all messages that are on their way."""
        return self._size

    @contextlib.asynccontextmanager
    async def passing(self, seconds: float | None = None) -> "AsyncIterator[Passage]":
        """Let one message after the other pass during the context, in *seconds* if given.

        Raises `S2Error`, 408, where that is over, or the memory is needed for others.
        """
        try:
            async with asyncio.timeout(seconds) as timeout:
                passage = Passage(self, timeout)
                try:
                    yield passage
                finally:
                    passage.hold(0)
        except TimeoutError as error:
            raise request_timeout("the message did not pass in time") from error

    def resize(self, passage: "Passage", size: int) -> None:
        """Note that *passage* has *size* bytes now; give up others above the limit."""
        self._size += size - self._waiting.get(passage, 0)
        if size:
            self._waiting[passage] = size
        else:
            self._waiting.pop(passage, None)
        while self._size > self._limit and self._waiting:
            oldest = next(iter(self._waiting))
            self._size -= self._waiting.pop(oldest)
            oldest.refuse()


class Passage:
    """What is here of one peer's message."""

    def __init__(self, transit: Transit, timeout: asyncio.Timeout) -> None:
        self._transit = transit
        self._timeout = timeout

    def hold(self, size: int) -> None:
        """Note that *size* bytes of the message are here; 0 once it is through."""
        self._transit.resize(self, size)

    def refuse(self) -> None:
        """Wake the task that waits for the rest, with an error."""
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())
