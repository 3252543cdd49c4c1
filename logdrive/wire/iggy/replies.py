"""Replies, each as a class common to all revisions. See docs/protocols/iggy.md#replies.

None is the reply without a payload: done, or nothing found. A list is a tuple. What a revision does
not send keeps its default when a reply is decoded. Times are µs since 1970, sizes are bytes.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from logdrive.model.framing import Part
from logdrive.wire.iggy.limits import NEVER, UNLIMITED
from logdrive.wire.iggy.options import IggyCompression, TopicOptions
from logdrive.wire.iggy.permissions import Permissions


@dataclass(frozen=True, slots=True)
class IggyStreamInfo:
    """A stream, in Iggy's sense: topics under one name."""

    id: int
    created_us: int
    topics: int
    size: int
    messages: int
    name: str


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic. *options* are those which it was created with, *derived* the server's defaults."""

    id: int
    created_us: int
    partitions: int
    size: int
    messages: int
    name: str
    expiry_us: int = NEVER
    """For how long messages are kept; NEVER: they do not expire."""
    compression: IggyCompression = IggyCompression.NONE
    max_size: int = UNLIMITED
    """Bytes, or UNLIMITED."""
    replication: int = 1
    options: TopicOptions = field(default_factory=TopicOptions)
    derived: TopicOptions = field(default_factory=TopicOptions)


@dataclass(frozen=True, slots=True)
class StreamDetails:
    """A stream and its topics."""

    stream: IggyStreamInfo
    topics: tuple[TopicInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition; *index* counts from 0.

    *current_offset* is that of the newest message, and 0 where there is none: *messages* tells.
    """

    index: int
    created_us: int
    segments: int
    current_offset: int
    size: int
    messages: int


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic and its partitions."""

    topic: TopicInfo
    partitions: tuple[PartitionInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A consumer group; R0 sends no *name*."""

    id: int
    partitions: int
    members: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A member of a group: its client id, and the partitions that it polls, from 0."""

    id: int
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """A group and its members."""

    group: GroupInfo
    members: tuple[MemberInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """R3: the *partitions* of one member, from 0; *generation* grows at each rebalancing."""

    generation: int
    partitions: tuple[int, ...]


class ClientTransport(IntEnum):
    """How a client is connected."""

    TCP = 1
    QUIC = 2
    HTTP = 3
    WEBSOCKET = 4


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A connected client. *address* is its "ip:port"; R0 sends no *user_id*."""

    id: int
    transport: ClientTransport
    address: str
    groups: int
    user_id: int = 0


@dataclass(frozen=True, slots=True)
class Membership:
    """A group that a client is in, by numbers."""

    stream: int
    topic: int
    group: int


@dataclass(frozen=True, slots=True)
class ClientDetails:
    """A client and its groups."""

    client: ClientInfo
    memberships: tuple[Membership, ...] = ()


@dataclass(frozen=True, slots=True)
class CacheMetrics:
    """How often a partition's cache was hit, and missed."""

    stream: int
    topic: int
    partition: int
    hits: int
    misses: int
    ratio: float


@dataclass(frozen=True, slots=True)
class ServerStats:
    """Figures of a server. R0 and R0B send neither *total_cpu* nor what follows *kernel*."""

    process: int
    cpu: float  # percent
    memory: int
    memory_total: int
    memory_available: int
    run_time_us: int
    start_time_us: int
    read_bytes: int
    written_bytes: int
    size: int
    streams: int
    topics: int
    partitions: int
    segments: int
    messages: int
    clients: int
    groups: int
    hostname: str
    os_name: str
    os_version: str
    kernel: str
    total_cpu: float = 0.0
    version: str = ""
    semver: int = 0  # 0: not known
    caches: tuple[CacheMetrics, ...] = ()
    threads: int = 0
    disk_free: int = 0
    disk_total: int = 0


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user."""

    id: int
    created_us: int
    active: bool
    name: str


@dataclass(frozen=True, slots=True)
class UserDetails:
    """A user and the permissions; None: it has none."""

    user: UserInfo
    permissions: Permissions | None = None


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The user who logged in. *session*, *protocol* and *version* (the server's) are R3's."""

    user_id: int
    session: int = 0
    protocol: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A personal access token; *expires_us* is None if it does not expire."""

    name: str
    expires_us: int | None


@dataclass(frozen=True, slots=True)
class RawToken:
    """A new token's secret, which is told once."""

    token: str


@dataclass(frozen=True, slots=True)
class ConsumerOffset:
    """The *stored* offset of a consumer in a partition, whose newest message has *current*."""

    partition: int
    current: int
    stored: int


@dataclass(frozen=True, slots=True)
class Polled:
    """Messages of a *partition*, whose newest message has *current_offset* (0: none yet).

    *batches* are *count* messages in the bytes of the revision: `logdrive.wire.iggy.messages`.
    It may be in parts, so that a server need not copy them; decoded it is one part.
    """

    partition: int
    current_offset: int
    count: int
    batches: Part | tuple[Part, ...] = b""


@dataclass(frozen=True, slots=True)
class SendConfirmation:
    """R3: the offset of the first message of a send, and where it is, by numbers."""

    stream: int
    topic: int
    partition: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A server of a cluster and its ports, 0 where it does not listen."""

    name: str
    ip: str
    tcp: int
    quic: int = 0
    http: int = 0
    websocket: int = 0
    role: int = 0  # 0 leader, 1 follower
    status: int = 0  # 0 healthy


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """A cluster; a server without clustering tells itself as the one node."""

    name: str
    nodes: tuple[ClusterNode, ...]


@dataclass(frozen=True, slots=True)
class OptionDescription:
    """An option that R3 knows: the kind and the bytes of its default are those of user headers."""

    key: str
    kind: int
    default: bytes
    description: str


IggyReply = (
    IggyStreamInfo
    | StreamDetails
    | tuple[IggyStreamInfo, ...]
    | TopicDetails
    | tuple[TopicInfo, ...]
    | GroupInfo
    | GroupDetails
    | tuple[GroupInfo, ...]
    | GroupAssignment
    | ClientDetails
    | tuple[ClientInfo, ...]
    | ServerStats
    | UserDetails
    | tuple[UserInfo, ...]
    | LoggedIn
    | RawToken
    | tuple[TokenInfo, ...]
    | ConsumerOffset
    | Polled
    | tuple[SendConfirmation, ...]
    | ClusterMetadata
    | tuple[OptionDescription, ...]
    | bytes
    | None
)
