"""Keepalives: `A 0` whenever a peer that waits for us has got nothing for some seconds."""

import asyncio
from collections.abc import Callable

from logdrive.wire.lumberjack.frames import AckFrame
from receiver.counters import Counters
from receiver.outbox import Outbox


class Keepalive:
    """Sends keepalives while *peer_waits* returns True; there is no timer at other times."""

    __slots__ = ("_counters", "_loop", "_outbox", "_peer_waits", "_seconds", "_timer")

    def __init__(
        self, outbox: Outbox, counters: Counters, seconds: float, peer_waits: Callable[[], bool]
    ) -> None:
        self._outbox = outbox
        self._counters = counters
        self._seconds = seconds  # without a frame of ours, until a keepalive is due
        self._peer_waits = peer_waits
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None  # None: the peer does not wait

    def start_if_peer_waits(self) -> None:
        """Start the timer if the peer has begun to wait; to be called whenever it may have."""
        if self._timer is None and self._peer_waits():
            self._timer = self._loop.call_later(self._seconds, self._on_timer)

    def cancel(self) -> None:
        """Send no more keepalives."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        self._timer = None
        if not self._peer_waits():
            return

        # another frame of ours may have gone out since the timer was set
        rest = self._outbox.last_enqueued + self._seconds - self._loop.time()
        if rest <= 0:
            self._outbox.enqueue(AckFrame(0).encode())
            self._counters.keepalives += 1
            rest = self._seconds
        self._timer = self._loop.call_later(rest, self._on_timer)
