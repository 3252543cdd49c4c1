"""The server itself, and its clients."""

import os
import platform
import socket
import struct
from importlib.metadata import version
from typing import Final

from logdrive.services.iggy.own_cluster import CLUSTER
from logdrive.services.iggy.server.handlers.figures import estimates
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.log.partition import SEGMENT_BYTES
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.rights import Right
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import NEVER, UNLIMITED
from logdrive.wire.iggy.messages.headers import HeaderKind
from logdrive.wire.iggy.options import OptionScope
from logdrive.wire.iggy.replies import (
    ClientDetails,
    ClientInfo,
    ClusterMetadata,
    ClusterNode,
    Membership,
    OptionDescription,
    ServerStats,
)
from logdrive.wire.iggy.requests import (
    DescribeOptions,
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetMe,
    GetSnapshot,
    GetStats,
    Ping,
)
from logdrive.wire.iggy.revision import Revision

_U64: Final = struct.Struct("<Q")
_OPTIONS: Final = (
    OptionDescription("compression_algorithm", HeaderKind.STRING, b"none", "stored, not applied"),
    OptionDescription(
        "message_expiry", HeaderKind.UINT64, _U64.pack(NEVER), "microseconds; all ones: never"
    ),
    OptionDescription(
        "max_topic_size", HeaderKind.UINT64, _U64.pack(UNLIMITED), "bytes; all ones: no limit"
    ),
    OptionDescription(
        "segment_size", HeaderKind.UINT64, _U64.pack(SEGMENT_BYTES), "bytes, as they are counted"
    ),
    OptionDescription(
        "durability", HeaderKind.STRING, b"persisted", "an acknowledgement is always durable"
    ),
    OptionDescription(
        "consumer_offset_durability", HeaderKind.STRING, b"persisted", "that of a stored offset"
    ),
    OptionDescription("enforce_fsync", HeaderKind.BOOL, b"\1", "always so here"),
    OptionDescription(
        "messages_required_to_save", HeaderKind.UINT32, b"\1\0\0\0", "always so here"
    ),
)
"""What a topic can have, and what is so where it is not given."""


async def ping(service: IggyService, session: IggySession, request: Ping) -> None:
    """Do nothing."""


async def get_stats(service: IggyService, session: IggySession, request: GetStats) -> ServerStats:
    """Return figures of the store. What it does not measure is 0."""
    service.check(session, Right.READ_SERVERS)
    streams = await service.topology.all_streams()
    topics = [
        topic for scope, owner in streams for topic in service.topology.known_topics(scope, owner)
    ]
    figures = [one for topic in topics for one in estimates(service, topic)]
    groups = sum(len(found) for _, owner in streams for found in owner.groups.values())
    host = platform.uname()
    return ServerStats(
        process=os.getpid(),
        cpu=0.0,
        memory=0,
        memory_total=0,
        memory_available=0,
        run_time_us=max(0, service.clock.now_ms() - service.started_ms) * 1000,
        start_time_us=service.started_ms * 1000,
        read_bytes=0,
        written_bytes=0,
        size=sum(one.size for one in figures),
        streams=len(streams),
        topics=len(topics),
        partitions=sum(len(topic.indices) for topic in topics),
        segments=sum(one.segments() for one in figures),
        messages=sum(one.messages for one in figures),
        clients=len(service.sessions),
        groups=groups,
        hostname=socket.gethostname(),
        os_name=host.system,
        os_version=host.version,
        kernel=host.release,
        version=f"{CLUSTER} {version('logdrive')}",
    )


async def get_cluster(
    service: IggyService, session: IggySession, request: GetClusterMetadata
) -> ClusterMetadata:
    """Return this store as the only node."""
    host, port = service.address
    return ClusterMetadata(CLUSTER, (ClusterNode(CLUSTER, host, port),))


async def get_snapshot(service: IggyService, session: IggySession, request: GetSnapshot) -> None:
    """Refuse: `logdrive store check` and the metrics tell more."""
    service.check(session, Right.READ_SERVERS)
    raise IggyError(Reason.FEATURE_UNAVAILABLE, "there are no snapshots of a server")


async def describe_options(
    service: IggyService, session: IggySession, request: DescribeOptions
) -> tuple[OptionDescription, ...]:
    """Return the options that topics have; streams and users have none."""
    return _OPTIONS if request.scope is OptionScope.TOPIC else ()


async def get_me(service: IggyService, session: IggySession, request: GetMe) -> ClientDetails:
    """Return the client who asks."""
    return _details(service, session)


async def get_client(
    service: IggyService, session: IggySession, request: GetClient
) -> ClientDetails | None:
    """Return a client by number."""
    service.check(session, Right.READ_SERVERS)
    found = service.sessions.find(request.client)
    if found is None and session.revision is Revision.R0:
        raise IggyError(Reason.CLIENT_NOT_FOUND, f"there is no client {request.client}")
    return _details(service, found) if found is not None else None


async def get_clients(
    service: IggyService, session: IggySession, request: GetClients
) -> tuple[ClientInfo, ...]:
    """Return all clients."""
    service.check(session, Right.READ_SERVERS)
    return tuple(_client(service, one) for one in service.sessions)


def _client(service: IggyService, session: IggySession) -> ClientInfo:
    groups = len(list(service.members.of_client(session.client_id)))
    return ClientInfo(
        session.client_id, session.transport, session.address, groups, session.user_id or 0
    )


def _details(service: IggyService, session: IggySession) -> ClientDetails:
    state = service.registry.state
    memberships = []
    for scope, stream, group in service.members.of_client(session.client_id):
        owner, topic = state.streams.get(scope), state.topic(scope, stream)
        if owner is not None and topic is not None:
            memberships.append(Membership(owner.id, topic.id, group))
    return ClientDetails(_client(service, session), tuple(memberships))
