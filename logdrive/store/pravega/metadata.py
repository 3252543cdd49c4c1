"""What a segment is, its attributes, creation and sealing (specification, section 3, as section 0 corrects it)."""

from logdrive.errors import LogdriveError
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError, OverloadedError, SegmentSealedError
from logdrive.wire.pravega.control import ILLEGAL_ARGUMENT, UNSPECIFIED, ErrorMessage, NoSuchSegment, SegmentAlreadyExists, SegmentIsSealed
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import (
    CreateSegment,
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    SealSegment,
    SegmentAttribute,
    SegmentAttributeUpdated,
    SegmentCreated,
    SegmentSealed,
    StreamSegmentInfo,
    UpdateSegmentAttribute,
)

Request = GetStreamSegmentInfo | CreateSegment | SealSegment | GetSegmentAttribute | UpdateSegmentAttribute


async def answer(store: Store, request: Request) -> Message:
    """Return the reply to *request*; what it changed is durable then."""
    while True:
        try:
            return await _answer(store, request)
        except OverloadedError:
            await store.room()
        except NoSuchSegmentError:
            return NoSuchSegment(request.request_id, request.segment)
        except SegmentSealedError:
            return SegmentIsSealed(request.request_id, request.segment)
        except ValueError as error:
            return ErrorMessage(request.request_id, request.segment, str(error), ILLEGAL_ARGUMENT)
        except LogdriveError as error:
            return ErrorMessage(request.request_id, request.segment, str(error), UNSPECIFIED)


async def _answer(store: Store, request: Request) -> Message:
    match request:
        case GetStreamSegmentInfo(number, segment):
            return _described(store, number, segment)
        case CreateSegment(number, segment):
            created = await store.create(segment)
            return SegmentCreated(number, segment) if created else SegmentAlreadyExists(number, segment)
        case SealSegment(number, segment):
            await store.seal(segment)
            return SegmentSealed(number, segment)
        case GetSegmentAttribute(number, segment, attribute):
            return SegmentAttribute(number, store.attribute(segment, attribute))
        case UpdateSegmentAttribute(number, segment, attribute, value, expected):
            return SegmentAttributeUpdated(number, await store.update(segment, attribute, expected, value))


def _described(store: Store, request_id: int, segment: str) -> Message:
    info = store.info(segment)
    if info is None:
        return NoSuchSegment(request_id, segment)
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
