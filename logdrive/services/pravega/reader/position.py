"""How far a named reader has read a segment, kept at the service, where retention minds it
(`logdrive.store.readers`).
"""

from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.store.errors import SegmentSealedError
from logdrive.store.readers import reader_key


async def position(client: SegmentClient, segment: str, reader: str) -> int | None:
    """Return the offset up to which *reader* needs *segment* no more; None where it never said
    so.
    """
    found = await client.attribute(segment, reader_key(reader))
    return None if found == ABSENT else found


async def set_position(
    client: SegmentClient, segment: str, reader: str, offset: int | None
) -> bool:
    """Let *reader* need *segment* from *offset* on; None: as if it had never been heard of.

    False where the service keeps no positions on a sealed segment, as Pravega does not.
    """
    key, value = reader_key(reader), ABSENT if offset is None else offset
    try:
        while (before := await client.attribute(segment, key)) != value:
            if await client.update_attribute(segment, key, before, value):
                break
    except SegmentSealedError:
        return False
    return True


async def advance_position(client: SegmentClient, segment: str, reader: str, offset: int) -> int:
    """Let *reader* need *segment* from *offset* on, unless it is further already; returns the
    position that then holds.

    On a sealed segment of a service that keeps no positions there nothing is set.
    """
    key = reader_key(reader)
    try:
        while (before := await client.attribute(segment, key)) < offset:
            if await client.update_attribute(segment, key, before, offset):
                return offset
    except SegmentSealedError:
        return offset
    return before
