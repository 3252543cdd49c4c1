"""Which windows may be acknowledged: in order, each once, only when nothing of it is open (rules
D1–D3).

A window is *held* by every run in it that is not durable yet, and by every refusal of which the
writer was not yet told.
"""

import asyncio
from collections.abc import Callable


class OpenWindow:
    """One window of one connection: what holds it, and the sequence number that acknowledges it
    once it has ended.
    """

    __slots__ = ("holds", "last", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.holds = 0
        self.last: int | None = None


class AckQueue:
    """The windows of one connection that are not acknowledged, oldest first.

    *acknowledge* gets the numbers to send, as soon as they may be sent: one for each window, in
    window order.
    """

    __slots__ = ("_acknowledge", "_current", "_finished", "_waiting", "count")

    def __init__(self, acknowledge: Callable[[list[int]], None]) -> None:
        self._acknowledge = acknowledge
        self._waiting: list[
            OpenWindow
        ] = []  # no deque, whose 760 bytes an idle connection would keep
        self._current: OpenWindow | None = None
        self._finished: asyncio.Event | None = None
        self.windows_begun = 0
        """How many windows have begun, ever."""

    @property
    def unacknowledged(self) -> int:
        """How many windows have begun and are not acknowledged."""
        return len(self._waiting)

    @property
    def window_open(self) -> bool:
        """Whether a window has begun and has not ended."""
        return self._current is not None

    @property
    def owes_ack(self) -> bool:
        """Whether anything received is not durable, or not acknowledged though it could be waited
        for.
        """
        return any(window.holds or window.last is not None for window in self._waiting)

    @property
    def current_window(self) -> OpenWindow:
        """The window that is being received; it begins when it is first asked for."""
        if self._current is None:
            self.windows_begun += 1
            self._current = OpenWindow(self.windows_begun)
            self._waiting.append(self._current)
        return self._current

    def hold_window(self) -> OpenWindow:
        """Hold the current window until `release_window`."""
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
        """Return once no window is left that has ended."""
        while any(window.last is not None for window in self._waiting):
            self._finished = asyncio.Event()
            await self._finished.wait()

    def _flush(self) -> None:
        ready: list[int] = []
        for window in self._waiting:
            if window.holds or window.last is None:
                break
            ready.append(window.last)
        if ready:
            del self._waiting[: len(ready)]
            self._acknowledge(ready)
            if self._finished is not None:
                self._finished.set()
