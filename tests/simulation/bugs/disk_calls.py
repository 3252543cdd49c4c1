"""Deliberate bugs that show only where a program ends between two calls of its disk."""

from tests.simulation.bugs.mutant import Mutant

DISK_CALLS = (
    Mutant(
        "store.torn_file_kept",
        "a last log file of which not even the head is whole is not taken away",
        "logdrive.store.recovery",
        (("        self._disk.remove(path)\n", "        return\n"),),
    ),
)
