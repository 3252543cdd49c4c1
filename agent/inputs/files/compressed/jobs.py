"""Compressed files that wait to be surveyed."""

from dataclasses import dataclass

from agent.inputs.files.copies.settled import stamp_of
from agent.inputs.files.paths.globs import MatchedFile
from agent.sources.incarnation_search import Counting
from agent.sources.place import FileKey
from logdrive.host.disk import FileStat


@dataclass(eq=False, slots=True)
class SurveyJob:
    """One file to survey."""

    path: str
    stat: FileStat
    """Its status when it was found, or surveyed last."""
    since: float
    """Since when it has been as that says (monotonic, s)."""
    line_end: bytes
    """What ends its lines, besides newlines."""
    match: MatchedFile | None = None
    """What an input says of it; None for one that only may be a copy."""
    counting: Counting = Counting.KNOWN
    """How the count of a source of its own is found."""
    sought: bool = False
    """Whether a source waits for a copy, so that a plain file of its name must be another's."""
    retry_at: float = 0.0
    """When to survey it (monotonic, s)."""

    @property
    def key(self) -> FileKey:
        """Device and inode."""
        return self.stat.device, self.stat.inode

    def note_stat(self, stat: FileStat, now: float) -> None:
        """Note what the file is like at *now*."""
        if stamp_of(stat) != stamp_of(self.stat):
            self.stat, self.since = stat, now
