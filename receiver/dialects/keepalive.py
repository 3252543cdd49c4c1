"""Keeps a waiting peer patient: `A 0` whenever it has waited for some seconds without a word from
us.
"""

import asyncio
from collections.abc import Callable

from logdrive.wire.lumberjack.frames import AckFrame
from receiver.counters import Counters
from receiver.outbox import Outbox


class Keepalive:
    """Runs on a timer that exists only while *waiting* says that the peer waits for something."""

    __slots__ = ("_counters", "_loop", "_outbox", "_seconds", "_timer", "_waiting")

    def __init__(
        self, outbox: Outbox, counters: Counters, seconds: float, waiting: Callable[[], bool]
    ) -> None:
        self._outbox, self._counters, self._seconds, self._waiting = (
            outbox,
            counters,
            seconds,
            waiting,
        )
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start_if_peer_waits(self) -> None:
        """Look whether the peer has begun to wait."""
        if self._timer is None and self._waiting():
            self._timer = self._loop.call_later(self._seconds, self._on_timer)

    def cancel(self) -> None:
        """Send no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        self._timer = None
        if not self._waiting():
            return
        rest = self._outbox.last_enqueued + self._seconds - self._loop.time()
        if rest <= 0:
            self._outbox.enqueue(AckFrame(0).encode())
            self._counters.keepalives += 1
            rest = self._seconds
        self._timer = self._loop.call_later(rest, self._on_timer)
