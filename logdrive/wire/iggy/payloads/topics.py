"""Layouts of topics: requests 300 to 305 and their replies."""

from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.errors import Reason
from logdrive.wire.iggy.options import IggyCompression
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.fields import TEXT8, U8, U32, U64, choice, counted, to_end
from logdrive.wire.iggy.payloads.naming import IDENTIFIER, chosen_id, new_name
from logdrive.wire.iggy.payloads.options import (
    FIXED_OPTIONS,
    GIVEN_OPTIONS,
    TOLD_OPTIONS,
    from_seconds,
    to_seconds,
)
from logdrive.wire.iggy.payloads.partitions import PARTITIONS_INFO
from logdrive.wire.iggy.payloads.shapes import FieldCodec, Shape, Simple, at
from logdrive.wire.iggy.replies import TopicDetails, TopicInfo
from logdrive.wire.iggy.revision import Revision

_STREAM: Final = at("stream", IDENTIFIER)
_TOPIC: Final = at("topic", IDENTIFIER)
_NAME: Final = at("name", new_name(Reason.INVALID_TOPIC_NAME))
_FIXED: Final = at("options", FIXED_OPTIONS, last=Revision.R2C)
_BLOCK: Final = at("options", GIVEN_OPTIONS, first=Revision.R3)

TOPIC_REQUESTS: Final = (
    Shape(requests.GetTopic, _STREAM, _TOPIC),
    Shape(requests.GetTopics, _STREAM),
    Shape(
        requests.CreateTopic,
        _STREAM,
        at("id", chosen_id(Reason.INVALID_TOPIC_ID), last=Revision.R2A),
        at("partitions", U32),
        _FIXED,
        _NAME,
        _BLOCK,
    ),
    Shape(requests.DeleteTopic, _STREAM, _TOPIC),
    Shape(requests.UpdateTopic, _STREAM, _TOPIC, _FIXED, _NAME, _BLOCK),
    Shape(requests.PurgeTopic, _STREAM, _TOPIC),
)


def _read_expiry(reader: PayloadReader) -> int:
    in_seconds = reader.revision <= Revision.R0B
    return from_seconds(reader.u32()) if in_seconds else reader.u64()


def _write_expiry(value: int, writer: PayloadWriter) -> None:
    if writer.revision <= Revision.R0B:
        writer.u32(to_seconds(value))
    else:
        writer.u64(value)


TOPIC: Final = Shape(
    TopicInfo,
    at("id", U32),
    at("created_us", U64),
    at("partitions", U32),
    at("expiry_us", Simple(_read_expiry, _write_expiry)),
    at("compression", choice(IggyCompression), first=Revision.R1),
    at("max_size", U64, first=Revision.R1),
    at("replication", U8, first=Revision.R1, last=Revision.R2C),
    at("size", U64),
    at("messages", U64),
    at("name", TEXT8),
    at("options", TOLD_OPTIONS, first=Revision.R3),
    at("derived", TOLD_OPTIONS, first=Revision.R3),
)
_TOPIC_BYTES: Final = 58  # of a topic in R3 at least
_COUNTED: Final = counted(TOPIC, item_bytes=_TOPIC_BYTES)
_TO_END: Final = to_end(TOPIC)


def _codec(revision: Revision) -> FieldCodec[tuple[TopicInfo, ...]]:
    return _COUNTED if revision is Revision.R3 else _TO_END


TOPICS: Final[FieldCodec[tuple[TopicInfo, ...]]] = Simple(
    lambda reader: _codec(reader.revision).read(reader),
    lambda value, writer: _codec(writer.revision).write(value, writer),
)
"""The list of topics: R3 alone counts them."""
TOPIC_DETAILS: Final = Shape(TopicDetails, at("topic", TOPIC), at("partitions", PARTITIONS_INFO))
