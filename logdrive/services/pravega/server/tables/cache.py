"""Cache of table indexes, kept in memory while they are up to date and there is room."""

import asyncio
import contextlib
from collections import OrderedDict
from typing import Final

from logdrive.services.pravega.server.segment_info import require_info
from logdrive.services.pravega.server.tables.errors import NotATableError
from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.services.pravega.server.tables.log import (
    load_table,
    wait_until_durable,
)
from logdrive.services.pravega.server.tables.table import KeyTable
from logdrive.store.engine import Store
from logdrive.store.errors import SegmentTruncatedError
from logdrive.wire.pravega.attributes import TABLE

_CATCH_UP_SECONDS: Final = 1.0
"""Limit on the wait for what others appended to a table's segment."""


class TableCache:
    """The indexes of the tables used lately.

    An index is up to date if it covers exactly the segment's bytes, with those submitted here.
    """

    def __init__(self, store: Store, limits: TableLimits) -> None:
        self._store = store
        self._limits = limits
        # by segment, the one used least recently first
        self._tables: OrderedDict[str, KeyTable] = OrderedDict()
        # by segment; set once its index was loaded, or could not be
        self._loading: dict[str, asyncio.Event] = {}

    async def get_table(self, segment: str) -> KeyTable:
        """Return an up-to-date index of *segment*, loaded from it where there is none in memory.

        Raises `NoSuchSegmentError`, `NotATableError`.
        """
        while True:
            table = self._tables.get(segment)
            if table is not None and self._is_up_to_date(segment, table):
                self._tables.move_to_end(segment)
                return table
            if segment not in self._loading:
                # truncated by a compaction while it was read: load it once more
                with contextlib.suppress(SegmentTruncatedError):
                    await self._load(segment)
            else:
                await self._loading[segment].wait()

    def cached_table(self, segment: str) -> KeyTable | None:
        """Return the index of *segment* if it is in memory, up to date or not."""
        return self._tables.get(segment)

    def is_current(self, segment: str, table: KeyTable) -> bool:
        """Return whether *table* is still the index of *segment*, and up to date.

        Lengths alone don't tell: after a failed append a log may reach the same length again.
        """
        return self._tables.get(segment) is table and self._is_up_to_date(segment, table)

    def forget_table(self, segment: str) -> None:
        """Drop the index of *segment* from memory."""
        self._tables.pop(segment, None)

    async def drop_and_catch_up(self, segment: str, table: KeyTable, length: int) -> None:
        """Drop *table*, which does not end where the segment does, at *length*.

        Returns once what others appended is durable, so that the index can be loaded anew.
        """
        if self._tables.get(segment) is table:
            self.forget_table(segment)
        if length > table.position:
            await wait_until_durable(table.pending)
            await self._store.wait_for_data(segment, table.position, _CATCH_UP_SECONDS)

    def _is_up_to_date(self, segment: str, table: KeyTable) -> bool:
        # what was submitted shows only when it is durable; the store compares offsets then
        if table.pending is not None and not table.pending.done():
            return True
        info = self._store.info(segment)
        failed = table.pending is not None and table.pending.exception() is not None
        return (
            not failed
            and info is not None
            and (info.start, info.length) == (table.start, table.position)
        )

    async def _load(self, segment: str) -> None:
        done = self._loading[segment] = asyncio.Event()
        try:
            require_info(self._store, segment)
            kind = self._store.attribute(segment, TABLE)
            if not 0 < kind <= 1 + self._limits.fixed_key:
                raise NotATableError(segment)
            self._tables[segment] = await load_table(self._store, segment, kind - 1, self._limits)
        finally:
            del self._loading[segment]
            done.set()
        self._make_room()

    def _make_room(self) -> None:
        """Drop indexes, the least recently used first, while all together have too many keys."""
        keys = sum(len(table) for table in self._tables.values())
        for segment in list(self._tables)[:-1]:  # the last one is about to be used
            if keys <= self._limits.keys:
                return
            table = self._tables[segment]
            if table.pending is None or table.pending.done():
                keys -= len(table)
                del self._tables[segment]
