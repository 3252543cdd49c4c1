"""Permissions of a user: global, of a stream, of a topic. See docs/protocols/iggy.md#permissions.

The fields of each class stand in the order in which they are encoded.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GlobalPermissions:
    """What a user may do everywhere. To manage includes to read; to manage topics includes all."""

    manage_servers: bool = False
    read_servers: bool = False
    manage_users: bool = False
    read_users: bool = False
    manage_streams: bool = False
    read_streams: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """What a user may do in the topic with the number *topic*."""

    topic: int
    manage_topic: bool = False
    read_topic: bool = False
    poll_messages: bool = False
    send_messages: bool = False


@dataclass(frozen=True, slots=True)
class StreamPermissions:
    """What a user may do in the stream with the number *stream*, and in single topics of it."""

    stream: int
    manage_stream: bool = False
    read_stream: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False
    topics: tuple[TopicPermissions, ...] = ()


@dataclass(frozen=True, slots=True)
class Permissions:
    """All that a user may do."""

    everywhere: GlobalPermissions = field(default_factory=GlobalPermissions)
    streams: tuple[StreamPermissions, ...] = ()


ALL_PERMISSIONS = Permissions(GlobalPermissions(*(True,) * 10))
"""Those of the root user."""
