"""Generations whose files are gone, and whose rest is looked for in copies (rule G5)."""

from dataclasses import dataclass, field
from typing import Final

from agent.config.files import InputTable
from agent.inputs.files.copies.judge import REST_SECONDS
from agent.inputs.files.file import Generation
from agent.sources.checkpoint.entry import CheckpointEntry, CopyStamp
from agent.sources.identity import FirstLine
from agent.sources.paths import path_from_text
from agent.sources.place import FileKey
from agent.sources.source import Source
from logdrive.records.runs import REMOVED, SHIPPED, GapOrEndMark

UNREADABLE_SECONDS: Final = 3600.0
"""Seconds for which a rest is looked for while what may have it can't be read or has no input.

Not for ever: each life of a file with an unreadable neighbour, say one of another user, would be
kept, and a life of an input that was removed for good never be told.
"""


@dataclass(eq=False, slots=True, kw_only=True)
class AwaitedRest:
    """One generation, and how long its rest is looked for."""

    source: Source
    mark: GapOrEndMark
    """How its file went."""
    settings: InputTable
    path: str
    """The path that its lines are known by."""
    name: str
    """The path at which its file was seen last."""
    key: FileKey | None
    """Its own file, which is no copy of it; None if it may be that of a copy."""
    inode: int
    """The inode of its own file."""
    mount: str
    """The mount point of its file system."""
    birth_ns: int
    """When its file was made; 0 where that is not known."""
    first_line: FirstLine
    prefix: bytes
    """CRCs of its first bytes."""
    seen: int
    """The largest size seen."""
    modified_ns: int
    """When its file was changed last, as of the last look; 0 where that is not known."""

    since: float = 0.0
    """When the search began (monotonic, s)."""
    until: float = 0.0
    """When it is given up (monotonic, s), if no copy grows until then."""
    scan: int = 0
    """The scan that must have ended before."""
    told: bool = False
    """Whether it was given up before, by an agent that ran earlier, which has told so."""
    copied: bool = False
    """Whether there is a copy of what was read, so that no byte is missed."""
    surveyed: set[CopyStamp] = field(default_factory=set)
    """Compressed files that were found to be no copy of it."""
    sizes: dict[FileKey, tuple[int, float]] = field(default_factory=dict)
    """Sizes of the copies seen, and since when they have them (monotonic, s)."""

    def wait_longer(self, now: float) -> None:
        """Look for it a while longer: a file was found that may have it, and can't be judged yet,
        or there is no handle for it.
        """
        self.until = max(self.until, now + REST_SECONDS)

    def wait_for_unreadable(self, now: float) -> None:
        """Look for it a while longer, for `UNREADABLE_SECONDS` in all: what may have it can't be
        read, and this may heal.
        """
        self.until = max(self.until, min(now + REST_SECONDS, self.since + UNREADABLE_SECONDS))

    @classmethod
    def from_generation(
        cls, source: Source, generation: Generation, mark: GapOrEndMark, *, owed: int = 0
    ) -> "AwaitedRest":
        """Return the rest of a *generation* that has a first line; *owed* bytes were seen of it."""
        place = generation.place
        assert generation.first_line is not None
        return cls(
            source=source,
            mark=mark,
            settings=generation.settings,
            path=place.path,
            name=place.name,
            key=place.key,
            inode=place.inode,
            mount=place.mount,
            birth_ns=place.birth_ns,
            first_line=generation.first_line,
            prefix=generation.prefix,
            seen=max(generation.seen, owed),
            modified_ns=generation.modified_ns,
        )

    @classmethod
    def from_entry(
        cls, source: Source, entry: CheckpointEntry, settings: InputTable, mark: GapOrEndMark
    ) -> "AwaitedRest":
        """Return the rest of a generation that went while no agent ran."""
        return cls(
            source=source,
            mark=mark,
            settings=settings,
            path=path_from_text(entry.path),
            name=path_from_text(entry.name),
            key=(entry.device, entry.inode) if entry.ending is None else None,
            inode=entry.inode,
            mount=path_from_text(entry.mount),
            birth_ns=entry.birth_ns,
            first_line=entry.first_line,
            prefix=entry.prefix,
            seen=max(entry.seen, source.position),
            modified_ns=entry.modified_ns,
            told=entry.ended is not None,
        )

    @property
    def lost_mark(self) -> GapOrEndMark:
        """How it ends if no copy is found."""
        # it was a compressed file itself, which is gone
        return GapOrEndMark(REMOVED) if self.mark.reason == SHIPPED else self.mark

    def rests_since(self, key: FileKey, size: int, now: float) -> float:
        """Note that the file *key* has *size* bytes at *now*; return since when it has them (s)."""
        known = self.sizes.get(key)
        if known is None or known[0] != size:
            known = self.sizes[key] = (size, now)
        return known[1]
