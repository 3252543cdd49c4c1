"""Events that stop a run: at each place at which it looks whether it is to go on, once it has
waited, or never.
"""

import threading

from tests.support.disks.tmpfs import Tmpfs


class StopAfter(threading.Event):
    """Is set once it was looked at *looks* times, by whatever thread."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._left = looks
        self._lock = threading.Lock()

    def is_set(self) -> bool:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                self.set()
        return super().is_set()


class RoomIsMade(threading.Event):
    """Not set before the second wait. In the first, of *seconds*, the disk gets room."""

    def __init__(self, disk: Tmpfs, left: int) -> None:
        super().__init__()
        self._filler = disk.fill(but=left)
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        if len(self.seconds) > 1:
            self.set()
        self._filler.unlink(missing_ok=True)
        return self.is_set()


class NeverSet(threading.Event):
    """Is waited for *count* times, each of which ends at once."""

    count = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.count += 1
        return False
