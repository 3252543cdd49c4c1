"""Tables spoken of by hand."""

from logdrive.wire.pravega.segments import SegmentCreated
from logdrive.wire.pravega.tables import (
    ANY_VERSION,
    CreateTableSegment,
    ReadTableEntries,
    RemoveTableKeys,
    TableEntriesRead,
    TableEntriesUpdated,
    TableEntry,
    TableKey,
    UpdateTableEntries,
)
from tests.support.pravega.peer import Peer, World

T = "logs/g_kvtable/0.#epoch.0"


def entry(key: bytes, value: bytes, version: int = ANY_VERSION) -> TableEntry:
    """Return an entry."""
    return TableEntry(TableKey(key, version), value)


def put(*entries: TableEntry, at: int = -1, request: int = 7) -> UpdateTableEntries:
    """Return the request that puts *entries*."""
    return UpdateTableEntries(request, T, "", entries, at)


def remove(*keys: TableKey, at: int = -1) -> RemoveTableKeys:
    """Return the request that removes *keys*."""
    return RemoveTableKeys(8, T, "", keys, at)


async def table(made: World, key_length: int = 0) -> Peer:
    """Create the table and return a connection."""
    peer = await made.peer()
    assert await peer.ask(CreateTableSegment(1, T, "", False, key_length)) == SegmentCreated(1, T)
    return peer


async def versions(peer: Peer, *entries: TableEntry) -> tuple[int, ...]:
    """Put *entries* and return their versions."""
    answer = await peer.ask(put(*entries))
    assert isinstance(answer, TableEntriesUpdated)
    return answer.versions


async def content(peer: Peer) -> dict[bytes, bytes]:
    """Return all that the table holds, in order."""
    answer = await peer.ask(ReadTableEntries(9, T, "", 1000))
    assert isinstance(answer, TableEntriesRead)
    return {entry.key.key: entry.value for entry in answer.entries}
