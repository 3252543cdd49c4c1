"""How many rows of each source files have, as earlier audits have counted them.

In one sealed file, `bronze/audit-counts`, for the files of all tables of a directory.
"""

import os
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from logdrive.host.disk import Disk
from logdrive.pipeline.audit.sealed_file import FileKey, key_of_file, read_sealed, write_sealed

_NAME = "audit-counts"
_KIND: Final = "counts 1"
"""Count it up with any change of what is kept, or of how it is counted."""

SourceCounts = Counter[str | None]
"""Rows by source; None is the source of rows without one."""


class _KeptCount(msgspec.Struct, frozen=True, array_like=True):
    name: str
    size: int
    modified_ns: int
    rows: dict[str, int]
    nameless: int  # rows without a source


class KnownCounts:
    """Counts rows of files in *directory*, each file once: by *count*, if it is not known yet."""

    def __init__(
        self,
        directory: str,
        disk: Disk,
        count: Callable[[str], SourceCounts],
        *,
        full: bool = False,
    ) -> None:
        self._directory = os.path.abspath(directory)
        self._path = os.path.join(self._directory, "bronze", _NAME)
        self._disk = disk
        self._count = count
        self._known = {} if full else self._load()
        self._met: dict[FileKey, SourceCounts] = {}

    def count_rows(self, path: str) -> SourceCounts:
        """Return how many rows of each source the file at *path* has; raises as *count* does."""
        try:
            key = key_of_file(self._disk, path, self._directory)
        except OSError:
            return self._count(path)  # which says what is wrong
        if key not in self._met:
            self._met[key] = self._known[key] if key in self._known else self._count(path)
        return self._met[key]

    def keep_counts(self) -> None:
        """Let a later audit know what was counted. Raises OSError; it then counts again."""
        if self._met.keys() == self._known.keys():
            return
        kept = [
            _KeptCount(
                *key, {name: count for name, count in rows.items() if name is not None}, rows[None]
            )
            for key, rows in self._met.items()
        ]
        write_sealed(self._disk, self._path, _KIND, msgspec.msgpack.encode(kept))

    def _load(self) -> dict[FileKey, SourceCounts]:
        body = read_sealed(self._disk, self._path, _KIND)
        try:
            kept = msgspec.msgpack.decode(body, type=list[_KeptCount]) if body else []
        except msgspec.MsgspecError:
            return {}
        return {
            FileKey(one.name, one.size, one.modified_ns): _rows(one.rows, one.nameless)
            for one in kept
        }


def _rows(rows: dict[str, int], nameless: int) -> SourceCounts:
    found: SourceCounts = Counter(rows)
    if nameless:
        found[None] = nameless
    return found
