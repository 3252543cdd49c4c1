"""What agents know of files when these go: told by the agent while it runs, by its checkpoint while
it is down.

The checkpoint is read with code of the tests' own. What an agent has to tell after a restart is
what the checkpoint that it found speaks of: whatever was begun since that was written, nobody can
know.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from agent.sources.source import Source
from tests.support.memory_disk import MemoryDisk


@dataclass(slots=True)
class Witness:
    """Who knew a life when it went: the agent's *incarnation*, that ran then or was the last to
    run.

    *source* is what that had made of the life, None for a file without a first line; *entry* what
    the checkpoint called it, where the agent was down. *held*: the agent had the file open, so this
    can still be read to its end (rule G1).
    """

    incarnation: int
    source: Source | None = None
    entry: str = ""
    held: bool = False

    @property
    def origin(self) -> str:
        """The origin id that the agent gave the life, "" where it had none."""
        return self.entry if self.source is None else str(self.source.origin)


@dataclass(frozen=True, slots=True)
class Start:
    """What an agent finds when it starts: the origins in its checkpoint, and which of them are
    *settled*, their count being known.

    *lost*: the checkpoint was taken away before. *durable*: what was found no power cut takes back.
    """

    origins: frozenset[str]
    settled: frozenset[str]
    lost: bool
    durable: bool


@dataclass(slots=True)
class Starts:
    """All starts of one agent, by its incarnation."""

    found: dict[int, Start] = field(default_factory=dict)

    def begin(self, incarnation: int, disk: MemoryDisk, path: str, *, lost: bool) -> None:
        """Take in what the checkpoint at *path* says to the incarnation that starts now."""
        entries = entries_in(disk, path)
        origins = frozenset(entry["origin"] for entry in entries)
        settled = frozenset(entry["origin"] for entry in entries if "counting" not in entry)
        self.found[incarnation] = Start(origins, settled, lost, disk.is_durable(path))

    def remember(self, witness: Witness) -> bool:
        """Tell whether each incarnation after that of *witness* has found the life in its
        checkpoint.
        """
        later = [start for number, start in self.found.items() if number > witness.incarnation]
        return all(not start.lost and witness.origin in start.origins for start in later)

    def forgotten(self) -> str:
        """Return the origin of a life that was in a durable checkpoint and is not in the next one,
        "" where there is none (rule G6).
        """
        known: frozenset[str] = frozenset()
        for start in self.found.values():
            if not start.lost and (missing := known - start.origins):
                return min(missing)
            known = start.settled if start.durable else frozenset()
        return ""


def entries_in(disk: MemoryDisk, path: str) -> list[dict[str, Any]]:
    """Return the entries of the checkpoint at *path*; none where there is none, or a damaged
    one.
    """
    if path not in disk.paths():
        return []
    try:
        entries: list[dict[str, Any]] = orjson.loads(disk.content(path)).get("entries", [])
    except orjson.JSONDecodeError:
        return []
    return entries


def entry_of(disk: MemoryDisk, path: str, inode: int, taken: Iterable[str]) -> str:
    """Return the origin of the living file of *inode* in the checkpoint, "" for none; one that is
    *taken* is another's.
    """
    claimed = frozenset(taken)
    for entry in entries_in(disk, path):
        if (
            entry["inode"] == inode
            and "ended" not in entry
            and "done" not in entry
            and entry["origin"] not in claimed
        ):
            return str(entry["origin"])
    return ""
