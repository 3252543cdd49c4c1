"""The values of a table, read from its segment.

Each is a read of its own, some 50 µs: who wants many lets others go on meanwhile.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from logdrive.services.pravega.server.tables.entries import TableLogEntry, decode_entries
from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.store.engine import Store
from logdrive.store.errors import SegmentTruncatedError

AT_ONCE: Final = 100


async def read_values(
    store: Store, segment: str, entries: Sequence[TableLogEntry], limits: TableLimits
) -> list[bytes] | None:
    """Return the values of *entries*, which are durable; None where one does not stand there any
    more.

    Then the table was compacted meanwhile, or it is another one of that name.
    """
    found: list[bytes] = []
    for number, entry in enumerate(entries, 1):
        try:
            data = store.read(segment, entry.offset, entry.length)
            there = decode_entries(data, entry.offset, longest=limits.entry, most=1)
        except (SegmentTruncatedError, ValueError):
            return None
        if there != [entry]:
            return None
        found.append(data[entry.value_at - entry.offset :])
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return found
