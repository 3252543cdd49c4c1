"""Answers requests other than appends and reads; converts the store's errors to replies.

See docs/protocols/pravega.md#messages.
"""

import asyncio
from typing import Final

from logdrive.errors import LogdriveError
from logdrive.services.pravega.server.segments import lifecycle, metadata, tables
from logdrive.services.pravega.server.segments.appending import HangUpError
from logdrive.services.pravega.server.segments.locating import locate_appends
from logdrive.services.pravega.server.segments.shared import SharedState
from logdrive.store.errors import NoSuchSegmentError, OverloadedError, SegmentSealedError
from logdrive.wire.pravega.control import (
    ILLEGAL_ARGUMENT,
    UNSPECIFIED,
    ErrorMessage,
    NoSuchSegment,
    SegmentIsSealed,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.own import LocateAppends
from logdrive.wire.pravega.segments import CreateTransientSegment, MergeSegments, MergeSegmentsBatch

Request = (
    metadata.MetadataRequest | lifecycle.LifecycleRequest | tables.TableRequest | LocateAppends
)

_TEXT_CHARACTERS: Final = 1000
"""Limit on the length of an error message."""


async def answer_request(shared: SharedState, request: Request) -> Message:
    """Return the reply to *request*; what it changed is durable then.

    Raises `HangUpError` where the protocol has no reply but to close the connection.
    """
    while True:
        try:
            return await _answer(shared, request)
        except OverloadedError as error:
            await shared.store.room(error.size)
        except NoSuchSegmentError as error:
            return NoSuchSegment(request.request_id, error.segment)
        except SegmentSealedError as error:
            return SegmentIsSealed(request.request_id, error.segment)
        except ValueError as error:
            return ErrorMessage(
                request.request_id,
                _main_segment(request),
                str(error)[:_TEXT_CHARACTERS],
                ILLEGAL_ARGUMENT,
            )
        except HangUpError:
            raise
        except LogdriveError as error:
            return ErrorMessage(
                request.request_id,
                _main_segment(request),
                str(error)[:_TEXT_CHARACTERS],
                UNSPECIFIED,
            )


async def _answer(shared: SharedState, request: Request) -> Message:
    if isinstance(request, metadata.MetadataRequest):
        return await metadata.answer_metadata_request(shared.store, request)
    if isinstance(request, lifecycle.LifecycleRequest):
        return await lifecycle.answer_lifecycle_request(shared, request)
    if isinstance(request, LocateAppends):
        time = asyncio.get_running_loop().time
        return locate_appends(shared.store, shared.files, request, time)
    return await tables.answer_table_request(shared.tables, request)


def _main_segment(request: Request) -> str:
    """Return the segment to name in an error message about *request*."""
    match request:
        case MergeSegments() | MergeSegmentsBatch():
            return request.target
        case CreateTransientSegment():
            return request.parent
        case _:
            return request.segment
