"""Reads a stream's segments from the journal of the store's own controller.

For readers that are connected to the store's segment face only. They can't ask a controller: the
store may run without one, or be open in this process only to be read.
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

_ATTEMPTS: Final = 5  # to read the journal while it is being rewritten


async def segments_in_journal(client: SegmentClient, scope: str, stream: str) -> list[str] | None:
    """Return the full names of the segments that *stream* still has, of all epochs.

    Returns None if there is no journal or it does not have the stream. Raises `TransientError`, and
    `StorageError` if the journal is damaged.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await _read(client, scope, stream)
        except TruncatedOffsetError:
            continue  # it was rewritten and truncated meanwhile
    raise TransientError("the controller's journal is being rewritten all the time")


async def _read(client: SegmentClient, scope: str, stream: str) -> list[str] | None:
    info = await client.segment_info(SEGMENT)
    state = CatalogState()
    if info is None or info.start == info.length:
        return None
    async for put in _puts(client.read_range(SEGMENT, info.start, info.length), info.start):
        # the puts of other streams would only take memory
        if isinstance(put, StreamPut) and (put.scope, put.stream) == (scope, stream):
            state.apply_puts([put])
    place = state.stream_state(scope, stream)
    return (
        [segment_name(scope, stream, segment.id) for segment in place.stream.segments]
        if place is not None
        else None
    )


async def _puts(pieces: AsyncIterator[Part], offset: int) -> AsyncIterator[Put]:
    """Yield all puts in order; of *pieces* only an incomplete last record is kept in memory."""
    rest = b""
    async for piece in pieces:
        rest += piece
        changes, size = decode_records(rest, offset)
        rest, offset = rest[size:], offset + size
        for puts in changes:
            for put in puts:
                yield put
