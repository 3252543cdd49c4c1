"""Applications that set space aside in their files, and write in place of it (rule P5)."""

from typing import Final

from tests.simulation.hosts import applications
from tests.simulation.hosts.applications import LOGS, Applications, Life

FILE_KINDS: Final = (*applications.FILE_KINDS, "set_aside", "trim")
"""Kinds of steps that applications do to files."""


class OddApplications(Applications):
    """The applications of one host, some of which set space aside."""

    def set_aside(self, file: str, size: int, seed: int) -> None:
        """Set *size* bytes aside at the end of the file, which is made if it is not there."""
        life = self._living(file)
        if life.path is None:
            return
        if life.path not in self._disk().paths():
            self._disk().write(life.path, b"")
        self._disk().set_aside(life.path, size)

    def trim(self, file: str, seed: int) -> None:
        """Cut the file to what was written, as its application does when it closes it."""
        life = self._current.get(file)
        if life is not None and life.path in self._disk().paths():
            assert life.path is not None
            self._disk().trim(life.path)

    def copytruncate(self, file: str, seed: int, to: str = "") -> None:
        """Copy the file as it is, with what is set aside at its end, then truncate it."""
        life = self._current.get(file)
        kept = 0
        if life is not None and life.path is not None and life.data:
            kept = self._disk().keep_nuls(life.path)
        super().copytruncate(file, seed, to)
        # an agent that reads the copy reads them, too, and none owes them
        if life is not None:
            life.data += bytes(kept)

    def found(self) -> None:
        """Begin new lives with the files on the disk; NULs at their ends are theirs."""
        for path in self._disk().paths():
            if path.startswith(f"{LOGS}/"):
                self._disk().keep_nuls(path)
        super().found()

    def _remove(self, life: Life) -> None:
        assert life.path is not None
        kept = self._disk().keep_nuls(life.path)
        super()._remove(life)
        # an agent that has it open reads them, too, and none owes them
        life.data += bytes(kept)
