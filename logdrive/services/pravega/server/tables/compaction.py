"""Compaction of a table's log: live entries are appended again, everything before is truncated.

The entries keep their versions. A crash in between leaves the table as it was, with some entries in
the log twice.
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

_MAX_GROWTH: Final = 4
"""A log is compacted when it is this many times longer than its live entries.

So for each byte that compaction writes, clients wrote three.
"""


async def compact_table(store: Store, cache: TableCache, segment: str, limits: TableLimits) -> None:
    """Compact the log of the table *segment* if it is due.

    Errors are ignored: compaction is tried again, and the next request about the table reports what
    is wrong with it.
    """
    with contextlib.suppress(LogdriveError):
        table = await cache.get_table(segment)
        if not is_compaction_due(table, limits):
            return
        with table.mark_compacting():
            await _rewrite(store, cache, segment, table, limits)


def is_compaction_due(table: KeyTable, limits: TableLimits) -> bool:
    """Return whether the log of *table* is long and mostly dead, and not being compacted."""
    size = table.position - table.start
    return not table.compacting and size >= max(limits.compact_from, _MAX_GROWTH * table.live)


async def _rewrite(
    store: Store, cache: TableCache, segment: str, table: KeyTable, limits: TableLimits
) -> None:
    """Append the live entries before the present end again, page by page; then truncate there."""
    end = table.position
    await wait_until_durable(table.pending)
    keys = iter(table.keys())
    while cache.is_current(segment, table):
        moving = _next_page(table, keys, end, limits)
        if not moving:
            await store.truncate(segment, end)
            table.on_truncated(end)
            return
        read = await read_values(store, segment, moving, limits)
        if read is None or not cache.is_current(segment, table):
            return

        # clients may have changed some of them during the read
        still = [
            (entry, value)
            for entry, value in zip(moving, read, strict=True)
            if table.get_entry(entry.key) == entry
        ]
        changes = [TableChange(entry.key, value, entry.version) for entry, value in still]
        if changes:
            append_changes(store, segment, table, changes)
        await wait_until_durable(table.pending)


def _next_page(
    table: KeyTable, keys: Iterator[bytes], end: int, limits: TableLimits
) -> list[TableLogEntry]:
    """Return the next entries that begin before *end*, about `limits.page` bytes of them."""
    entries: list[TableLogEntry] = []
    size = 0
    for key in keys:
        entry = table.get_entry(key)
        if entry is not None and entry.offset < end:
            entries.append(entry)
            size += entry.length
            if size >= limits.page:
                break
    return entries
