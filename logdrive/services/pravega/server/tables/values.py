"""Reads values of a table from its segment.

Each value is one read, some 50 µs; other tasks run between every hundred.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from logdrive.services.pravega.server.tables.entries import TableLogEntry, decode_entries
from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.store.engine import Store
from logdrive.store.errors import SegmentTruncatedError

READS_A_TURN: Final = 100
"""Values read before other tasks run, some 5 ms."""


async def read_values(
    store: Store, segment: str, entries: Sequence[TableLogEntry], limits: TableLimits
) -> list[bytes] | None:
    """Return the values of *entries*, which are durable; None where one of them is gone.

    The table was compacted meanwhile then, or deleted and created anew: get its index once more.
    """
    values: list[bytes] = []
    for number, entry in enumerate(entries, 1):
        try:
            data = store.read(segment, entry.offset, entry.length)
            entries_read = decode_entries(data, entry.offset, longest=limits.entry, most=1)
        except (SegmentTruncatedError, ValueError):
            return None
        if entries_read != [entry]:
            return None
        values.append(data[entry.value_at - entry.offset :])
        if number % READS_A_TURN == 0:
            await asyncio.sleep(0)
    return values
