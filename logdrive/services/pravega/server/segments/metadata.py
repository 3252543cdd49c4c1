"""Requests about a segment's state, attributes and policy.

See docs/protocols/pravega.md#messages.
"""

import asyncio
from collections.abc import Mapping
from uuid import UUID

from logdrive.services.pravega.server.segment_info import require_info
from logdrive.store.boundaries import boundary_from
from logdrive.store.engine import Store
from logdrive.store.index.index import SegmentInfo
from logdrive.wire.pravega.attributes import EVENTS, LOCATES_APPENDS, SCALE_RATE, SCALE_TYPE
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import (
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    LocateOffset,
    OffsetLocated,
    SegmentAttribute,
    SegmentAttributeUpdated,
    SegmentPolicyUpdated,
    StreamSegmentInfo,
    UpdateSegmentAttribute,
    UpdateSegmentPolicy,
)

MetadataRequest = (
    GetStreamSegmentInfo
    | GetSegmentAttribute
    | UpdateSegmentAttribute
    | UpdateSegmentPolicy
    | LocateOffset
)


async def answer_metadata_request(store: Store, request: MetadataRequest) -> Message:
    """Return the reply to *request*. Raises the store's errors."""
    match request:
        case GetStreamSegmentInfo(number, segment):
            return _info_message(number, segment, require_info(store, segment))
        case GetSegmentAttribute(number, segment, attribute):
            return SegmentAttribute(number, _attribute(store, segment, attribute))
        case UpdateSegmentAttribute(number, segment, attribute, value, expected):
            return SegmentAttributeUpdated(
                number, await store.update(segment, attribute, expected, value)
            )
        case UpdateSegmentPolicy(number, segment, rate, scale_type):
            policy = {SCALE_TYPE: scale_type, SCALE_RATE: rate}
            await store.room(*[0] * len(policy))  # for both to be submitted together
            await submit_policy(store, segment, policy)
            return SegmentPolicyUpdated(number, segment)
        case LocateOffset(number, segment, target):
            return OffsetLocated(number, segment, boundary_from(store, segment, target))


def _attribute(store: Store, segment: str, attribute: UUID) -> int:
    info = require_info(store, segment)
    if attribute == EVENTS:
        return info.events
    if attribute == LOCATES_APPENDS:
        return 1
    return store.attribute(segment, attribute)


def submit_policy(
    store: Store, segment: str, policy: Mapping[UUID, int]
) -> "asyncio.Future[list[bool]]":
    """Submit the attributes of *policy*; the future is done once they are durable.

    Raises the store's errors.
    """
    return asyncio.gather(
        *(store.update(segment, attribute, None, value) for attribute, value in policy.items())
    )


def _info_message(request_id: int, segment: str, info: SegmentInfo) -> StreamSegmentInfo:
    return StreamSegmentInfo(
        request_id,
        segment,
        exists=True,
        is_sealed=info.sealed,
        is_deleted=False,
        last_modified=info.modified_ms,
        write_offset=info.length,
        start_offset=info.start,
    )
