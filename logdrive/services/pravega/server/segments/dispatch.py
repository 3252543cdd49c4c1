"""Requests that are answered where they stand, and how the store's refusals are told
(specification, sections 3, 5 and 0).
"""

from typing import Final

from logdrive.errors import LogdriveError
from logdrive.services.pravega.server.segments import lifecycle, metadata
from logdrive.services.pravega.server.segments import tables as tabular
from logdrive.services.pravega.server.segments.appending import HangUpError
from logdrive.services.pravega.server.segments.shared import Shared
from logdrive.store.errors import NoSuchSegmentError, OverloadedError, SegmentSealedError
from logdrive.wire.pravega.control import (
    ILLEGAL_ARGUMENT,
    UNSPECIFIED,
    ErrorMessage,
    NoSuchSegment,
    SegmentIsSealed,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import CreateTransientSegment, MergeSegments, MergeSegmentsBatch

Request = metadata.MetadataRequest | lifecycle.LifecycleRequest | tabular.TableRequest

_TEXT: Final = 1000


async def answer(shared: Shared, request: Request) -> Message:
    """Return the reply to *request*; what it changed is durable then.

    Raises `HangUpError` where there is none but the end.
    """
    while True:
        try:
            return await _answered(shared, request)
        except OverloadedError as error:
            await shared.store.room(error.size)
        except NoSuchSegmentError as error:
            return NoSuchSegment(request.request_id, error.segment)
        except SegmentSealedError as error:
            return SegmentIsSealed(request.request_id, error.segment)
        except ValueError as error:
            return ErrorMessage(
                request.request_id, _segment(request), str(error)[:_TEXT], ILLEGAL_ARGUMENT
            )
        except HangUpError:
            raise
        except LogdriveError as error:
            return ErrorMessage(
                request.request_id, _segment(request), str(error)[:_TEXT], UNSPECIFIED
            )


async def _answered(shared: Shared, request: Request) -> Message:
    if isinstance(request, metadata.MetadataRequest):
        return await metadata.answer(shared.store, request)
    if isinstance(request, lifecycle.LifecycleRequest):
        return await lifecycle.answer(shared, request)
    return await tabular.answer(shared.tables, request)


def _segment(request: Request) -> str:
    match request:
        case MergeSegments() | MergeSegmentsBatch():
            return request.target
        case CreateTransientSegment():
            return request.parent
        case _:
            return request.segment
