"""One table's index, in memory: its segment's entries replayed, and nothing else."""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

from logdrive.services.pravega.server.tables.entries import HEAD, TableLogEntry
from logdrive.services.pravega.server.tables.errors import KeyNotThereError, KeyVersionError
from logdrive.wire.pravega.tables import ANY_VERSION, TableKey


class KeyTable:
    """Keys and where their values stand in the segment, whose bytes [*start*, *position*) are taken
    in, pending ones too.

    *pending* is the append submitted last; what is answered from here is true once that is durable.
    """

    def __init__(self, key_length: int, start: int) -> None:
        self.key_length = key_length
        self.start = self.position = start
        self.pending: asyncio.Future[int] | None = None
        self.compacting = False
        self.live = 0
        """Bytes of the log that are still the last word on a key."""
        self._entries: dict[bytes, TableLogEntry] = {}
        self._ordered: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, key: bytes) -> TableLogEntry:
        return self._entries[key]

    def get_entry(self, key: bytes) -> TableLogEntry | None:
        """Return the last word on *key*."""
        return self._entries.get(key)

    def keys(self) -> list[bytes]:
        """Return all keys, those not changed for longest roughly first."""
        return list(self._entries)

    def apply_entries(self, entries: Iterable[TableLogEntry]) -> None:
        """Take in what follows at `position`."""
        for entry in entries:
            before = self._entries.get(entry.key)
            if before is not None:
                self.live -= before.length
            if not entry.removes:
                self._entries[entry.key] = entry
                self.live += entry.length
            elif before is not None:
                del self._entries[entry.key]
            if self._ordered is not None and (before is None) != entry.removes:
                self._reorder(entry)
            self.position = entry.offset + entry.length

    def _reorder(self, entry: TableLogEntry) -> None:
        assert self._ordered is not None
        if entry.removes:
            del self._ordered[bisect_left(self._ordered, entry.key)]
        else:
            insort(self._ordered, entry.key)

    def check_versions(self, keys: Iterable[TableKey]) -> None:
        """Compare the versions of those of *keys* that have one.

        Raises `KeyNotThereError`, `KeyVersionError`.
        """
        for key in keys:
            found = self._entries.get(key.key)
            if key.version == ANY_VERSION or (found is None and key.version < 0):
                continue
            if found is None:
                raise KeyNotThereError
            if found.version != key.version:
                raise KeyVersionError

    def iter_page(
        self, after: bytes, low: bytes, high: bytes, *, count: int, size: int, values: bool
    ) -> Iterator[TableLogEntry]:
        """Return the entries of the keys in [*low*, *high*] and above *after*, in their order; b""
        is no bound.

        Stops at *count*, or once there are *size* bytes; one at least is returned where there is
        one.
        """
        if self._ordered is None:
            self._ordered = sorted(self._entries)
        at = max(
            bisect_right(self._ordered, after) if after else 0, bisect_left(self._ordered, low)
        )
        end = bisect_right(self._ordered, high) if high else len(self._ordered)
        for key in self._ordered[at : min(end, at + max(count, 1))]:
            entry = self._entries[key]
            yield entry
            size -= entry.length if values else HEAD + len(key)
            if size <= 0:
                return
