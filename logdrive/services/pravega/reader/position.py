"""Positions of named readers, kept at the service as attributes of the segments.

Retention keeps what a reader has not read yet, if it is configured so (`logdrive.store.readers`).
"""

from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.store.errors import SegmentSealedError
from logdrive.store.readers import reader_key


async def reader_position(client: SegmentClient, segment: str, reader: str) -> int | None:
    """Return the offset up to which *reader* has read *segment*, None if it has set none."""
    position = await client.get_attribute(segment, reader_key(reader))
    return None if position == ABSENT else position


async def set_reader_position(
    client: SegmentClient, segment: str, reader: str, offset: int | None
) -> bool:
    """Set the position of *reader* in *segment* to *offset*; None removes it.

    Returns False if the segment is sealed and the service keeps no positions on it, like Pravega.
    """
    key, value = reader_key(reader), ABSENT if offset is None else offset
    try:
        while (before := await client.get_attribute(segment, key)) != value:
            if await client.update_attribute(segment, key, before, value):
                break
    except SegmentSealedError:
        return False
    return True


async def advance_reader_position(
    client: SegmentClient, segment: str, reader: str, offset: int
) -> int:
    """Raise the position of *reader* in *segment* to *offset*, and return its position then.

    A higher position stays. On a sealed segment nothing is set if the service, like Pravega, keeps
    no positions on it.
    """
    key = reader_key(reader)
    try:
        while (before := await client.get_attribute(segment, key)) < offset:
            if await client.update_attribute(segment, key, before, offset):
                return offset
    except SegmentSealedError:
        return offset
    return before
