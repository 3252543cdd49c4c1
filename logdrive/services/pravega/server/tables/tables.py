"""Table segments: maps from keys to values, where each key has a version.

A table is a segment with the attribute `TABLE`, so it is durable and recovered as any other. Its
bytes are a log of changes (`entries.py`); the changes of one request are one append, which the
engine stores whole or not at all. Its index (`table.py`) is the log replayed, at first use.

A change is compared with the index, which includes everything submitted before it, and appended on
the condition that the segment ends where the index does. If it does not (somebody else appended, or
an append failed), the index is loaded anew and the change tried again. An answer is sent only once
everything that it rests on is durable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.server.segment_info import require_info
from logdrive.services.pravega.server.tables.cache import TableCache
from logdrive.services.pravega.server.tables.compaction import compact_table, is_compaction_due
from logdrive.services.pravega.server.tables.entries import HEAD, TableChange, TableLogEntry
from logdrive.services.pravega.server.tables.errors import (
    FixedKeysError,
    TableError,
    TableNotEmptyError,
    TableOffsetError,
)
from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.services.pravega.server.tables.log import (
    append_changes,
    parse_entries,
    read_log,
    wait_until_durable,
)
from logdrive.services.pravega.server.tables.table import KeyTable
from logdrive.services.pravega.server.tables.values import read_values
from logdrive.store.engine import Store
from logdrive.store.errors import OffsetMismatchError
from logdrive.wire.pravega.attributes import TABLE
from logdrive.wire.pravega.tables import ANY_OFFSET, NOT_THERE, TableEntry, TableKey

_ATTEMPTS: Final = 100
"""Limit on the tries of one change while others append to the segment."""


class TableInfo(NamedTuple):
    """A table's state."""

    # the offsets between which its log is
    start: int
    length: int
    # number of keys
    keys: int
    # bytes of each key; 0 where that varies
    key_length: int


@dataclass(frozen=True, slots=True)
class Delta:
    """A part of a table's log: see `Tables.read_delta`."""

    # the keys changed there and not removed, with their newest values
    entries: list[TableEntry]
    # the log was truncated beyond the position asked for: what the client read before is void
    should_clear: bool
    # there is no more
    reached_end: bool
    # offset to go on from
    position: int


