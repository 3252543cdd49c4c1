"""Which segments a stream has, for readers who know only the face of a store: the controller's
journal, which they may read, says it.

A controller is not asked: the store may have none running, or be open in this process only to be
read.
"""

from collections.abc import AsyncIterator
from typing import Final

from logdrive.errors import TransientError
from logdrive.model.framing import Part
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.errors import TruncatedOffsetError
from logdrive.store.streams.journal import SEGMENT, decode_records
from logdrive.store.streams.state import CatalogState, Put, StreamPut
from logdrive.wire.pravega.names import segment_name

_ATTEMPTS: Final = 5


async def named_segments(client: SegmentClient, scope: str, stream: str) -> list[str] | None:
    """Return the full names of the segments that *stream* still has, of all epochs; None where no
    journal knows of it.

    Raises `TransientError`, and `StorageError` where the journal is unreadable.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await _read(client, scope, stream)
        except TruncatedOffsetError:
            continue  # it was written anew meanwhile
    raise TransientError("the controller's journal is written anew all the time")


async def _read(client: SegmentClient, scope: str, stream: str) -> list[str] | None:
    info = await client.segment_info(SEGMENT)
    state = CatalogState()
    if info is None or info.start == info.length:
        return None
    async for put in _puts(client.read_range(SEGMENT, info.start, info.length), info.start):
        if isinstance(put, StreamPut) and (put.scope, put.stream) == (scope, stream):
            state.apply_puts([put])
    place = state.stream_state(scope, stream)
    return (
        [segment_name(scope, stream, segment.id) for segment in place.stream.segments]
        if place is not None
        else None
    )


async def _puts(pieces: AsyncIterator[Part], offset: int) -> AsyncIterator[Put]:
    """Yield all puts in order; no more is kept of *pieces* than the record that is not whole
    yet.
    """
    rest = b""
    async for piece in pieces:
        rest += piece
        changes, size = decode_records(rest, offset)
        rest, offset = rest[size:], offset + size
        for change in changes:
            for put in change.puts:
                yield put
