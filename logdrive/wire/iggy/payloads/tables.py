"""Which shape each request has, and each reply."""

from typing import Any, Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.payloads import (
    groups,
    messages,
    offsets,
    partitions,
    sessions,
    streams,
    system,
    tokens,
    topics,
    users,
)
from logdrive.wire.iggy.payloads.shapes import FieldCodec
from logdrive.wire.iggy.requests import IggyRequest

_SHAPES: Final = (
    *groups.GROUP_REQUESTS,
    *offsets.OFFSET_REQUESTS,
    *partitions.PARTITION_REQUESTS,
    *sessions.SESSION_REQUESTS,
    *streams.STREAM_REQUESTS,
    *system.SYSTEM_REQUESTS,
    *tokens.TOKEN_REQUESTS,
    *topics.TOPIC_REQUESTS,
    *users.USER_REQUESTS,
    messages.POLL,
)
REQUESTS: Final[dict[type[IggyRequest], FieldCodec[Any]]] = {
    **{shape.make: shape for shape in _SHAPES},
    requests.SendMessages: messages.SEND,
}
"""The codec of every request."""
REPLIES: Final[dict[type[IggyRequest], FieldCodec[Any]]] = {
    requests.GetStats: system.STATS,
    requests.GetSnapshot: system.SNAPSHOT,
    requests.GetClusterMetadata: system.CLUSTER,
    requests.DescribeOptions: system.DESCRIPTIONS,
    requests.GetMe: system.CLIENT_DETAILS,
    requests.GetClient: system.CLIENT_DETAILS,
    requests.GetClients: system.CLIENTS,
    requests.GetUser: users.USER_DETAILS,
    requests.GetUsers: users.USERS,
    requests.CreateUser: users.USER_DETAILS,
    requests.IggyLogin: sessions.LOGGED_IN,
    requests.LoginWithToken: sessions.LOGGED_IN,
    requests.GetTokens: tokens.TOKENS,
    requests.CreateToken: tokens.RAW_TOKEN,
    requests.PollMessages: messages.POLLED,
    requests.SendMessages: messages.CONFIRMATIONS,
    requests.GetConsumerOffset: offsets.OFFSET,
    requests.GetStream: streams.STREAM_DETAILS,
    requests.GetStreams: streams.STREAMS,
    requests.IggyCreateStream: streams.STREAM,
    requests.GetTopic: topics.TOPIC_DETAILS,
    requests.GetTopics: topics.TOPICS,
    requests.CreateTopic: topics.TOPIC_DETAILS,
    requests.GetGroup: groups.GROUP_DETAILS,
    requests.GetGroups: groups.GROUPS,
    requests.CreateGroup: groups.GROUP,
    requests.SyncGroup: groups.ASSIGNMENT,
}
"""The codec of every reply that has a payload."""
LISTS: Final = frozenset(
    {
        requests.DescribeOptions,
        requests.GetClients,
        requests.GetGroups,
        requests.GetStreams,
        requests.GetTokens,
        requests.GetTopics,
        requests.GetUsers,
    }
)
"""The requests that are answered with a tuple, be it empty."""
