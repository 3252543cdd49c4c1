"""Layouts of consumer groups: requests 600 to 606 and their replies."""

from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.errors import Reason
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.fields import TEXT8, U32, U64, counted, to_end
from logdrive.wire.iggy.payloads.naming import (
    CONSUMER_ID,
    IDENTIFIER,
    PARTITION,
    chosen_id,
    new_name,
)
from logdrive.wire.iggy.payloads.shapes import FieldCodec, Shape, Simple, at
from logdrive.wire.iggy.replies import GroupAssignment, GroupDetails, GroupInfo, MemberInfo
from logdrive.wire.iggy.revision import Revision

_STREAM: Final = at("stream", IDENTIFIER)
_TOPIC: Final = at("topic", IDENTIFIER)
_GROUP: Final = at("group", CONSUMER_ID)
_NEW_NAME: Final = new_name(Reason.INVALID_GROUP_NAME)


def _read_name(reader: PayloadReader) -> str | None:
    return None if reader.revision is Revision.R0 else _NEW_NAME.read(reader)


def _write_name(value: str | None, writer: PayloadWriter) -> None:
    if writer.revision is not Revision.R0:
        if not value:
            raise ValueError("a group has a name, from R0B on")
        _NEW_NAME.write(value, writer)


_NAME: Final[FieldCodec[str | None]] = Simple(_read_name, _write_name)

GROUP_REQUESTS: Final = (
    Shape(requests.GetGroup, _STREAM, _TOPIC, _GROUP),
    Shape(requests.GetGroups, _STREAM, _TOPIC),
    Shape(
        requests.CreateGroup,
        _STREAM,
        _TOPIC,
        at("id", chosen_id(Reason.INVALID_GROUP_ID), last=Revision.R2A),
        at("name", _NAME),
    ),
    Shape(requests.DeleteGroup, _STREAM, _TOPIC, _GROUP),
    Shape(requests.JoinGroup, _STREAM, _TOPIC, _GROUP),
    Shape(requests.LeaveGroup, _STREAM, _TOPIC, _GROUP),
    Shape(requests.SyncGroup, _STREAM, _TOPIC, _GROUP),
)

_PARTITION_BYTES: Final = 4
_PARTITIONS: Final = counted(PARTITION, item_bytes=_PARTITION_BYTES)
GROUP: Final = Shape(
    GroupInfo,
    at("id", U32),
    at("partitions", U32),
    at("members", U32),
    at("name", TEXT8, first=Revision.R0B),
)
GROUPS: Final = to_end(GROUP)
_MEMBER: Final = Shape(MemberInfo, at("id", U32), at("partitions", _PARTITIONS))
GROUP_DETAILS: Final = Shape(GroupDetails, at("group", GROUP), at("members", to_end(_MEMBER)))
ASSIGNMENT: Final = Shape(GroupAssignment, at("generation", U64), at("partitions", _PARTITIONS))
