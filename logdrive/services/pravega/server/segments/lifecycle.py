"""Segments come, are sealed, cut, merged, and go (specification, section 3, as section 0 corrects
it).
"""

import contextlib

from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.server.segments.metadata import set_policy
from logdrive.services.pravega.server.segments.shared import Shared
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError, SegmentTruncatedError
from logdrive.wire.pravega.attributes import ROLLOVER, SCALE_RATE, SCALE_TYPE
from logdrive.wire.pravega.control import NoSuchSegment, SegmentAlreadyExists, SegmentIsTruncated
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

LifecycleRequest = (
    CreateSegment
    | CreateTransientSegment
    | SealSegment
    | TruncateSegment
    | DeleteSegment
    | MergeSegments
    | MergeSegmentsBatch
)


async def answer(shared: Shared, request: LifecycleRequest) -> Message:
    """Return the reply to *request*. Raises what the store does, and `HangUpError`."""
    store = shared.store
    match request:
        case CreateSegment():
            return await _create(shared, request)
        case CreateTransientSegment(number, writer, parent):
            return SegmentCreated(number, await shared.transients.create(writer, parent))
        case SealSegment(number, segment):
            await store.seal(segment)
            return SegmentSealed(number, segment)
        case TruncateSegment(number, segment, offset):
            try:
                await store.truncate(segment, offset)
            except NoSuchSegmentError:
                return NoSuchSegment(number, segment, "", offset)
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


async def _create(shared: Shared, request: CreateSegment) -> Message:
    """Create a segment with its policy, or give one that is there the part of it that nobody ever
    set.

    The log has an entry for the segment and one for each attribute. After a crash in between the
    client, who was told nothing, asks again: then the attributes come.
    """
    store, number, segment = shared.store, request.request_id, request.segment
    policy = {
        SCALE_TYPE: request.scale_type,
        SCALE_RATE: request.target_rate,
        ROLLOVER: request.rollover_size,
    }
    # for all to be submitted now: a second try would find the segment that the first one made
    await store.room(len(segment.encode()), *[0] * len(policy))
    created = store.create(segment)
    unset = {
        name: value
        for name, value in policy.items()
        if store.submitted_number(segment, name) == ABSENT
    }
    with contextlib.suppress(SegmentSealedError):  # it stays as it is
        await set_policy(store, segment, unset)
    if not await created:
        return SegmentAlreadyExists(number, segment)
    shared.merging.forget(segment)
    return SegmentCreated(number, segment)
