"""Shortening a table's log: what is still the last word is written again at its end, under its old
version, and all before is cut.

A crash in between leaves the table as it was, some of it twice.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from logdrive.errors import LogdriveError
from logdrive.services.pravega.server.tables.cache import TableCache
from logdrive.services.pravega.server.tables.entries import TableChange, TableLogEntry
from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.services.pravega.server.tables.log import append_changes, wait_until_durable
from logdrive.services.pravega.server.tables.table import KeyTable
from logdrive.services.pravega.server.tables.values import read_values
from logdrive.store.engine import Store

_DEAD: Final = 4
"""How many times longer than what lives a log becomes: for each byte written so, three were written
by clients.
"""


async def compact_table(store: Store, kept: TableCache, segment: str, limits: TableLimits) -> None:
    """Shorten *segment*'s log where it is long and mostly dead.

    It is left for another time where the store has no room for that.
    """
    with contextlib.suppress(LogdriveError):  # whoever uses the table next is told
        table = await kept.get_table(segment)
        if not is_compaction_due(table, limits):
            return
        table.compacting = True
        try:
            await _rewrite(store, kept, segment, table, limits)
        finally:
            table.compacting = False


def is_compaction_due(table: KeyTable, limits: TableLimits) -> bool:
    """Tell whether the log of *table* is long and mostly dead, and nobody is shortening it."""
    size = table.position - table.start
    return not table.compacting and size >= max(limits.compact_from, _DEAD * table.live)


async def _rewrite(
    store: Store, kept: TableCache, segment: str, table: KeyTable, limits: TableLimits
) -> None:
    end = table.position
    await wait_until_durable(table.pending)
    keys = iter(table.keys())
    while kept.is_current(segment, table):
        moving = _next(table, keys, end, limits)
        if not moving:
            await store.truncate(segment, end)
            table.start = end
            return
        read = await read_values(store, segment, moving, limits)
        if read is None or not kept.is_current(segment, table):
            return
        still = [
            (entry, value)
            for entry, value in zip(moving, read, strict=True)
            if table.get_entry(entry.key) == entry
        ]
        changes = [TableChange(entry.key, value, entry.version) for entry, value in still]
        if changes:
            append_changes(store, segment, table, changes)
        await wait_until_durable(table.pending)


def _next(
    table: KeyTable, keys: Iterator[bytes], end: int, limits: TableLimits
) -> list[TableLogEntry]:
    """Return so many of the next entries that stand before *end* as make a page."""
    found: list[TableLogEntry] = []
    size = 0
    for key in keys:
        entry = table.get_entry(key)
        if entry is not None and entry.offset < end:
            found.append(entry)
            size += entry.length
            if size >= limits.page:
                break
    return found
