"""The order of acknowledgements: windows in order, each once, when nothing holds it (rules D1–D3).

A window is *held* by each of its runs that is not durable yet, and by each refusal of which the
writer was not sent the P or E yet.
"""

import asyncio
from collections.abc import Callable


class OpenWindow:
    """One window of one connection that is not acknowledged."""

    __slots__ = ("holds", "last", "number")

    def __init__(self, number: int) -> None:
        self.number = number  # from 1 in the connection
        self.holds = 0  # runs and refusals that hold it
        self.last: int | None = None  # number that acknowledges it, None until it has ended


class AckQueue:
    """The windows of one connection that are not acknowledged, oldest first.

    *acknowledge* is called with the sequence numbers to send as soon as they may be sent: one for
    each window, in window order.
    """

    __slots__ = ("_acknowledge", "_current", "_finished", "_waiting", "windows_begun")

    def __init__(self, acknowledge: Callable[[list[int]], None]) -> None:
        self._acknowledge = acknowledge
        # a list: an idle connection would keep the 760 bytes of a deque
        self._waiting: list[OpenWindow] = []
        self._current: OpenWindow | None = None  # the last of them, until it ends
        self._finished: asyncio.Event | None = None  # set at each acknowledgement
        self.windows_begun = 0
        """Number of windows that have begun on this connection."""

    @property
    def unacknowledged(self) -> int:
        """Number of windows that have begun and are not acknowledged."""
        return len(self._waiting)

    @property
    def window_open(self) -> bool:
        """Whether a window has begun and has not ended."""
        return self._current is not None

    @property
    def owes_ack(self) -> bool:
        """Whether the peer may be waiting for us: a window has ended, or something of it is not
        durable yet.
        """
        return any(window.holds or window.last is not None for window in self._waiting)

    @property
    def current_window(self) -> OpenWindow:
        """The window that is being received; it begins when it is first used."""
        if self._current is None:
            self.windows_begun += 1
            self._current = OpenWindow(self.windows_begun)
            self._waiting.append(self._current)
        return self._current

    def hold_window(self) -> OpenWindow:
        """Hold the current window, and return it for `release_window`."""
        window = self.current_window
        window.holds += 1
        return window

    def release_window(self, window: OpenWindow) -> None:
        """End one hold of *window*."""
        window.holds -= 1
        self._flush()

    def end_window(self, last: int) -> None:
        """End the current window; *last* is the sequence number of its last frame."""
        self.current_window.last = last
        self._current = None
        self._flush()

    async def wait_finished(self) -> None:
        """Return once every window that has ended is acknowledged."""
        while any(window.last is not None for window in self._waiting):
            # a new event each time: `_flush` sets it, and windows may be left after that
            self._finished = asyncio.Event()
            await self._finished.wait()

    def _flush(self) -> None:
        ready: list[int] = []
        for window in self._waiting:
            # the windows behind it wait, too: they are acknowledged in order
            if window.holds or window.last is None:
                break
            ready.append(window.last)
        if ready:
            del self._waiting[: len(ready)]
            self._acknowledge(ready)
            if self._finished is not None:
                self._finished.set()
