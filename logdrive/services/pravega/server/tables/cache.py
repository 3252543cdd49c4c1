"""Indexes of tables, kept in memory as long as they are right and there is room."""

import asyncio
import contextlib
from collections import OrderedDict
from typing import Final

from logdrive.services.pravega.server.tables.errors import NotATableError
from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.services.pravega.server.tables.log import info_of, load, settled
from logdrive.services.pravega.server.tables.table import KeyTable
from logdrive.store.engine import Store
from logdrive.store.errors import SegmentTruncatedError
from logdrive.wire.pravega.attributes import TABLE

_OTHERS_SECONDS: Final = 1.0


class KeptTables:
    """One index for each table used lately.

    It is right if the segment's bytes, with what was submitted here, are those taken in.
    """

    def __init__(self, store: Store, limits: TableLimits) -> None:
        self._store, self._limits = store, limits
        self._tables: OrderedDict[str, KeyTable] = OrderedDict()
        self._loading: dict[str, asyncio.Event] = {}

    async def table(self, segment: str) -> KeyTable:
        """Return the index of *segment*, read from it where there is no right one.

        Raises `NoSuchSegmentError`, `NotATableError`.
        """
        while True:
            table = self._tables.get(segment)
            if table is not None and self._is_right(segment, table):
                self._tables.move_to_end(segment)
                return table
            if segment not in self._loading:
                with contextlib.suppress(SegmentTruncatedError):  # while it was read: once more
                    await self._load(segment)
            else:
                await self._loading[segment].wait()

    def known(self, segment: str) -> KeyTable | None:
        """Return the index of *segment* that is in memory, right or not."""
        return self._tables.get(segment)

    def has(self, segment: str, table: KeyTable) -> bool:
        """Whether *table* is still the index of *segment*.

        A log may come to have the same length again after a failure.
        """
        return self._tables.get(segment) is table and self._is_right(segment, table)

    def forget(self, segment: str) -> None:
        """Let go of an index."""
        self._tables.pop(segment, None)

    async def caught_up(self, segment: str, table: KeyTable, length: int) -> None:
        """Let go of *table* where the segment was submitted up to *length* instead, once what
        others appended is durable.
        """
        if self._tables.get(segment) is table:
            self.forget(segment)
        if length > table.position:
            await settled(table.pending)
            await self._store.wait_for_data(segment, table.position, _OTHERS_SECONDS)

    def _is_right(self, segment: str, table: KeyTable) -> bool:
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
            info_of(self._store, segment)
            kind = self._store.attribute(segment, TABLE)
            if not 0 < kind <= 1 + self._limits.fixed_key:
                raise NotATableError(segment)
            self._tables[segment] = await load(self._store, segment, kind - 1, self._limits)
        finally:
            del self._loading[segment]
            done.set()
        self._make_room()

    def _make_room(self) -> None:
        """Let go of the tables not used for longest while all together have too many keys."""
        keys = sum(len(table) for table in self._tables.values())
        for segment in list(self._tables)[:-1]:
            if keys <= self._limits.keys:
                return
            table = self._tables[segment]
            if table.pending is None or table.pending.done():
                keys -= len(table)
                del self._tables[segment]
