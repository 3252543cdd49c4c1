"""Segments come, are sealed, cut, merged, and go (specification, section 3, as section 0 corrects it)."""

from logdrive.store.errors import SegmentTruncatedError
from logdrive.store.pravega.shared import Shared
from logdrive.wire.pravega.control import SegmentAlreadyExists, SegmentIsTruncated
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import (
    CreateSegment,
    CreateTransientSegment,
    DeleteSegment,
    MergeSegments,
    MergeSegmentsBatch,
    SealSegment,
    SegmentCreated,
    SegmentDeleted,
    SegmentSealed,
    SegmentTruncated,
    TruncateSegment,
)

Request = CreateSegment | CreateTransientSegment | SealSegment | TruncateSegment | DeleteSegment | MergeSegments | MergeSegmentsBatch


async def answer(shared: Shared, request: Request) -> Message:
    """Return the reply to *request*. Raises what the store does, and `HangUpError`."""
    store = shared.store
    match request:
        case CreateSegment(number, segment):
            if not await store.create(segment):
                return SegmentAlreadyExists(number, segment)
            shared.merging.forget(segment)
            return SegmentCreated(number, segment)
        case CreateTransientSegment(number, writer, parent):
            return SegmentCreated(number, await shared.transients.create(writer, parent))
        case SealSegment(number, segment):
            await store.seal(segment)
            return SegmentSealed(number, segment)
        case TruncateSegment(number, segment, offset):
            try:
                await store.truncate(segment, offset)
            except SegmentTruncatedError as error:
                return SegmentIsTruncated(number, segment, error.start, "", offset)
            return SegmentTruncated(number, segment)
        case DeleteSegment(number, segment):
            deleted = store.delete(segment)
            shared.tables.forget(segment)
            shared.merging.forget(segment)
            await deleted
            return SegmentDeleted(number, segment)
        case MergeSegments():
            return await shared.merging.merge(request)
        case MergeSegmentsBatch():
            return await shared.merging.merge_all(request)
