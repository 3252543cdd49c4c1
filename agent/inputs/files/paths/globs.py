"""Matches files with the paths and patterns of inputs.

`*`, `?` and `[…]` match within one name; they match a leading dot only if the pattern's name has
one, too. `**` matches up to eight levels of directories, or none. It follows symbolic links to
directories, but enters none again below itself: links may go round.
"""

import fnmatch
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from agent.config.files import InputTable
from agent.sources.place import FileKey
from logdrive.host.disk import Disk, FileStat

MOST_LEVELS: Final = 8
"""Limit on the levels of directories that `**` matches."""

DirectoryKey = tuple[int, int, int]
"""Device, inode and birth time (ns) of a directory: another one under the same name differs."""

_SPECIAL: Final = re.compile(r"[*?\[]")


class PathPattern:
    """One absolute path or pattern, as a list of names: `/var/log/*.log` has three."""

    def __init__(self, text: str) -> None:
        # the pattern of each name in the path
        self._parts = [part for part in text.split("/") if part and part != "."]
        self._names = [re.compile(fnmatch.translate(part)) for part in self._parts]  # one a part

    def matches_path(self, path: str) -> bool:
        """Return whether the pattern matches *path*; nothing is looked at on the disk."""
        return self._matches_from([part for part in path.split("/") if part], 0, 0)

    def _matches_from(self, names: list[str], name: int, part: int) -> bool:
        """Return whether the parts from *part* on match the names from *name* on."""
        if part == len(self._parts):
            return name == len(names)
        if self._parts[part] == "**":
            return self._matches_any_depth(names, name, part)
        return (
            name < len(names)
            and self._matches_name(part, names[name])
            and self._matches_from(names, name + 1, part + 1)
        )

    def _matches_any_depth(self, names: list[str], name: int, part: int) -> bool:
        """Return whether `**` at *part*, and the parts after it, match the names from *name* on."""
        last = part == len(self._parts) - 1
        # `**` at the end matches files, too: one level more, and at least one name
        for after in range(name, min(len(names), name + MOST_LEVELS + last) + 1):
            if after > name and names[after - 1].startswith("."):
                return False  # no hidden directories, so nothing below this one
            if (
                (after > name and after == len(names))
                if last
                else self._matches_from(names, after, part + 1)
            ):
                return True
        return False

    def _matches_name(self, part: int, name: str) -> bool:
        hidden = name.startswith(".") and not self._parts[part].startswith(".")
        return not hidden and self._names[part].match(name) is not None

    def expand_paths(self, listing: "DirectoryListing") -> Iterator[str]:
        """Yield the paths that match, as far as directories can be listed, without files that
        *listing* knows.

        A path without special characters is yielded even if nothing is there.
        """
        yield from self._expand("/", 0, listing)

    def _expand(
        self,
        directory: str,
        part: int,
        listing: "DirectoryListing",
        above_it: tuple[DirectoryKey | None, ...] = (),
    ) -> Iterator[str]:
        """Yield what the parts from *part* on match below *directory*.

        *above_it* are the directories that `**` at *part* has matched already, one a level.
        """
        if part == len(self._parts):
            return

        text, last = self._parts[part], part == len(self._parts) - 1
        above = directory.rstrip("/") + "/"
        if text == "**":
            yield from self._expand_any_depth(directory, part, listing, above_it)
        elif not _SPECIAL.search(text):
            path = above + text
            if last:
                listing.list_names(directory)  # so that the directory is watched
                if not listing.is_known(path):
                    yield path
            else:
                yield from self._expand(path, part + 1, listing)
        else:
            for name in (
                listing.list_unknown(directory) if last else listing.list_directories(directory)
            ):
                if self._matches_name(part, name):
                    if last:
                        yield above + name
                    else:
                        yield from self._expand(above + name, part + 1, listing)

    def _expand_any_depth(
        self,
        directory: str,
        part: int,
        listing: "DirectoryListing",
        above_it: tuple[DirectoryKey | None, ...],
    ) -> Iterator[str]:
        """Yield what `**` at *part* matches: in *directory*, and in each directory below it."""
        above = directory.rstrip("/") + "/"
        if part == len(self._parts) - 1:
            yield from (
                above + name for name in listing.list_unknown(directory) if not name.startswith(".")
            )
        else:
            yield from self._expand(directory, part + 1, listing)

        if len(above_it) < MOST_LEVELS:
            way = (*above_it, listing.directory_key(directory))
            for name in listing.list_directories(directory):
                key = listing.directory_key(above + name)
                if key is None or key not in way:  # a link may lead back
                    yield from self._expand(above + name, part, listing, way)