class Tables:
    """The tables of a store; their indexes are cached in memory.

    Besides the errors that each names, methods raise the store's errors, `NotATableError`, and
    ValueError for what exceeds the limits.
    """

    def __init__(self, store: Store, limits: TableLimits = TableLimits()) -> None:
        self._store = store
        self._limits = limits
        self._cache = TableCache(store, limits)

    # Lifecycle -----------------------------------------------------------------------------------

    async def create_table(self, segment: str, key_length: int = 0) -> bool:
        """Create a table; return False where the segment exists.

        *key_length* is the length of all its keys; 0: it varies. An existing segment that is empty
        and has no type becomes a table: a crash may have interrupted its creation.
        """
        if not 0 <= key_length <= self._limits.fixed_key:
            raise ValueError(
                f"a table's keys have up to {self._limits.fixed_key} bytes, not {key_length}"
            )
        if await self._store.create(segment):
            self.forget_index(segment)
        info = self._store.info(segment)
        if info is None or info.length or info.sealed:  # deleted meanwhile, or in use
            return False
        return await self._store.update(segment, TABLE, ABSENT, 1 + key_length)

    async def delete_table(self, segment: str, *, must_be_empty: bool) -> None:
        """Delete a table.

        With *must_be_empty*, raises `TableNotEmptyError` for a table that has keys, and
        `FixedKeysError` for one whose keys have one length.
        """
        table = await self._cache.get_table(segment)
        if must_be_empty and table.key_length:
            raise FixedKeysError(segment)
        if must_be_empty and len(table):
            await wait_until_durable(table.pending)
            raise TableNotEmptyError(segment)
        deleted = self._store.delete(segment)
        self.forget_index(segment)
        await deleted

    def forget_index(self, segment: str) -> None:
        """Drop a table's index from memory: its segment was deleted by other means."""
        self._cache.forget_table(segment)

    def is_compaction_due(self, segment: str) -> bool:
        """Return whether a table's log should be compacted; False where it is not in memory."""
        table = self._cache.cached_table(segment)
        return table is not None and is_compaction_due(table, self._limits)

    async def compact_table(self, segment: str) -> None:
        """Compact a table's log if it is due."""
        await compact_table(self._store, self._cache, segment, self._limits)

    # Changing ------------------------------------------------------------------------------------

    async def put_entries(
        self, segment: str, entries: Sequence[TableEntry], at: int = ANY_OFFSET
    ) -> list[int]:
        """Store all *entries* or none; return their new versions.

        Each key must have the version that it names, and the log must end at *at*. Raises
        `KeyNotThereError`, `KeyVersionError`, `TableOffsetError`.
        """
        written = await self._change(
            segment, [entry.key for entry in entries], [entry.value for entry in entries], at
        )
        return [entry.version for entry in written]

    async def remove_keys(
        self, segment: str, keys: Sequence[TableKey], at: int = ANY_OFFSET
    ) -> None:
        """Remove those of *keys* that exist, or none; conditions and errors as `put_entries`."""
        await self._change(segment, keys, None, at)

    async def _change(
        self, segment: str, keys: Sequence[TableKey], values: Sequence[bytes] | None, at: int
    ) -> list[TableLogEntry]:
        for _ in range(_ATTEMPTS):
            table = await self._cache.get_table(segment)
            changes = await self._checked_changes(table, keys, values, at)
            try:
                written = append_changes(self._store, segment, table, changes) if changes else []
            except OffsetMismatchError as error:
                await self._cache.drop_and_catch_up(segment, table, error.current)
                continue
            await wait_until_durable(table.pending)
            return written
        raise TransientError(f"table {segment!r} changes too often: try again")

    async def _checked_changes(
        self,
        table: KeyTable,
        keys: Sequence[TableKey],
        values: Sequence[bytes] | None,
        at: int,
    ) -> list[TableChange]:
        """Return the changes to write, if the conditions hold; *values* None removes the keys.

        It waits only before it raises, until what the decision rests on is durable. So nothing is
        submitted between the comparison and the append of the changes returned.
        """
        self._check(table, keys, values)
        try:
            table.check_versions(keys)
            if at not in (ANY_OFFSET, table.position):
                raise TableOffsetError(table.position)
        except TableError:
            await wait_until_durable(table.pending)
            raise
        if values is None:
            return [
                TableChange(key.key, None) for key in keys if table.get_entry(key.key) is not None
            ]
        return [TableChange(key.key, value) for key, value in zip(keys, values, strict=True)]

    def _check(
        self, table: KeyTable, keys: Sequence[TableKey], values: Sequence[bytes] | None
    ) -> None:
        """Raise ValueError for what exceeds the limits."""
        for key in keys:
            self._check_key(table, key.key)
        if values is None:
            return
        for key, value in zip(keys, values, strict=True):
            if (size := HEAD + len(key.key) + len(value)) > self._limits.entry:
                raise ValueError(
                    f"key and value have up to {self._limits.entry - HEAD} bytes, not {size - HEAD}"
                )
        if len(table) + sum(table.get_entry(key.key) is None for key in keys) > self._limits.keys:
            raise ValueError(f"a table has up to {self._limits.keys} keys")

    def _check_key(self, table: KeyTable, key: bytes) -> None:
        if not 1 <= len(key) <= self._limits.key:
            raise ValueError(f"a key has 1 to {self._limits.key} bytes, not {len(key)}")
        if table.key_length not in (0, len(key)):
            raise ValueError(f"this table's keys have {table.key_length} bytes, not {len(key)}")

    # Reading -------------------------------------------------------------------------------------

    async def table_info(self, segment: str) -> TableInfo:
        """Return a table's state."""
        table = await self._cache.get_table(segment)
        info = TableInfo(table.start, table.position, len(table), table.key_length)
        await wait_until_durable(table.pending)
        return info

    async def get_entries(self, segment: str, keys: Sequence[TableKey]) -> list[TableEntry]:
        """Return the entries of *keys*, in their order.

        For a key that does not exist the version is `NOT_THERE`, and the value b"".
        """
        while True:
            table = await self._cache.get_table(segment)
            matches = [(key.key, table.get_entry(key.key)) for key in keys]
            size = sum(
                len(key) + (entry.length if entry is not None else 0) for key, entry in matches
            )
            if size > self._limits.answer:
                raise ValueError(
                    f"{size} bytes asked for at once, of {self._limits.answer} allowed"
                )
            await wait_until_durable(table.pending)
            existing = await self._read(
                segment, [entry for _, entry in matches if entry is not None]
            )
            if existing is not None:
                following = iter(existing)
                return [
                    next(following)
                    if entry is not None
                    else TableEntry(TableKey(key, NOT_THERE), b"")
                    for key, entry in matches
                ]

    async def list_keys(
        self, segment: str, after: bytes, low: bytes, high: bytes, count: int
    ) -> list[TableKey]:
        """Return the next keys in [*low*, *high*] and above *after*, in order, up to *count*.

        b"" is no bound. There may be fewer; there are no more only if there is none.
        """
        return [
            TableKey(entry.key, entry.version)
            for entry in await self._page(segment, after, low, high, count, values=False)
        ]

    async def list_entries(
        self, segment: str, after: bytes, low: bytes, high: bytes, count: int
    ) -> list[TableEntry]:
        """Return keys as `list_keys` does, with their values."""
        while True:
            entries = await self._read(
                segment, await self._page(segment, after, low, high, count, values=True)
            )
            if entries is not None:
                return entries

    async def read_delta(self, segment: str, position: int, count: int) -> Delta:
        """Return the result of the next changes from offset *position* of the log, up to *count*.

        A key that was changed is there with the newest of these values, one that was removed is
        not. Raises `FixedKeysError`; `NoEntryError` where no entry begins at *position*; ValueError
        where that is not in the log.
        """
        if (await self._cache.get_table(segment)).key_length:
            raise FixedKeysError(segment)
        info = require_info(self._store, segment)
        if not 0 <= position <= info.length:
            raise ValueError(f"position {position} of a log of {info.length} bytes")
        start = max(position, info.start)
        latest: dict[bytes, TableEntry] = {}
        if (end := start) < info.length:
            data = read_log(self._store, segment, start, info.length, self._limits)
            for entry in parse_entries(
                segment, data, start, 0, most=max(count, 1), limits=self._limits
            ):
                end = entry.offset + entry.length
                latest.pop(entry.key, None)
                if not entry.removes:
                    latest[entry.key] = TableEntry(
                        TableKey(entry.key, entry.version),
                        data[entry.value_at - start : end - start],
                    )
        return Delta(list(latest.values()), position < info.start, end == info.length, end)

    async def _page(
        self, segment: str, after: bytes, low: bytes, high: bytes, count: int, *, values: bool
    ) -> list[TableLogEntry]:
        table = await self._cache.get_table(segment)
        page = list(
            table.iter_page(after, low, high, count=count, size=self._limits.page, values=values)
        )
        await wait_until_durable(table.pending)
        return page

    async def _read(
        self, segment: str, entries: Sequence[TableLogEntry]
    ) -> list[TableEntry] | None:
        """Return *entries* with their values; None where the index has to be loaded anew."""
        read = await read_values(self._store, segment, entries, self._limits)
        if read is None:
            self._cache.forget_table(segment)
            return None
        return [
            TableEntry(TableKey(entry.key, entry.version), value)
            for entry, value in zip(entries, read, strict=True)
        ]
