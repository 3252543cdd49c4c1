"""Paths and patterns of inputs: which files they name, found by listing directories, and which
input a path belongs to.

`*`, `?` and `[…]` stay within one name and do not begin it with a dot unless the pattern does; `**`
stands for up to eight levels of directories, none included.
"""

import fnmatch
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agent.config import InputTable
from agent.sources.place import FileKey
from logdrive.host.disk import Disk, FileStat

DEEPEST: Final = 8
_SPECIAL: Final = re.compile(r"[*?\[]")


class Pattern:
    """One absolute path or pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = [part for part in text.split("/") if part and part != "."]
        self._names = [re.compile(fnmatch.translate(part)) for part in self._parts]

    def matches(self, path: str) -> bool:
        """Tell whether *path* is named."""
        return self._match([part for part in path.split("/") if part], 0, 0)

    def _match(self, names: list[str], name: int, part: int) -> bool:
        if part == len(self._parts):
            return name == len(names)
        if self._parts[part] == "**":
            return self._match_any_depth(names, name, part)
        return (
            name < len(names)
            and self._fits(part, names[name])
            and self._match(names, name + 1, part + 1)
        )

    def _match_any_depth(self, names: list[str], name: int, part: int) -> bool:
        last = part == len(self._parts) - 1
        for after in range(name, min(len(names), name + DEEPEST + last) + 1):
            if after > name and names[after - 1].startswith("."):
                return False
            if (
                (after > name and after == len(names))
                if last
                else self._match(names, after, part + 1)
            ):
                return True
        return False

    def _fits(self, part: int, name: str) -> bool:
        hidden = name.startswith(".") and not self._parts[part].startswith(".")
        return not hidden and self._names[part].match(name) is not None

    def expand(self, listing: "Listing") -> Iterator[str]:
        """Yield the paths of files that are named, as far as directories can be listed."""
        yield from self._expand("/", 0, listing, 0)

    def _expand(self, directory: str, part: int, listing: "Listing", depth: int) -> Iterator[str]:
        if part == len(self._parts):
            return
        text, last = self._parts[part], part == len(self._parts) - 1
        if text == "**":
            if last:
                yield from (
                    os.path.join(directory, name)
                    for name in listing.names(directory)
                    if not name.startswith(".")
                )
            else:
                yield from self._expand(directory, part + 1, listing, 0)
            if depth < DEEPEST:
                for name in listing.directories(directory):
                    yield from self._expand(os.path.join(directory, name), part, listing, depth + 1)
        elif not _SPECIAL.search(text):
            path = os.path.join(directory, text)
            if last:
                listing.names(directory)  # so that it is watched
                yield path
            else:
                yield from self._expand(path, part + 1, listing, 0)
        else:
            for name in listing.names(directory) if last else listing.directories(directory):
                if self._fits(part, name):
                    path = os.path.join(directory, name)
                    if last:
                        yield path
                    else:
                        yield from self._expand(path, part + 1, listing, 0)


class Listing:
    """Directories as they are during one scan, each listed once.

    *listed* are those that patterns looked into.

    *known* tells whether a path whose directory names this device and inode is a file that needs no
    look.
    """

    def __init__(
        self, disk: Disk, known: Callable[[str, FileKey], bool] = lambda path, key: False
    ) -> None:
        self._disk, self._known = disk, known
        self._names: dict[str, list[str]] = {}
        self._inodes: dict[str, dict[str, int]] = {}
        self._devices: dict[str, int] = {}
        self._directories: dict[str, list[str]] = {}
        self.troubles: dict[str, OSError] = {}

    @property
    def listed(self) -> list[str]:
        """The directories that exist among those looked into."""
        return [directory for directory in self._names if directory not in self.troubles]

    def names(self, directory: str) -> list[str]:
        """Return the entries of *directory*, sorted; none where it can't be listed."""
        if directory not in self._names:
            try:
                self._inodes[directory] = self._disk.inodes(directory)
                self._devices[directory] = self._disk.stat(directory).device
                self._names[directory] = sorted(self._inodes[directory])
            except OSError as error:
                self._names[directory] = []
                self.troubles[directory] = error
        return self._names[directory]

    def is_known(self, path: str) -> bool:
        """Tell, without a look at the file, whether *path* is one that is known already."""
        directory, _, name = path.rpartition("/")
        inode = self._inodes.get(directory or "/", {}).get(name, 0)
        return inode != 0 and self._known(path, (self._devices[directory or "/"], inode))

    def directories(self, directory: str) -> list[str]:
        """Return the directories in *directory* that have no leading dot."""
        if directory not in self._directories:
            found = []
            for name in self.names(directory):
                # hidden, or a regular file
                if name.startswith(".") or self._inodes[directory][name]:
                    continue
                stat = self.stat(os.path.join(directory, name))
                if stat is not None and not stat.is_file:
                    found.append(name)
            self._directories[directory] = found
        return self._directories[directory]

    def stat(self, path: str) -> FileStat | None:
        """Return what stands at *path*, None where nothing can be seen there."""
        try:
            return self._disk.stat(path)
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class MatchedFile:
    """A file that an input names."""

    path: str
    settings: InputTable
    stat: FileStat


class FileInputs:
    """The inputs of a configuration; the first that names a file has it."""

    def __init__(self, tables: Sequence[InputTable]) -> None:
        self._inputs = [
            (table, [Pattern(p) for p in table.paths], [Pattern(p) for p in table.exclude])
            for table in tables
        ]

    @property
    def first_from_end(self) -> InputTable | None:
        """The first input that begins at the end of what is there at the very first start, None
        without one.
        """
        return next((table for table, _, _ in self._inputs if table.start == "end"), None)

    def settings_for(self, path: str) -> InputTable | None:
        """Return the input that names *path*."""
        for table, paths, exclude in self._inputs:
            if any(pattern.matches(path) for pattern in paths) and not any(
                pattern.matches(path) for pattern in exclude
            ):
                return table
        return None

    def mention(self, path: str) -> bool:
        """Tell whether a pattern names *path*, be it to exclude it."""
        return any(
            pattern.matches(path)
            for _, paths, exclude in self._inputs
            for pattern in (*paths, *exclude)
        )

    def scan(self, listing: Listing) -> Iterator[MatchedFile]:
        """Yield all regular files that the inputs name, each path once; not those that *listing*
        knows.
        """
        seen: set[str] = set()
        for table, paths, exclude in self._inputs:
            for pattern in paths:
                for path in pattern.expand(listing):
                    if (
                        path in seen
                        or listing.is_known(path)
                        or any(unwanted.matches(path) for unwanted in exclude)
                    ):
                        continue
                    seen.add(path)
                    stat = listing.stat(path)
                    if stat is not None and stat.is_file:
                        yield MatchedFile(path, table, stat)