class DirectoryListing:
    """Directories as they are during one scan, each listed only once."""

    def __init__(
        self, disk: Disk, known: Callable[[str, FileKey], bool] = lambda path, key: False
    ) -> None:
        """List directories of *disk*.

        *known* returns whether a file at this path, with the device and inode that its directory
        gives, needs no look.
        """
        self._disk = disk
        self._known = known
        self._names: dict[str, list[str]] = {}  # by directory, sorted
        self._unknown: dict[str, list[str]] = {}  # those of no known files, likewise
        self._inodes: dict[str, dict[str, int]] = {}  # by directory and name; 0 for no file
        self._keys: dict[str, DirectoryKey] = {}  # of directories
        self._directories: dict[str, list[str]] = {}  # those in each directory, not hidden
        self._real_paths: dict[str, str] = {}  # of directories, without symbolic links
        self.errors: dict[str, OSError] = {}  # of directories that can't be listed
        # of directories that can be listed, but whose files can't be looked at, and of links into
        # directories like that
        self.forbidden: dict[str, OSError] = {}

    @property
    def listed_directories(self) -> dict[str, DirectoryKey]:
        """The directories that were listed without an error, with what tells them from others."""
        return {
            directory: self._keys[directory]
            for directory in self._inodes
            if directory not in self.errors
        }

    def list_names(self, directory: str) -> list[str]:
        """Return the names in *directory*, sorted; none if it can't be listed (see `errors`)."""
        if directory not in self._names:
            self._names[directory] = sorted(self._list_inodes(directory))
        return self._names[directory]

    def list_unknown(self, directory: str) -> list[str]:
        """Return the names in *directory* but those of known files, sorted.

        Most files are known: nothing else is done for them, since there may be ten thousand.
        """
        if directory not in self._unknown:
            inodes, known = self._list_inodes(directory), self._known
            device, above = self._keys[directory][0], directory.rstrip("/") + "/"
            self._unknown[directory] = sorted(
                name
                for name, inode in inodes.items()
                if not (inode and known(above + name, (device, inode)))
            )
        return self._unknown[directory]

    def _list_inodes(self, directory: str) -> dict[str, int]:
        """Return what `Disk.inodes` does; {} if the directory can't be listed (see `errors`)."""
        if directory not in self._inodes:
            try:
                inodes, key = self._disk.inodes(directory), _key(self._disk.stat(directory))
            except OSError as error:
                inodes, key = {}, (0, 0, 0)
                self.errors[directory] = error
            self._inodes[directory], self._keys[directory] = inodes, key
        return self._inodes[directory]

    def directory_key(self, directory: str) -> DirectoryKey | None:
        """Return what tells *directory* from others, None where the disk does not."""
        if directory not in self._keys:
            stat = self.stat_or_none(directory)
            self._keys[directory] = _key(stat) if stat is not None else (0, 0, 0)
        key = self._keys[directory]
        return key if key[1] else None

    def is_known(self, path: str) -> bool:
        """Return whether *path* is a known file."""
        key = self.key_of(path)
        return key is not None and self._known(path, key)

    def key_of(self, path: str) -> FileKey | None:
        """Return the device and inode that the directory of *path* gives, None for no file.

        The directory must be listed.
        """
        directory, _, name = path.rpartition("/")
        inode = self._inodes.get(directory or "/", {}).get(name, 0)
        return (self._keys[directory or "/"][0], inode) if inode else None

    def real_path_of(self, path: str) -> str:
        """Return *path*, a file that is no link itself, without symbolic links."""
        directory, _, name = path.rpartition("/")
        real = self._real_paths.get(directory)
        if real is None:
            # found once for all files in it: that costs a look at each directory above
            real = self._disk.real_path(directory or "/").rstrip("/")
            self._real_paths[directory] = real
        return f"{real}/{name}"

    def list_directories(self, directory: str) -> list[str]:
        """Return the names of the directories in *directory*, without hidden ones."""
        if directory not in self._directories:
            names = []
            for name, inode in self._list_inodes(directory).items():
                # hidden, or a regular file: only those have an inode here
                if inode or name.startswith("."):
                    continue
                path = os.path.join(directory, name)
                stat = self.stat_or_none(path)
                if stat is not None and stat.is_directory:
                    names.append(name)
                    self._keys[path] = _key(stat)
            self._directories[directory] = sorted(names)
        return self._directories[directory]

    def stat_or_none(self, path: str) -> FileStat | None:
        """Return the status of the file or directory at *path*, None if it can't be had."""
        try:
            return self._disk.stat(path)
        except PermissionError as error:
            self._note_forbidden(path, error)
            return None
        except OSError:
            return None

    def _note_forbidden(self, path: str, error: OSError) -> None:
        """Note that *path* can't be looked at: its directory, once for all of its files."""
        directory = os.path.dirname(path)
        if directory in self.forbidden:
            return
        try:
            self._disk.stat(os.path.join(directory, "."))
        except OSError:
            path = directory
        self.forbidden[path] = error


