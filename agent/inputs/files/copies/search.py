"""Looks beside a file that is gone for a copy of it (rule G5)."""

import contextlib
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final
from zlib import crc32

from agent.inputs.files.copies.awaited import AwaitedRest
from agent.inputs.files.copies.judge import NEW, REST_SECONDS, Judgement, Suspect
from agent.inputs.files.copies.recognizer import CopyRecognizer
from agent.inputs.files.copies.samples import PlainSample
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.identity import Fingerprinter, FirstLine, Identity
from agent.sources.paths import path_from_text
from agent.sources.place import FileKey, FileLocation
from agent.sources.registry import SourceRegistry
from logdrive.host.disk import Disk, FileStat

_SUFFIX: Final = re.compile(r"[.-](?!log$)[^.-]+$")
"""What a copy's name has more than its file's: the .log of app.log is no copy's."""
_MOST_SIBLINGS: Final = 16
"""Files that one file may be a copy of, and that the store is asked for."""
_MOST_BASES: Final = 3
"""Names that are tried for one copy: of app.log.1.bak, app.log.1 and app.log and app."""

Bases = dict[str, FileStat | None]
"""Files beside a file whose names its own goes on after, by path; None where none is there now."""

Listed = dict[str, list[str]]
"""Names in directories, sorted, as of one search."""


class CopySearch:
    """Finds files whose names go on after that of a file, and judges them. Changes nothing."""

    def __init__(
        self,
        registry: SourceRegistry,
        followed: Mapping[FileKey, FollowedFile],
        recognizer: CopyRecognizer,
        fingerprinter: Fingerprinter,
        disk: Disk,
    ) -> None:
        self._registry = registry
        self._followed = followed
        self._recognizer = recognizer
        self._fingerprinter = fingerprinter
        self._disk = disk

    def paths_beside(self, awaited: AwaitedRest, listed: Listed) -> list[str]:
        """Return the paths in the file's directories whose names begin as its own do.

        Directories are listed once for all calls with the same *listed*: a thousand files of one
        may be gone.
        """
        found: dict[str, None] = {}
        for own in dict.fromkeys((awaited.path, awaited.name)):
            directory, _, name = own.rpartition("/")
            names = listed.get(directory)
            if names is None:
                names = listed[directory] = self._sorted_names(directory)
            for other in _names_with(os.path.splitext(name)[0], names):
                found[f"{directory}/{other}"] = None
        return list(found)

    def _sorted_names(self, directory: str) -> list[str]:
        try:
            return sorted(self._disk.names(directory or "/"))
        except OSError:
            return []

    def stat_bases(self, place: FileLocation) -> Bases:
        """Return the paths beside that at *place* whose names its own goes on after.

        Raises OSError if one can't be looked at now: without it a copy would be sent again.
        """
        directory, _, name = place.name.rpartition("/")
        return {path: self._stat_base(path) for path in _base_paths(directory, name)}

    def _stat_base(self, path: str) -> FileStat | None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            stat = self._disk.stat(path)
            return stat if stat.is_file else None
        return None

    def has_unread(self, bases: Bases) -> bool:
        """Return whether one of *bases* was there when the agent started, and could not be read
        since: a copy made meanwhile may be of a life that only the store knows.
        """
        stats = (stat for stat in bases.values() if stat is not None)
        found = (self._followed.get((stat.device, stat.inode)) for stat in stats)
        return any(
            base is not None and base.found_at_start and base.source is None for base in found
        )

    def siblings_of(
        self, place: FileLocation, first_line: FirstLine, bases: Bases
    ) -> list[tuple[str, Identity]]:
        """Return the paths and identities of lives that the file at *place* may be a copy of.

        These are lives with its first line, of the files whose names it goes on after: of *bases*,
        which are beside it, and of those that stood there and have been moved or removed since.
        """
        siblings: dict[tuple[str, tuple[int, int]], None] = {}
        for path, base in bases.items():
            if base is not None:
                siblings[path, (base.inode, base.birth_ns)] = None
            siblings |= {(path, file): None for file in self._known_files.get(path, ())}

        agent, host = self._fingerprinter.agent, self._fingerprinter.host
        return [
            (path, Identity(agent, host, place.mount, inode, birth_ns, first_line.text))
            for path, (inode, birth_ns) in list(siblings)[:_MOST_SIBLINGS]
            if inode != place.inode
        ]

    @cached_property
    def _known_files(self) -> dict[str, list[tuple[int, int]]]:
        """Inode and birth time of all files that the checkpoint had, the latest first, by path.

        Later ones are beside their copies when these are found.
        """
        files: dict[str, list[tuple[int, int]]] = {}
        for path, file in self._places():
            files.setdefault(path, []).append(file)
        return files

    def _places(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield path, inode and birth time of each file that is known."""
        for source, entry in reversed(self._registry.sources.items()):
            if entry is not None:
                yield _place_in(entry)
            elif isinstance(source.generation, Generation):
                place = source.generation.place
                yield place.path, (place.inode, place.birth_ns)
        # those that can't be looked for now may have been moved since
        for absent in self._registry.absent.values():
            yield _place_in(absent)

    def judge_path(self, awaited: AwaitedRest, path: str, now: float) -> tuple[Judgement, FileStat]:
        """Return what the plain file *path* is to *awaited*, and its status. Raises OSError."""
        stat = self._disk.stat(path)
        if not self._may_be_copy(awaited, stat):
            return NEW, stat
        file = self._disk.open(path)
        try:
            if crc32(file.pread(awaited.first_line.span, 0)) != awaited.first_line.crc:
                return NEW, stat
            stat = file.stat()
            key = stat.device, stat.inode
            rests = now - awaited.rests_since(key, stat.size, now) >= REST_SECONDS
            suspect = Suspect(path, PlainSample(file, stat.size), rests)
            return self._recognizer.judge_for(suspect, awaited.source), stat
        finally:
            file.close()

    def _may_be_copy(self, awaited: AwaitedRest, stat: FileStat) -> bool:
        """Return whether a file is no other's."""
        key = stat.device, stat.inode
        known = self._followed.get(key)
        if not stat.is_file or key == awaited.key:
            return False
        if known is not None and known.source is not None:
            return False
        # the file of an absent entry is left to the restorer
        return all(entry.inode != stat.inode for entry in self._registry.absent.values())


def _names_with(stem: str, names: list[str]) -> list[str]:
    """Return those of the sorted *names* that begin with *stem*."""
    end = bisect_right(names, stem, key=lambda name: name[: len(stem)])
    return names[bisect_left(names, stem) : end]


def _place_in(entry: CheckpointEntry) -> tuple[str, tuple[int, int]]:
    return path_from_text(entry.path), (entry.inode, entry.birth_ns)


def _base_paths(directory: str, name: str) -> list[str]:
    """Return the paths in *directory* that copies named *name* are made of: `app.log` for
    `app.log.1`, for `app.log-20261123` and for `app-20261123.log`.
    """
    bases: list[str] = []
    stem = name
    while len(bases) < _MOST_BASES and (added := _SUFFIX.search(stem)):
        stem = stem[: added.start()]
        bases.append(stem)
    root, extension = os.path.splitext(name)
    if extension and (added := _SUFFIX.search(root)):
        bases.append(root[: added.start()] + extension)
    return [f"{directory}/{base}" for base in bases]
