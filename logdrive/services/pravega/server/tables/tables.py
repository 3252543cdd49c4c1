"""Table segments: maps from keys to values, each key with a version, durable and recovered as the
segments that they are.

A table is a segment with the attribute `TABLE`. Its bytes are changes (`entries`), a batch of them
being one append, which the engine stores whole or not at all; its index (`table`) is those changes
replayed, at first use. A change is compared with all that was submitted before it and appended on
condition that the segment still ends where the index does, so the engine has the last word: whoever
else appended, whatever failed, the index is read anew. What is answered is durable by then.
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


class TableInfo(NamedTuple):
    """A table: the bytes of its log, how many keys it has, and their length, 0 where that
    varies.
    """

    start: int
    length: int
    keys: int
    key_length: int


@dataclass(frozen=True, slots=True)
class Delta:
    """What changes left: see `Tables.delta`."""

    entries: list[TableEntry]
    should_clear: bool
    reached_end: bool
    position: int


class Tables:
    """The tables of a store, their indexes kept in memory while they are used and there is room.

    Beside what each names, methods raise what the store's do, `NotATableError`, and ValueError for
    what goes beyond the limits.
    """

    def __init__(self, store: Store, limits: TableLimits = TableLimits()) -> None:
        self._store, self._limits = store, limits
        self._kept = TableCache(store, limits)

    # Life ----------------------------------------------------------------------------------------

    async def create_table(self, segment: str, key_length: int = 0) -> bool:
        """Make a table, of keys of one length unless that is 0; False where the segment exists.

        A segment that is empty and nothing else yet becomes one: it may be all that a crash left of
        such a creation.
        """
        if not 0 <= key_length <= self._limits.fixed_key:
            raise ValueError(
                f"a table's keys have up to {self._limits.fixed_key} bytes, not {key_length}"
            )
        if await self._store.create(segment):
            self.forget_index(segment)
        info = self._store.info(segment)
        if info is None or info.length or info.sealed:
            return False
        return await self._store.update(segment, TABLE, ABSENT, 1 + key_length)

    async def delete_table(self, segment: str, *, must_be_empty: bool) -> None:
        """Remove a table.

        Raises `FixedKeysError` for one that must be empty and whose keys have one length,
        `TableNotEmptyError`.
        """
        table = await self._kept.get_table(segment)
        if must_be_empty and table.key_length:
            raise FixedKeysError(segment)
        if must_be_empty and len(table):
            await wait_until_durable(table.pending)
            raise TableNotEmptyError(segment)
        deleted = self._store.delete(segment)
        self.forget_index(segment)
        await deleted

    def forget_index(self, segment: str) -> None:
        """Let go of a table's index, because the segment was deleted otherwise; it is read anew
        when it is needed.
        """
        self._kept.forget_table(segment)

    def is_compaction_due(self, segment: str) -> bool:
        """Tell whether most of a table's log is dead, as far as is known without reading it, and
        nobody is shortening it.
        """
        table = self._kept.cached_table(segment)
        return table is not None and is_compaction_due(table, self._limits)

    async def compact_table(self, segment: str) -> None:
        """Shorten a table's log where most of it is dead."""
        await compact_table(self._store, self._kept, segment, self._limits)

    # Changing ------------------------------------------------------------------------------------

    async def put_entries(
        self, segment: str, entries: Sequence[TableEntry], at: int = ANY_OFFSET
    ) -> list[int]:
        """Set all of *entries* and return their versions, or none: if a key is not at the version
        it names, or the log not at *at*.

        Raises `KeyNotThereError`, `KeyVersionError`, `TableOffsetError`.
        """
        written = await self._change(
            segment, [entry.key for entry in entries], [entry.value for entry in entries], at
        )
        return [entry.version for entry in written]

    async def remove_keys(
        self, segment: str, keys: Sequence[TableKey], at: int = ANY_OFFSET
    ) -> None:
        """Remove all of *keys* that are there, or none: as `put_entries`."""
        await self._change(segment, keys, None, at)

    async def _change(
        self, segment: str, keys: Sequence[TableKey], values: Sequence[bytes] | None, at: int
    ) -> list[TableLogEntry]:
        for _ in range(_ATTEMPTS):
            table = await self._kept.get_table(segment)
            changes = await self._compared(table, keys, values, at)
            try:
                written = append_changes(self._store, segment, table, changes) if changes else []
            except OffsetMismatchError as error:
                await self._kept.drop_and_catch_up(segment, table, error.current)
                continue
            await wait_until_durable(table.pending)
            return written
        raise TransientError(f"others change table {segment!r} all the time")

    async def _compared(
        self,
        table: KeyTable,
        keys: Sequence[TableKey],
        values: Sequence[bytes] | None,
        at: int,
    ) -> list[TableChange]:
        """Return what is to be written; waits only before it refuses, until what it was compared
        with is durable.
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
        """Raise ValueError for what goes beyond the limits."""
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

    # Asking --------------------------------------------------------------------------------------

    async def table_info(self, segment: str) -> TableInfo:
        """Return what a table is like."""
        table = await self._kept.get_table(segment)
        found = TableInfo(table.start, table.position, len(table), table.key_length)
        await wait_until_durable(table.pending)
        return found

    async def get_entries(self, segment: str, keys: Sequence[TableKey]) -> list[TableEntry]:
        """Return the entries of *keys* in their order; one that is not there is at `NOT_THERE` and
        has b"".
        """
        while True:
            table = await self._kept.get_table(segment)
            found = [(key.key, table.get_entry(key.key)) for key in keys]
            size = sum(
                len(key) + (entry.length if entry is not None else 0) for key, entry in found
            )
            if size > self._limits.answer:
                raise ValueError(
                    f"{size} bytes asked for at once, of {self._limits.answer} allowed"
                )
            await wait_until_durable(table.pending)
            there = await self._read(segment, [entry for _, entry in found if entry is not None])
            if there is not None:
                following = iter(there)
                return [
                    next(following)
                    if entry is not None
                    else TableEntry(TableKey(key, NOT_THERE), b"")
                    for key, entry in found
                ]

    async def list_keys(
        self, segment: str, after: bytes, low: bytes, high: bytes, count: int
    ) -> list[TableKey]:
        """Return about *count* keys in [*low*, *high*] and above *after*, in their order; b"" is no
        bound. None: there are no more.
        """
        return [
            TableKey(entry.key, entry.version)
            for entry in await self._page(segment, after, low, high, count, values=False)
        ]

    async def list_entries(
        self, segment: str, after: bytes, low: bytes, high: bytes, count: int
    ) -> list[TableEntry]:
        """Return the same with their values."""
        while True:
            found = await self._read(
                segment, await self._page(segment, after, low, high, count, values=True)
            )
            if found is not None:
                return found

    async def read_delta(self, segment: str, position: int, count: int) -> Delta:
        """Return what about *count* changes from *position* of the log have left, and where to go
        on.

        A key stands there with its newest value among them, or not at all where it was removed.
        *should_clear*: the log begins only behind *position* now, so what was read before is void.
        Raises `FixedKeysError`, `NoEntryError` where no entry begins at *position*, ValueError
        where that is not in the log.
        """
        if (await self._kept.get_table(segment)).key_length:
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
        table = await self._kept.get_table(segment)
        found = list(
            table.iter_page(after, low, high, count=count, size=self._limits.page, values=values)
        )
        await wait_until_durable(table.pending)
        return found

    async def _read(
        self, segment: str, entries: Sequence[TableLogEntry]
    ) -> list[TableEntry] | None:
        """Return *entries* with their values; None where they have to be looked for anew."""
        found = await read_values(self._store, segment, entries, self._limits)
        if found is None:
            self._kept.forget_table(segment)
            return None
        return [
            TableEntry(TableKey(entry.key, entry.version), value)
            for entry, value in zip(entries, found, strict=True)
        ]
