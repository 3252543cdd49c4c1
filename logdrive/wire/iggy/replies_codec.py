"""Replies from and to the payloads of every revision. See docs/protocols/iggy.md#replies.

R3 frames some payloads once more, as a result: `logdrive.wire.iggy.vsr` does.
"""

from typing import Any, Final, TypeVar, cast

from logdrive.model.framing import Part
from logdrive.wire.iggy import requests
from logdrive.wire.iggy.errors import (
    IggyError,
    Reason,
    group_not_found,
    stream_not_found,
    topic_not_found,
)
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.tables import LISTS, REPLIES
from logdrive.wire.iggy.replies import ConsumerOffset, IggyReply
from logdrive.wire.iggy.requests import IggyRequest, IggyRequestFor
from logdrive.wire.iggy.revision import Revision

R = TypeVar("R")
_NULLABLE: Final = frozenset(
    {
        requests.GetClient,
        requests.GetConsumerOffset,
        requests.GetGroup,
        requests.GetStream,
        requests.GetTopic,
        requests.GetUser,
        requests.SendMessages,
        requests.SyncGroup,
    }
)
# R0 and R0B tell nothing of what they created
_CREATIONS: Final = frozenset(
    {requests.IggyCreateStream, requests.CreateTopic, requests.CreateGroup}
)


def reply_parts(revision: Revision, request: IggyRequest, reply: IggyReply) -> list[Part]:
    """Return the parts of the payload that answers *request*; polled batches are not copied.

    Nothing was found where *reply* is None; R0 and R0B tell that by an error, which is raised as
    IggyError. Raises ValueError for a value that its field can't hold.
    """
    codec = REPLIES.get(type(request))
    if codec is None:
        return []
    if revision <= Revision.R0B:
        if type(request) in _CREATIONS:
            return []
        reply = _found(request, reply)
    if reply is None:
        return []
    writer = PayloadWriter(revision)
    codec.write(reply, writer)
    return writer.parts


def encode_reply(revision: Revision, request: IggyRequest, reply: IggyReply) -> bytes:
    """Return the payload that answers *request*. Raises as `reply_parts` does."""
    return b"".join(reply_parts(revision, request, reply))


def decode_reply(revision: Revision, request: IggyRequestFor[R], payload: Part) -> R:
    """Return the reply to *request*; None, or an empty list, where the payload is empty.

    Surplus bytes behind a reply are ignored: newer servers say more. The batches of a poll are a
    view of *payload*. Raises IggyError, INVALID_FORMAT, for a payload that is no such reply.
    """
    codec = REPLIES.get(type(request))
    reply: Any = None
    if codec is not None and len(payload):
        try:
            reply = codec.read(PayloadReader(revision, payload))
        except ValueError as error:
            text = f"the reply to {type(request).__name__}: {error}"
            raise IggyError(Reason.INVALID_FORMAT, text) from error
    elif type(request) in LISTS:
        reply = ()
    elif not _may_be_empty(revision, request):
        text = f"the reply to {type(request).__name__} is empty"
        raise IggyError(Reason.INVALID_FORMAT, text)
    return cast("R", reply)


def _may_be_empty(revision: Revision, request: IggyRequest) -> bool:
    kind = type(request)
    return (
        kind not in REPLIES
        or kind in _NULLABLE
        or (kind in _CREATIONS and revision <= Revision.R0B)
    )


def _found(request: IggyRequest, reply: IggyReply) -> IggyReply:
    """Return the reply as R0 has it, which has none for what is missing. Raises IggyError."""
    if reply is not None:
        return reply
    if isinstance(request, requests.GetStream):
        raise stream_not_found(request.stream)
    if isinstance(request, requests.GetTopic):
        raise topic_not_found(request.topic)
    if isinstance(request, requests.GetGroup):
        raise group_not_found(request.group)
    if isinstance(request, requests.GetClient):
        raise IggyError(Reason.CLIENT_NOT_FOUND, f"there is no client {request.client}")
    # an offset that was never stored is told as 0
    if isinstance(request, requests.GetConsumerOffset):
        return ConsumerOffset(request.partition or 0, 0, 0)
    return None
