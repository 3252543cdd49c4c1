"""Index of all generations that the agent knows by their first line, to tell copies (rule G5)."""

from collections.abc import Sequence
from typing import TypeAlias

from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.source import Source

Known: TypeAlias = Source | CheckpointEntry
"""A living source, or the entry of one that has ended."""


class FirstLines:
    """Living sources and ended entries by the CRC-32 of their first line.

    Nearly all first lines are of one generation: only others take a list.
    """

    __slots__ = ("_by_crc",)

    def __init__(self) -> None:
        self._by_crc: dict[int, Known | list[Known]] = {}

    def add(self, crc: int, known: Known) -> None:
        """Add a generation whose first line has the CRC-32 *crc*."""
        there = self._by_crc.get(crc)
        if there is None:
            self._by_crc[crc] = known
        elif isinstance(there, list):
            there.append(known)
        else:
            self._by_crc[crc] = [there, known]

    def remove(self, crc: int, known: Known) -> None:
        """Take a generation out, if it is there."""
        there = self._by_crc.get(crc)
        if isinstance(there, list):
            left = [other for other in there if other is not known]
            if left:
                self._by_crc[crc] = left if len(left) > 1 else left[0]
            else:
                del self._by_crc[crc]
        elif there is known:
            del self._by_crc[crc]

    def find(self, crc: int) -> Sequence[Known]:
        """Return the generations whose first line has the CRC-32 *crc*, the oldest first."""
        there = self._by_crc.get(crc)
        if there is None:
            return ()
        return there if isinstance(there, list) else (there,)
