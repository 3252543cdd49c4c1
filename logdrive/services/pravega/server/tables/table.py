"""The index of one table, in memory: the result of replaying its segment's entries."""

import asyncio
import contextlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from logdrive.services.pravega.server.tables.entries import HEAD, TableLogEntry
from logdrive.services.pravega.server.tables.errors import KeyNotThereError, KeyVersionError
from logdrive.wire.pravega.tables import ANY_VERSION, TableKey


class KeyTable:
    """The keys of a table, each with its last entry.

    It includes changes that are submitted and not durable: an answer from it may be sent only once
    `pending` is.
    """

    def __init__(self, key_length: int, start: int) -> None:
        # bytes of each key; 0 where that varies
        self.key_length = key_length
        # the offsets of the segment between which entries were applied, pending ones included
        self.start = self.position = start
        # the append submitted last
        self.pending: asyncio.Future[int] | None = None
        # true while a task compacts the log
        self.compacting = False
        # bytes of the log that are the last entry of a key
        self.live = 0
        self._entries: dict[bytes, TableLogEntry] = {}
        # the keys in their order, from the first listing on
        self._ordered: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, key: bytes) -> TableLogEntry:
        return self._entries[key]

    def get_entry(self, key: bytes) -> TableLogEntry | None:
        """Return the last entry of *key*; None where the key does not exist."""
        return self._entries.get(key)

    def keys(self) -> list[bytes]:
        """Return all keys, roughly in the order of their last changes."""
        return list(self._entries)

    def apply_entries(self, entries: Iterable[TableLogEntry]) -> None:
        """Apply the *entries* that follow at `position`."""
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

    def on_submitted(
        self, entries: Sequence[TableLogEntry], pending: "asyncio.Future[int]"
    ) -> None:
        """Apply *entries*, which were submitted at `position`; *pending* is done once durable."""
        self.pending = pending
        self.apply_entries(entries)

    def on_truncated(self, start: int) -> None:
        """Note that the log begins at *start* now; no entry of the index lies before that."""
        self.start = start

    @contextlib.contextmanager
    def mark_compacting(self) -> Iterator[None]:
        """Set `compacting` while the context is open."""
        self.compacting = True
        try:
            yield
        finally:
            self.compacting = False

    def _reorder(self, entry: TableLogEntry) -> None:
        assert self._ordered is not None
        if entry.removes:
            del self._ordered[bisect_left(self._ordered, entry.key)]
        else:
            insort(self._ordered, entry.key)

    def check_versions(self, keys: Iterable[TableKey]) -> None:
        """Compare the versions that *keys* expect with those in the table.

        Raises `KeyNotThereError`, `KeyVersionError`.
        """
        for key in keys:
            entry = self._entries.get(key.key)
            # a negative version expects the key not to exist
            if key.version == ANY_VERSION or (entry is None and key.version < 0):
                continue
            if entry is None:
                raise KeyNotThereError
            if entry.version != key.version:
                raise KeyVersionError

    def iter_page(
        self, after: bytes, low: bytes, high: bytes, *, count: int, size: int, values: bool
    ) -> Iterator[TableLogEntry]:
        """Yield the entries of the keys in [*low*, *high*] and above *after*, in the keys' order.

        b"" is no bound. It ends after *count* entries, or *size* bytes of keys and, if *values*, of
        values; but not before the first entry.
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
