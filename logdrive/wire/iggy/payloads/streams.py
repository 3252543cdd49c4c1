"""Layouts of streams: requests 200 to 205 and their replies."""

from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.errors import Reason
from logdrive.wire.iggy.payloads.fields import TEXT8, U32, U64, to_end
from logdrive.wire.iggy.payloads.naming import IDENTIFIER, chosen_id, new_name
from logdrive.wire.iggy.payloads.options import NO_GIVEN_OPTIONS, NO_TOLD_OPTIONS
from logdrive.wire.iggy.payloads.shapes import Shape, at
from logdrive.wire.iggy.payloads.topics import TOPIC
from logdrive.wire.iggy.replies import IggyStreamInfo, StreamDetails
from logdrive.wire.iggy.revision import Revision

_NAME: Final = at("name", new_name(Reason.INVALID_STREAM_NAME))
_STREAM: Final = at("stream", IDENTIFIER)
_OPTIONS: Final = at(None, NO_GIVEN_OPTIONS, first=Revision.R3)

STREAM_REQUESTS: Final = (
    Shape(requests.GetStream, _STREAM),
    Shape(requests.GetStreams),
    Shape(
        requests.IggyCreateStream,
        at("id", chosen_id(Reason.INVALID_STREAM_ID), last=Revision.R2A),
        _NAME,
        _OPTIONS,
    ),
    Shape(requests.DeleteStream, _STREAM),
    Shape(requests.UpdateStream, _STREAM, _NAME, _OPTIONS),
    Shape(requests.PurgeStream, _STREAM),
)

STREAM: Final = Shape(
    IggyStreamInfo,
    at("id", U32),
    at("created_us", U64),
    at("topics", U32),
    at("size", U64),
    at("messages", U64),
    at("name", TEXT8),
    at(None, NO_TOLD_OPTIONS, first=Revision.R3),
)
STREAMS: Final = to_end(STREAM)
STREAM_DETAILS: Final = Shape(StreamDetails, at("stream", STREAM), at("topics", to_end(TOPIC)))
