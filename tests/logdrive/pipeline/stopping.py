"""Stops a run at each place at which it looks whether it is to go on."""

import threading


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
