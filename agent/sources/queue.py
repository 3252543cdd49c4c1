"""Send queue: the sources that need to register, and those that have data to send.

Inputs fill it when a file has grown; the session empties it. Pacing follows rule D9: while no
window is in flight, a line leaves at once. Otherwise runs may wait a little, so that windows hold
more, unless a source has much to send.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from agent.sources.registration import SourceState
from agent.sources.source import Source
from logdrive.model.units import KIB

BULK_BYTES: Final = 256 * KIB
"""A source with this much to send does not wait."""
PAUSE_SECONDS: Final = 0.2
"""Longest wait of a run while windows are in flight."""
LONGEST_PAUSE_SECONDS: Final = 2.0
"""The same, with thousands of open sources."""
_SOURCES_PER_PAUSE: Final = 1000
"""With more open sources than this the pause grows with their number."""


class SendQueue:
    """Sources in the order in which they came."""

    def __init__(self) -> None:
        self._to_register: dict[Source, None] = {}  # sources that are to register
        self._to_send: dict[Source, float] = {}  # open sources, and when each came (monotonic, s)
        self._bulk: dict[Source, None] = {}  # those of them with much to send
        self._woken = asyncio.Event()  # set when the session has something to do

    def __bool__(self) -> bool:
        return bool(self._to_register or self._to_send)

    @property
    def others_wait(self) -> bool:
        """Whether a source is there that has something to send and may."""
        return bool(self._to_send)

    def enqueue(self, source: Source, now: float) -> None:
        """Add *source*, which has something to send: to register first, if it is not open.

        Does nothing while it waits for an answer, is paused or done.
        """
        if source.state is SourceState.IDLE:
            if source not in self._to_register:
                self._to_register[source] = None
                self.wake()
        elif source.state is SourceState.OPEN:
            if source not in self._to_send:
                self._to_send[source] = now
                self.wake()
            # bulk is sent at once, without waiting for more
            if source not in self._bulk and source.backlog_bytes >= BULK_BYTES:
                self._bulk[source] = None
                self.wake()

    def enqueue_registration(self, source: Source) -> None:
        """Add *source*, which is to register (again), whatever it has to send."""
        self._to_register[source] = None
        self.wake()

    def remove(self, source: Source) -> None:
        """Take *source* out."""
        self._to_register.pop(source, None)
        self._to_send.pop(source, None)
        self._bulk.pop(source, None)

    def rebuild(self, sources: Iterable[Source], now: float) -> None:
        """Fill the queue anew for a connection on which no source is registered.

        *sources* are all that there are; those whose pause is over may register again.
        """
        self._to_register.clear()
        self._to_send.clear()
        self._bulk.clear()
        for source in sources:
            source.registration.end_pause_if_due(now)
            if source.has_more or source.registration.required:
                self.enqueue(source, now)

    def next_to_register(self) -> Source | None:
        """Take out the source that has waited longest to register and may do so now."""
        for source in self._to_register:
            if source.may_register:
                del self._to_register[source]
                return source
        return None

    def next_to_send(self) -> Source | None:
        """Take out the source that has waited longest to send."""
        for source in self._to_send:
            del self._to_send[source]
            self._bulk.pop(source, None)
            self._release_room()
            return source
        return None

    def _release_room(self) -> None:
        """Replace empty tables: a dictionary keeps the memory of the most it ever held."""
        if not self._to_send:
            self._to_send, self._bulk = {}, {}
        if not self._to_register:
            self._to_register = {}

    def seconds_until_due(self, now: float, *, in_flight: bool, open_sources: int) -> float | None:
        """Return in how many seconds the next window is due (rule D9); None without any to send.

        *in_flight* says whether a window is, *open_sources* how many sources are registered.
        """
        if not self._to_send:
            return None
        # a large window is to be had at once, or the link is idle
        if self._bulk or not in_flight:
            return 0.0
        pause = min(
            LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * max(1.0, open_sources / _SOURCES_PER_PAUSE)
        )
        oldest = next(iter(self._to_send.values()))
        return max(0.0, oldest + pause - now)

    # Waking the session --------------------------------------------------------------------------

    def wake(self) -> None:
        """Wake the session: the queue changed, or a window may be sent that could not before."""
        self._woken.set()

    def clear_wake(self) -> None:
        """Forget earlier calls of `wake`; call it before looking for something to do."""
        self._woken.clear()

    async def wait_for_wake(self) -> None:
        """Wait until `wake` is called, if it was not since `clear_wake`."""
        await self._woken.wait()
