"""Rights: what a request needs, and whether a user's permissions or grants include it.

To manage something includes to read it; to read a stream includes to read its topics, and to read a
topic includes to poll. To manage topics includes to send.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto

from logdrive.services.auth.permissions import Grants, Permission
from logdrive.store.streams.names import IGGY, SYSTEM, is_plain_name
from logdrive.wire.iggy.permissions import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)


class Right(Enum):
    """What a request needs."""

    READ_SERVERS = auto()
    READ_USERS = auto()
    MANAGE_USERS = auto()
    READ_STREAM = auto()
    MANAGE_STREAM = auto()
    READ_TOPIC = auto()
    MANAGE_TOPIC = auto()
    POLL = auto()
    SEND = auto()


@dataclass(frozen=True, slots=True)
class RightTarget:
    """A stream or a topic, by its names in the catalog, and by its numbers.

    None for *stream* and *topic_id*: the stream of Iggy as a whole. None for *stream_id*: a stream
    that is to be made.
    """

    scope: str
    stream_id: int | None
    stream: str | None = None
    topic_id: int | None = None


_READING = (Right.READ_STREAM, Right.READ_TOPIC, Right.POLL)
_OF_TOPICS = (Right.READ_TOPIC, Right.MANAGE_TOPIC, Right.POLL, Right.SEND)
_TOPIC_READING = (Right.READ_TOPIC, Right.POLL)


def new_stream_target(name: str, stream_id: int | None = None) -> RightTarget | None:
    """Return what rights to make a stream *name* are asked for, or to give it to *stream_id*.

    None, which is everywhere, for a name that no grant can mean: the catalog has another for it.
    """
    if is_plain_name(name):
        return RightTarget(name, stream_id)
    return None if stream_id is None else RightTarget("", stream_id)


def named_topic_target(target: RightTarget, name: str) -> RightTarget:
    """Return what rights to call a topic *name* are asked for; *target* is it, or its stream."""
    return replace(target, stream=name if is_plain_name(name) else None)


def permits(permissions: Permissions, right: Right, target: RightTarget | None) -> bool:
    """Return whether *permissions* include *right* on *target*; None: everywhere."""
    if _everywhere(permissions.everywhere, right):
        return True
    if target is None or target.stream_id is None:
        return False
    for stream in permissions.streams:
        if stream.stream == target.stream_id:
            return _in_stream(stream, right) or any(
                _in_topic(topic, right) for topic in stream.topics if topic.topic == target.topic_id
            )
    return False


def _everywhere(granted: GlobalPermissions, right: Right) -> bool:
    match right:
        case Right.READ_SERVERS:
            return granted.read_servers or granted.manage_servers
        case Right.READ_USERS:
            return granted.read_users or granted.manage_users
        case Right.MANAGE_USERS:
            return granted.manage_users
        case _:
            return (
                granted.manage_streams
                or (granted.read_streams and right in _READING)
                or (granted.manage_topics and right in _OF_TOPICS)
                or (granted.read_topics and right in _TOPIC_READING)
                or (granted.poll_messages and right is Right.POLL)
                or (granted.send_messages and right is Right.SEND)
            )


def _in_stream(granted: StreamPermissions, right: Right) -> bool:
    return (
        (granted.manage_stream and right in (Right.MANAGE_STREAM, *_READING, *_OF_TOPICS))
        or (granted.read_stream and right in _READING)
        or (granted.manage_topics and right in _OF_TOPICS)
        or (granted.read_topics and right in _TOPIC_READING)
        or (granted.poll_messages and right is Right.POLL)
        or (granted.send_messages and right is Right.SEND)
    )


def _in_topic(granted: TopicPermissions, right: Right) -> bool:
    return (
        (granted.manage_topic and right in _OF_TOPICS)
        or (granted.read_topic and right in _TOPIC_READING)
        or (granted.poll_messages and right is Right.POLL)
        or (granted.send_messages and right is Right.SEND)
    )


def permissions_of(grants: Grants, targets: Iterable[RightTarget]) -> Permissions:
    """Return what *grants* are in Iggy's words, for the streams and topics *targets*.

    In *targets*, topics follow their stream. Grants may cover streams that are made later; Iggy's
    permissions can't express that.
    """
    if is_root(grants):
        return ALL_PERMISSIONS
    streams: dict[int, StreamPermissions] = {}
    for target in targets:
        if target.stream_id is None:
            continue
        reads, manages = (
            grants_permit(grants, right, target)
            for right in (
                (Right.READ_STREAM, Right.MANAGE_STREAM)
                if target.topic_id is None
                else (Right.READ_TOPIC, Right.MANAGE_TOPIC)
            )
        )
        if not reads:
            continue
        if target.topic_id is None:
            whole = grants.scope_permission(target.scope) >= Permission.READ
            streams[target.stream_id] = StreamPermissions(
                target.stream_id,
                manage_stream=manages,
                read_stream=whole,
                manage_topics=manages,
                read_topics=whole,
                poll_messages=whole,
                send_messages=manages,
            )
        elif (stream := streams.get(target.stream_id)) is not None:
            topic = TopicPermissions(target.topic_id, manages, True, True, manages)
            streams[target.stream_id] = replace(stream, topics=(*stream.topics, topic))
    return Permissions(streams=tuple(streams.values()))


def is_root(grants: Grants) -> bool:
    """Return whether *grants* allow everything, so that their holder is an Iggy root."""
    return grants.stream_permission(SYSTEM, IGGY) >= Permission.READ_UPDATE


def grants_permit(grants: Grants, right: Right, target: RightTarget | None) -> bool:
    """Return whether the *grants* of a user of the users file include *right* on *target*."""
    if is_root(grants):
        return True
    if right in (Right.READ_SERVERS, Right.READ_USERS, Right.MANAGE_USERS):
        return False
    if target is None:
        return right is Right.READ_STREAM  # of a list, only what the user sees
    wanted = Permission.READ if right in _READING else Permission.READ_UPDATE
    if target.stream is not None:
        return grants.stream_permission(target.scope, target.stream) >= wanted
    if right is Right.READ_STREAM:
        return grants.may_see_scope(target.scope)
    return grants.scope_permission(target.scope) >= wanted
