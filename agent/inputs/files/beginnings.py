"""Begins the sources of files (rules G2, G5)."""

from agent.inputs.files.copies.copies import Copies
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.open_files import OpenFiles
from agent.sources.identity import Fingerprinter, FirstLine, Identity
from agent.sources.readable import SourceTruncatedError
from agent.sources.registry import SourceRegistry
from logdrive.host.disk import FileStat


class Beginnings:
    """Gives files their sources."""

    def __init__(
        self,
        registry: SourceRegistry,
        fingerprinter: Fingerprinter,
        open_files: OpenFiles,
        copies: Copies | None,
    ) -> None:
        """Without *copies* no file is taken for one."""
        self._registry = registry
        self._fingerprinter = fingerprinter
        self._open_files = open_files
        self._copies = copies

    def begin_source(self, followed: FollowedFile, stat: FileStat) -> None:
        """Add the source of a file as soon as its first line is complete (rule G2).

        A file that may be a copy has to wait, or gets the source that it belongs to (rule G5).
        Raises OSError, or `SourceTruncatedError` if the file does not begin as it did.
        """
        generation = followed.generation
        if generation.seen == len(followed.head) and not followed.held and not followed.trouble:
            return  # nothing new

        self._open_files.open_file(generation)
        head = generation.read_head()
        # truncated since it was looked at, these are bytes of the next generation
        generation.verify_seen(head)
        if not head.startswith(followed.head):
            raise SourceTruncatedError
        followed.head = head

        line_end = generation.settings.line_end_bytes
        first_line = FirstLine.find_in(head, ended=followed.ships_unfinished, line_end=line_end)
        if first_line is None:
            return
        copies = None if followed.no_copy else self._copies
        if copies is not None and not copies.admits_source(followed, first_line):
            return
        siblings = self._siblings_of(followed, first_line)
        identity = self._fingerprinter.identify(stat, generation.place, first_line)
        generation.set_first_line(first_line)
        source = self._registry.add_generation(
            generation,
            identity,
            followed.counting,
            closes_when_complete=followed.ships_unfinished
            and FirstLine.find_in(head, line_end=line_end) is None,
            siblings=siblings,
        )
        followed.set_source(source)

    def _siblings_of(
        self, followed: FollowedFile, first_line: FirstLine
    ) -> list[tuple[str, Identity]]:
        """Return paths and identities of lives that a file may be a copy of, where a checkpoint may
        not tell. Raises OSError.
        """
        if followed.no_copy or self._copies is None:
            return []
        beside, place = self._copies.beside, followed.generation.place
        bases = beside.stat_bases(place)
        if not bases or not (followed.found_at_start or beside.has_unread(bases)):
            return []
        return beside.siblings_of(place, first_line, bases)
