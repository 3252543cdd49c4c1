"""The table of handlers, by the class of the request. A send has a way of its own."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from logdrive.services.iggy.server.handlers import (
    groups,
    messages,
    offsets,
    streams,
    system,
    topics,
    users,
)
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.wire.iggy import requests
from logdrive.wire.iggy.replies import IggyReply
from logdrive.wire.iggy.requests import IggyRequest

IggyHandler = Callable[[IggyService, IggySession, Any], Awaitable[IggyReply]]
"""Returns the reply to a request of its class. Raises `IggyError`, and what the store raises."""

HANDLERS: Final[Mapping[type[IggyRequest], IggyHandler]] = {
    requests.Ping: system.ping,
    requests.GetStats: system.get_stats,
    requests.GetSnapshot: system.get_snapshot,
    requests.GetClusterMetadata: system.get_cluster,
    requests.DescribeOptions: system.describe_options,
    requests.GetMe: system.get_me,
    requests.GetClient: system.get_client,
    requests.GetClients: system.get_clients,
    requests.GetUser: users.get_user,
    requests.GetUsers: users.get_users,
    requests.CreateUser: users.create_user,
    requests.DeleteUser: users.delete_user,
    requests.UpdateUser: users.update_user,
    requests.UpdatePermissions: users.set_permissions,
    requests.ChangePassword: users.change_password,
    requests.IggyLogin: users.log_in,
    requests.LoginWithToken: users.log_in_with_token,
    requests.Logout: users.log_out,
    requests.GetTokens: users.get_tokens,
    requests.CreateToken: users.create_token,
    requests.DeleteToken: users.delete_token,
    requests.PollMessages: messages.poll,
    requests.FlushPartition: messages.flush,
    requests.GetConsumerOffset: offsets.get_offset,
    requests.StoreConsumerOffset: offsets.store_offset,
    requests.DeleteConsumerOffset: offsets.delete_offset,
    requests.GetStream: streams.get_stream,
    requests.GetStreams: streams.get_streams,
    requests.IggyCreateStream: streams.create_stream,
    requests.DeleteStream: streams.delete_stream,
    requests.UpdateStream: streams.rename_stream,
    requests.PurgeStream: streams.purge_stream,
    requests.GetTopic: topics.get_topic,
    requests.GetTopics: topics.get_topics,
    requests.CreateTopic: topics.create_topic,
    requests.DeleteTopic: topics.delete_topic,
    requests.UpdateTopic: topics.update_topic,
    requests.PurgeTopic: topics.purge_topic,
    requests.CreatePartitions: topics.create_partitions,
    requests.DeletePartitions: topics.delete_partitions,
    requests.DeleteSegments: topics.delete_segments,
    requests.GetGroup: groups.get_group,
    requests.GetGroups: groups.get_groups,
    requests.CreateGroup: groups.create_group,
    requests.DeleteGroup: groups.delete_group,
    requests.JoinGroup: groups.join_group,
    requests.LeaveGroup: groups.leave_group,
    requests.SyncGroup: groups.sync_group,
}

WITHOUT_LOGIN: Final = frozenset({requests.Ping, requests.IggyLogin, requests.LoginWithToken})
"""What a client may ask before it has logged in."""

EMPTY_IF_MISSING: Final = frozenset(
    {requests.GetStream, requests.GetTopic, requests.GetGroup, requests.GetConsumerOffset}
)
"""What is answered with an empty reply where it is missing."""
