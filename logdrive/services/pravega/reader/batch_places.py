"""Finds a place in a segment where a batch begins, near any offset, by a store's index of appends.

A receiver appends a batch at once. So an append that is exactly one header and its records is a
batch, whatever stands before it; a walk from the segment's start is not needed to know it.
"""

from typing import Final

from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.model.batch_walker import BatchRef, BatchWalker
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import HEADER_BYTES
from logdrive.model.units import KIB, MIB
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.errors import TokenError
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES

# bytes of each append to ask for: enough for most headers, and for all
_HEADS: Final = (1 * KIB, EVENT_HEAD + HEADER_BYTES)
_WITHIN: Final = 2 * MIB  # a range that holds the beginning of a batch, and a whole one


async def find_batch(client: SegmentClient, segment: str, offset: int, end: int) -> BatchRef | None:
    """Return a batch that begins at *offset* or soon after it, and ends before *end*.

    None if the service does not tell where appends begin, or no append there is one batch. Raises
    `TransientError`, `TokenError`.
    """
    try:
        if not await client.locates_appends(segment):
            return None
        for head_bytes in _HEADS:
            located = await client.locate_appends(
                segment, offset, min(offset + _WITHIN, end), head_bytes
            )
            for extent, head in zip(located.extents, located.heads, strict=True):
                if extent.offset < offset:  # the head of an append that began before
                    continue
                batch = _header_in(segment, extent.offset, head)
                if batch is not None and batch.next == extent.offset + extent.length <= end:
                    return batch
    except (TransientError, TokenError):
        raise
    except LogdriveError:  # a walk over the headers says why
        pass
    return None


def _header_in(segment: str, offset: int, head: bytes) -> BatchRef | None:
    walker = BatchWalker(segment, offset, max_event=PRAVEGA_FRAME_BYTES)
    walker.receive_data(head, offset)
    try:
        batch = walker.next_header()
    except StorageError:
        return None
    return None if batch is None or batch.header is None else batch
