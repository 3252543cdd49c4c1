"""A table's segment as a log of changes: reading it, and appending to it."""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from logdrive.services.pravega.server.segment_info import require_info
from logdrive.services.pravega.server.tables.entries import (
    TableChange,
    TableLogEntry,
    decode_entries,
    encode_entries,
)
from logdrive.services.pravega.server.tables.errors import NoEntryError
from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.services.pravega.server.tables.table import KeyTable
from logdrive.store.engine import Store
from logdrive.store.errors import NumberMismatchError, OffsetMismatchError

WRITER: Final = UUID("8c1f7f6e-5d0c-5c60-9a5e-7a1e5e9b7ab1")
"""The writer id of all appends to tables; its number is the log's length."""

_ENTRIES_A_TURN: Final = 1000
"""Entries loaded at once, some ms: then other tasks run."""


def read_log(store: Store, segment: str, start: int, end: int, limits: TableLimits) -> bytes:
    """Return durable bytes of *segment* from offset *start*, up to *end*: at least one entry."""
    return store.read(segment, start, min(limits.page + limits.entry, end - start))


def parse_entries(
    segment: str, data: bytes, base: int, at: int, *, most: int, limits: TableLimits
) -> list[TableLogEntry]:
    """Return up to *most* entries from index *at* of *data*, which begins at offset *base*.

    Raises `NoEntryError` for anything else than an entry.
    """
    try:
        entries = decode_entries(data, base, at, longest=limits.entry, most=most)
    except ValueError as error:
        raise NoEntryError(segment, base + at) from error
    if not entries and at == 0:
        raise NoEntryError(segment, base)
    return entries


async def load_table(store: Store, segment: str, key_length: int, limits: TableLimits) -> KeyTable:
    """Return the index of the table *segment*, with everything that is durable now.

    Other tasks run meanwhile, every few ms.
    """
    info = require_info(store, segment)
    table = KeyTable(key_length, info.start)
    while (base := table.position) < info.length:
        data = read_log(store, segment, base, info.length, limits)
        while entries := parse_entries(
            segment, data, base, table.position - base, most=_ENTRIES_A_TURN, limits=limits
        ):
            table.apply_entries(entries)
            await asyncio.sleep(0)
    return table


def append_changes(
    store: Store, segment: str, table: KeyTable, changes: Sequence[TableChange]
) -> list[TableLogEntry]:
    """Submit *changes* at the end of *table*, all or none, and apply them to it.

    They are durable once `table.pending` is done. Raises `OffsetMismatchError` where the log ends
    elsewhere.
    """
    parts, entries = encode_entries(changes, table.position)
    end = entries[-1].offset + entries[-1].length
    try:
        pending = store.append(
            segment,
            parts,
            writer=WRITER,
            expected=None,
            number=end,
            events=len(entries),
            expected_offset=table.position,
        )
    # the store compares the number first: it is where the log ends after the last change
    except NumberMismatchError as error:
        raise OffsetMismatchError(error.current) from error
    table.on_submitted(entries, pending)
    return entries


async def wait_until_durable(pending: "asyncio.Future[int] | None") -> None:
    """Return once the append *pending* is durable; raises its failure.

    Cancelling this does not cancel *pending*: others may wait for it, too.
    """
    if pending is not None:
        await asyncio.wait([pending])
        pending.result()
