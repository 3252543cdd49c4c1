"""How large windows get: about what the way to the receiver carries in some seconds, so that slow
links carry small ones.

Nothing of a window is stored before its last byte has come, and what came of it is sent anew on the
next connection: on a link that breaks now and then a window of minutes might never arrive whole,
and a receiver's memory would be full of beginnings.
"""

from collections import deque
from typing import Final

from logdrive.model.units import KIB

_FIRST_BYTES: Final = 512 * KIB
_LEAST_BYTES: Final = 64 * KIB
_SOON_SECONDS, _LATE_SECONDS = 2.0, 8.0


class WindowSizer:
    """Begins with small windows on each connection; *size* becomes twice that of one that went
    through soon, half that of a slow one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = min(most, _FIRST_BYTES)
        self._flying: deque[tuple[float, int]] = deque()  # when each window was made, and how large
        self._moved = 0.0  # when the last one was acknowledged

    def on_window_sent(self, size: int, now: float) -> None:
        """Take notice of a window of *size* bytes."""
        self._flying.append((now, size))

    def on_window_acknowledged(self, now: float) -> None:
        """Take notice that the oldest window is stored: the time it took is counted from where it
        was alone on its way.
        """
        sent, size = self._flying.popleft()
        took, self._moved = now - max(sent, self._moved), now
        if took > _LATE_SECONDS:
            self.size = max(_LEAST_BYTES, min(self.size, size // 2))
        elif took < _SOON_SECONDS:
            self.size = min(self._most, max(self.size, 2 * size))