def _key(stat: FileStat) -> DirectoryKey:
    return stat.device, stat.inode, stat.birth_ns


class MatchedFile(msgspec.Struct, frozen=True, gc=False):  # in no cycle
    """A file that a pattern of an input matches."""

    path: str
    """The path that the pattern matches."""

    settings: InputTable
    """The input: the first one that matches the path."""

    stat: FileStat
    """The file's status at the time of the scan."""

    name: str | None = None
    """The path without symbolic links, as far as the scan knows it."""

    at_start: bool = False
    """Whether the agent's first scan found it: an agent before may know more of it than this one,
    as a checkpoint lags behind.
    """


class FileInputs:
    """The inputs of a configuration. A file belongs to the first input that matches it."""

    def __init__(self, tables: Sequence[InputTable]) -> None:
        self.replace_tables(tables)

    def replace_tables(self, tables: Sequence[InputTable]) -> None:
        """Use other *tables* from now on; a scan that is under way goes on with the former ones."""
        # each table with its patterns and those that it excludes
        self._inputs = [
            (table, [PathPattern(p) for p in table.paths], [PathPattern(p) for p in table.exclude])
            for table in tables
        ]
        self._identities = frozenset(map(id, tables))  # of tables that are kept above

    @property
    def first_from_end(self) -> InputTable | None:
        """The first input whose files may start at their end, None without one."""
        return next((table for table, _, _ in self._inputs if table.start != "beginning"), None)

    def settings_for(self, path: str) -> InputTable | None:
        """Return the input that *path* belongs to, None if no input matches it."""
        for table, paths, exclude in self._inputs:
            if any(pattern.matches_path(path) for pattern in paths) and not any(
                pattern.matches_path(path) for pattern in exclude
            ):
                return table
        return None

    def has_table(self, table: InputTable) -> bool:
        """Return whether *table* is one of them, itself and not its like."""
        return id(table) in self._identities

    def mentions_path(self, path: str) -> bool:
        """Return whether any pattern matches *path*, also one that excludes it."""
        return any(
            pattern.matches_path(path)
            for _, paths, exclude in self._inputs
            for pattern in (*paths, *exclude)
        )

    def scan_files(self, listing: DirectoryListing) -> Iterator[MatchedFile]:
        """Yield all regular files that belong to an input, each path once.

        Files that *listing* knows are left out.
        """
        for path, table in self.scan_paths(listing):
            stat = listing.stat_or_none(path)
            if stat is not None and stat.is_file:
                yield MatchedFile(path, table, stat)

    def scan_paths(self, listing: DirectoryListing) -> Iterator[tuple[str, InputTable]]:
        """Yield the paths that `scan_files` looks at, each with its input."""
        seen: set[str] = set()
        for table, paths, exclude in self._inputs:
            for pattern in paths:
                for path in pattern.expand_paths(listing):
                    if path in seen:
                        continue
                    if exclude and any(unwanted.matches_path(path) for unwanted in exclude):
                        continue
                    seen.add(path)
                    yield path, table
