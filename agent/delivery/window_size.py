"""Window size: about what the link carries in a few seconds, so that slow links get small windows.

A receiver stores nothing of a window before its last byte has come, and a connection that breaks
loses what came of it. On a link that breaks now and then, a window that takes minutes might never
arrive whole, and the receiver's memory would fill with beginnings.
"""

from collections import deque
from typing import Final

from logdrive.model.units import KIB

_FIRST_BYTES: Final = 512 * KIB
"""Size of a connection's first windows."""
_LEAST_BYTES: Final = 64 * KIB
"""Smallest size."""
_SOON_SECONDS: Final = 2.0
"""After a window that took less than this, windows may grow."""
_LATE_SECONDS: Final = 8.0
"""After a window that took more than this, windows shrink."""


class WindowSizer:
    """Sizes the windows of one connection.

    *size*, in bytes, becomes twice that of a window that was acknowledged soon, half that of one
    that was late; at most *most*.
    """

    def __init__(self, most: int) -> None:
        self._most = most  # limit on `size`
        self.size = min(most, _FIRST_BYTES)  # bytes of the next window
        # When each window in flight was made (monotonic seconds), and its size.
        self._in_flight: deque[tuple[float, int]] = deque()
        # When the last one was acknowledged (monotonic seconds).
        self._acknowledged_at = 0.0

    def on_window_sent(self, size: int, now: float) -> None:
        """Note that a window of *size* bytes was made."""
        self._in_flight.append((now, size))

    def on_window_acknowledged(self, now: float) -> None:
        """Adapt the size: the oldest window in flight was acknowledged.

        Its time counts from when the one before it was acknowledged: until then it had to share the
        link.
        """
        sent, size = self._in_flight.popleft()
        took = now - max(sent, self._acknowledged_at)
        self._acknowledged_at = now

        # From the size of that window, not from the current one: several in flight may be late.
        if took > _LATE_SECONDS:
            self.size = max(_LEAST_BYTES, min(self.size, size // 2))
        elif took < _SOON_SECONDS:
            self.size = min(self._most, max(self.size, 2 * size))
