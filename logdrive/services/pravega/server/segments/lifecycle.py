"""Requests that create, seal, truncate, merge and delete segments.

See docs/protocols/pravega.md#segment-lifecycle.
"""

import contextlib

from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.server.segments.metadata import submit_policy
from logdrive.services.pravega.server.segments.shared import SharedState
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


async def answer_lifecycle_request(shared: SharedState, request: LifecycleRequest) -> Message:
    """Return the reply to *request*. Raises the store's errors, and `HangUpError`."""
    store = shared.store
    match request:
        case CreateSegment():
            return await _create(shared, request)
        case CreateTransientSegment(number, writer, parent):
            return SegmentCreated(number, await shared.transients.create_transient(writer, parent))
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
            # it is submitted: what is remembered of the name is about another segment from now on
            shared.tables.forget_index(segment)
            shared.merger.forget_merged(segment)
            await deleted
            return SegmentDeleted(number, segment)
        case MergeSegments():
            return await shared.merger.merge_one(request)
        case MergeSegmentsBatch():
            return await shared.merger.merge_batch(request)


async def _create(shared: SharedState, request: CreateSegment) -> Message:
    """Create a segment with its policy; for an existing one, set the attributes that it lacks.

    The segment and each attribute are entries of their own in the log. After a crash in between,
    the client, which had no answer, asks again: then the missing attributes are set.
    """
    store, number, segment = shared.store, request.request_id, request.segment
    policy = {
        SCALE_TYPE: request.scale_type,
        SCALE_RATE: request.target_rate,
        ROLLOVER: request.rollover_size,
    }
    # so that nothing below is refused for lack of room: a retry would find the segment created
    await store.room(len(segment.encode()), *[0] * len(policy))
    created = store.create(segment)
    unset = {
        name: value
        for name, value in policy.items()
        if store.submitted_number(segment, name) == ABSENT
    }
    with contextlib.suppress(SegmentSealedError):  # an existing one keeps what it has
        await submit_policy(store, segment, unset)
    if not await created:
        return SegmentAlreadyExists(number, segment)
    # a merge of this name was of an earlier segment
    shared.merger.forget_merged(segment)
    return SegmentCreated(number, segment)
