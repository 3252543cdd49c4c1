"""The memory of a process, watched while it runs."""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class Memory:
    """The most memory that the process *pid* held, in bytes; watched in the `with` block.

    What it takes in its last moments may be missed.
    """

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._status = Path(f"/proc/{pid}/status")
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._watch.join()

    def _look(self) -> None:
        while True:
            self.peak = max(self.peak, self._held())
            if self._ended.wait(0.05):
                return

    def _held(self) -> int:
        """Return VmHWM, 0 once the process has ended."""
        try:
            lines = self._status.read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        found = (line for line in lines if line.startswith("VmHWM:"))
        return next((int(line.split()[1]) * 1024 for line in found), 0)
