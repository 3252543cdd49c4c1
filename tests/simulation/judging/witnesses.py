"""What agents know of files when these go: from the agent while it runs, else its checkpoint.

The checkpoint is read by the tests' own code. After a restart an agent must account for the files
in the checkpoint that it found, and for no others: it can't know what began after it was written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import orjson

from agent.sources.source import Source
from logdrive.host.disk import FileStat
from tests.support.memory.disk import MemoryDisk

FileId = tuple[int, int]
"""Inode and birth time: a file that is given the inode of another has another birth time."""


@dataclass(slots=True)
class Witness:
    """What an agent knew of a life when it went."""

    incarnation: int  # of the agent: the running one, or the last
    source: Source | None = None  # None: a file without a first line, or the agent was down
    entry: str = ""  # the life's origin id in the checkpoint, if the agent was down
    held: bool = False  # the agent had the file open, and can read it to its end (rule G1)

    @property
    def origin(self) -> str:
        """The origin id that the agent gave the life, "" if none."""
        return self.entry if self.source is None else str(self.source.origin)


@dataclass(frozen=True, slots=True)
class Start:
    """What an agent finds in its checkpoint when it starts."""

    origins: frozenset[str]
    settled: frozenset[str]  # those of them whose count is known
    lost: bool  # the checkpoint was removed, or set back, on purpose
    durable: bool  # no power cut can take the checkpoint back
    files: Mapping[str, FileId]  # all that are there, by path
    known: frozenset[FileId]  # the files in it that have not ended
    stems: Mapping[str, str] = field(default_factory=dict)  # of its origins, by origin
    moved_on: frozenset[str] = frozenset()  # stems: a store had another's bytes under a count


@dataclass(slots=True)
class Starts:
    """All starts of one agent, by its incarnation."""

    found: dict[int, Start] = field(default_factory=dict)

    def begin(self, incarnation: int, disk: MemoryDisk, path: str, *, lost: bool) -> None:
        """Note what *incarnation*, which starts now, finds in the checkpoint at *path*."""
        entries = entries_in(disk, path)
        origins = frozenset(entry["origin"] for entry in entries)
        settled = frozenset(entry["origin"] for entry in entries if "counting" not in entry)
        files = {other: file_id(disk.stat(other)) for other in disk.paths()}
        known = frozenset(
            (entry["inode"], entry.get("birth_ns", 0)) for entry in entries if "done" not in entry
        )
        durable = disk.is_durable(path)
        stems = {entry["origin"]: entry.get("stem", "") for entry in entries}
        moved_on = frozenset(entry["stem"] for entry in entries if entry.get("resend"))
        self.found[incarnation] = Start(
            origins, settled, lost, durable, files, known, stems, moved_on
        )

    @property
    def lost(self) -> bool:
        """Whether a start has found no checkpoint, or that of another time, on purpose."""
        return any(start.lost for start in self.found.values())

    def remember(self, witness: Witness) -> bool:
        """Return whether each later start has found the life of *witness* in its checkpoint."""
        later = [start for number, start in self.found.items() if number > witness.incarnation]
        return all(not start.lost and witness.origin in start.origins for start in later)

    def knew_count(self, witness: Witness) -> bool:
        """Return whether the start after that life knew its count, or there was none.

        If not, the store decides which of those that look alike it was (rule G3).
        """
        later = [number for number in self.found if number > witness.incarnation]
        return not later or witness.origin in self.found[min(later)].settled

    def are_of_one_file(self, one: str, other: str) -> bool:
        """Return whether a start has found the origins *one* and *other*, counts of one file."""
        return any(
            one in start.stems and start.stems[one] == start.stems.get(other)
            for start in self.found.values()
        )

    def forgotten(self) -> str:
        """Return the origin of a life that a durable checkpoint had and the next one lacks (G6).

        "" if there is none. One that has taken the next count is not forgotten: the store had the
        bytes of another under its own (rule D4).
        """
        known: dict[str, str] = {}
        for start in self.found.values():
            missing = [
                origin
                for origin, stem in known.items()
                if origin not in start.origins and stem not in start.moved_on
            ]
            if missing and not start.lost:
                return min(missing)
            known = {one: start.stems[one] for one in start.settled} if start.durable else {}
        return ""


def file_id(stat: FileStat) -> FileId:
    """Return the identity of the file of *stat*."""
    return stat.inode, stat.birth_ns


def entries_in(disk: MemoryDisk, path: str) -> list[dict[str, Any]]:
    """Return the entries of the checkpoint at *path*, [] if it is missing or damaged."""
    if path not in disk.paths():
        return []
    try:
        entries: list[dict[str, Any]] = orjson.loads(disk.content(path)).get("entries", [])
    except orjson.JSONDecodeError:
        return []
    return entries


def entry_of(
    disk: MemoryDisk, path: str, inode: int, content: bytes | bytearray, taken: Iterable[str]
) -> str:
    """Return the origin of the living file of *inode* and *content* in the checkpoint, "" if none.

    Origins that are *taken* are those of earlier lives.
    """
    claimed = frozenset(taken)
    for entry in entries_in(disk, path):
        if (
            entry["inode"] == inode
            and not {"ended", "ending", "done"} & entry.keys()
            and entry["origin"] not in claimed
            and begins_with(content, entry["span"], entry["crc"])
        ):
            return str(entry["origin"])
    return ""


def begins_with(content: bytes | bytearray, span: int, crc: int) -> bool:
    """Return whether the first line of *content* has *span* bytes of CRC-32 *crc*."""
    return len(content) >= span and crc32(content[:span]) == crc
