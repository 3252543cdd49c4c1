"""Positions that another shipper had reached, which the agent's first start goes on from.

`logdrive agent import --registry` writes them to a file in the state directory. The agent applies
them once, where there is no checkpoint yet, and then removes the file: an inode may be given to
another file later. Bytes before such a position are a gap, `not_wanted` (rule P2).
"""

import os
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from agent.inputs.files.file import Generation
from agent.inputs.files.start_position import find_last_line_end
from agent.sources.paths import printable_path
from agent.sources.place import FileKey, FileLocation
from logdrive.errors import ConfigError, Mistake, UnavailableError, os_error_text
from logdrive.host.disk import Disk, write_atomically
from logdrive.model.units import MIB

FILE_NAME: Final = "taken-positions.json"
_MOST_BYTES: Final = 256 * MIB
"""Limit on the file: a million positions."""


class TakenPosition(msgspec.Struct, frozen=True, kw_only=True):
    """How far another shipper has delivered one file."""

    path: str
    """The path at which it saw the file."""

    offset: int
    """Bytes from the file's start that it need not be sent again."""

    inode: int = 0
    """The file's inode; 0 where it is not known."""

    device: int = 0
    """Number of the file's device; 0 where it is not known."""

    fingerprint: str = ""
    """SHA-256 of the file's first *fingerprint_bytes* bytes, in hex; "" where it is not known."""

    fingerprint_bytes: int = 1024
    """How many these are."""


class TakenPositions:
    """The positions in the state directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.path = os.path.join(directory, FILE_NAME)
        self._disk = disk
        self._by_inode: dict[tuple[int, int], TakenPosition] = {}  # by device and inode
        self._by_fingerprint: dict[tuple[int, str], TakenPosition] = {}  # by length and hash
        self._fingerprint_sizes: set[int] = set()
        self._by_path: dict[str, TakenPosition] = {}  # those with neither

    def load(self) -> bool:
        """Read the file; return whether there is one.

        Raises `ConfigError` if it is damaged, `UnavailableError` if it can't be opened.
        """
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            remedy = (
                f"it can't be read ({os_error_text(error)}): give it, and its directory, to the "
                "user that runs the agent"
            )
            raise UnavailableError(self.path, [Mistake("", "", remedy)]) from error
        try:
            content = file.pread(_MOST_BYTES, 0)
        finally:
            file.close()
        try:
            taken = msgspec.json.decode(content, type=list[TakenPosition])
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            remedy = f"it is damaged ({error}): write it again by `logdrive agent import`"
            raise ConfigError(self.path, [Mistake("", "", remedy)]) from error
        self.add(taken)
        return True

    def add(self, positions: Iterable[TakenPosition]) -> None:
        """Add *positions* in memory."""
        for one in positions:
            if one.fingerprint:
                self._by_fingerprint[one.fingerprint_bytes, one.fingerprint] = one
                self._fingerprint_sizes.add(one.fingerprint_bytes)
            elif one.inode:
                self._by_inode[one.device, one.inode] = one
            else:
                self._by_path[one.path] = one

    def save(self, positions: Iterable[TakenPosition]) -> None:
        """Write *positions*, in place of those that are there. Raises OSError."""
        self._disk.make_directory(os.path.dirname(self.path))
        write_atomically(self._disk, self.path, msgspec.json.encode(list(positions)), private=True)

    def remove(self) -> None:
        """Remove the file: what it says is in the checkpoint now."""
        self._disk.remove(self.path)

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self._by_inode) + len(self._by_fingerprint) + len(self._by_path)

    def has(self, generation: Generation) -> bool:
        """Return whether an open file has a position. Raises OSError."""
        if generation.file is None:
            return False
        taken = self._find(generation)
        return taken is not None and 0 < taken.offset <= generation.file.stat().size

    def check_readable(self, places: Iterable[FileLocation]) -> None:
        """Raise `UnavailableError` if one of *places* has a position and can't be opened.

        It would be sent from its beginning once it can. A file that is gone is none of these.
        """
        for place in places:
            if place.key not in self._by_inode and place.name not in self._by_path:
                continue
            try:
                self._disk.open(place.name).close()
            except FileNotFoundError:
                continue
            except OSError as error:
                remedy = (
                    "another shipper had a position in it, and it can't be read "
                    f"({os_error_text(error)}): let the agent read it, or exclude it; else it "
                    "would be sent again from its beginning"
                )
                mistake = Mistake("", "", remedy)
                raise UnavailableError(printable_path(place.name), [mistake]) from error

    def apply_to(self, generation: Generation) -> bool:
        """Let an open file begin where the other shipper stopped; return whether it has a position.

        Not where the file is shorter: then it is another one. Raises OSError.
        """
        taken = self._find(generation)
        if taken is None or generation.first_line is None or generation.file is None:
            return False
        if not 0 < taken.offset <= generation.seen:
            return False
        start = find_last_line_end(generation, taken.offset)
        if start:
            generation.set_start(start)
        return bool(start)

    def find(
        self, key: FileKey, paths: Sequence[str], read_head: Callable[[int], bytes]
    ) -> TakenPosition | None:
        """Return the position in the file of this device and inode, which *paths* lead to.

        *read_head* returns up to so many first bytes of it. Raises OSError.
        """
        if (found := self._by_inode.get(key)) is not None:
            return found
        for size in self._fingerprint_sizes:
            head = read_head(size)
            if len(head) == size:
                digest = sha256(head).hexdigest()
                if (found := self._by_fingerprint.get((size, digest))) is not None:
                    return found
        return next((self._by_path[path] for path in paths if path in self._by_path), None)

    def _find(self, generation: Generation) -> TakenPosition | None:
        place = generation.place
        return self.find(place.key, (place.name, place.path), generation.read_head)
