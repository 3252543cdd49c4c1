"""Requests, each as a class common to all revisions. See docs/protocols/iggy.md#commands.

A field that a revision does not have is None, or what its comment says. Partitions are counted from
0 in every revision; times and durations are µs.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from logdrive.model.framing import Part
from logdrive.wire.iggy import replies
from logdrive.wire.iggy.identifiers import Consumer, Identifier, Partitioning, PollingStrategy
from logdrive.wire.iggy.options import OptionScope, TopicOptions
from logdrive.wire.iggy.permissions import Permissions

R = TypeVar("R", covariant=True)


class IggyRequest:
    """One request; the table of all is in `logdrive.wire.iggy.commands`."""

    __slots__ = ()


class IggyRequestFor(IggyRequest, Generic[R]):
    """One request whose reply, where it succeeds, is an R."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class OfStream(IggyRequestFor[R]):
    """A request of one stream."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class OfTopic(OfStream[R]):
    """A request of one topic."""

    topic: Identifier


@dataclass(frozen=True, slots=True)
class OfGroup(OfTopic[R]):
    """A request of one consumer group."""

    group: Identifier


@dataclass(frozen=True, slots=True)
class Ping(IggyRequestFor[None]):
    """Renews the heartbeat; allowed without a login."""


@dataclass(frozen=True, slots=True)
class GetStats(IggyRequestFor[replies.ServerStats]):
    """Asks for the figures of the server."""


@dataclass(frozen=True, slots=True)
class GetSnapshot(IggyRequestFor[bytes]):
    """Asks for an archive of the server's state."""

    compression: int
    kinds: bytes  # one byte each


@dataclass(frozen=True, slots=True)
class GetClusterMetadata(IggyRequestFor[replies.ClusterMetadata]):
    """Asks for the servers of the cluster."""


@dataclass(frozen=True, slots=True)
class DescribeOptions(IggyRequestFor[tuple[replies.OptionDescription, ...]]):
    """R3: asks which options there are."""

    scope: OptionScope


@dataclass(frozen=True, slots=True)
class GetMe(IggyRequestFor[replies.ClientDetails]):
    """Asks for the client that asks."""


@dataclass(frozen=True, slots=True)
class GetClient(IggyRequestFor[replies.ClientDetails | None]):
    """Asks for a connected client."""

    client: int


@dataclass(frozen=True, slots=True)
class GetClients(IggyRequestFor[tuple[replies.ClientInfo, ...]]):
    """Asks for all connected clients."""


@dataclass(frozen=True, slots=True)
class GetUser(IggyRequestFor[replies.UserDetails | None]):
    """Asks for a user."""

    user: Identifier


@dataclass(frozen=True, slots=True)
class GetUsers(IggyRequestFor[tuple[replies.UserInfo, ...]]):
    """Asks for all users."""


@dataclass(frozen=True, slots=True)
class CreateUser(IggyRequestFor[replies.UserDetails]):
    """Creates a user."""

    name: str
    password: str
    active: bool = True
    permissions: Permissions | None = None


@dataclass(frozen=True, slots=True)
class DeleteUser(IggyRequestFor[None]):
    """Deletes a user, with tokens and sessions."""

    user: Identifier


@dataclass(frozen=True, slots=True)
class UpdateUser(IggyRequestFor[None]):
    """Changes what is given of a user."""

    user: Identifier
    name: str | None = None
    active: bool | None = None


@dataclass(frozen=True, slots=True)
class UpdatePermissions(IggyRequestFor[None]):
    """Replaces a user's permissions; None takes all."""

    user: Identifier
    permissions: Permissions | None = None


@dataclass(frozen=True, slots=True)
class ChangePassword(IggyRequestFor[None]):
    """Sets a user's password, if *current* is the one it has."""

    user: Identifier
    current: str
    new: str


@dataclass(frozen=True, slots=True)
class IggyLogin(IggyRequestFor[replies.LoggedIn]):
    """Logs in. *version* and *context* are the client library's own; None in R0B."""

    user: str
    password: str
    version: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class LoginWithToken(IggyRequestFor[replies.LoggedIn]):
    """Logs in with the secret that RawToken gave."""

    token: str


@dataclass(frozen=True, slots=True)
class Logout(IggyRequestFor[None]):
    """Ends the session; the connection stays."""


@dataclass(frozen=True, slots=True)
class GetTokens(IggyRequestFor[tuple[replies.TokenInfo, ...]]):
    """Asks for the tokens of the user who asks."""


@dataclass(frozen=True, slots=True)
class CreateToken(IggyRequestFor[replies.RawToken]):
    """Creates a token for *expiry_us*; NEVER: for ever; None: the server's default."""

    name: str
    expiry_us: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteToken(IggyRequestFor[None]):
    """Deletes a token of the user who asks."""

    name: str


@dataclass(frozen=True, slots=True)
class PollMessages(IggyRequestFor[replies.Polled]):
    """Asks for up to *count* messages. *partition*: None if the request names none."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition: int | None
    strategy: PollingStrategy
    count: int
    auto_commit: bool = False


@dataclass(frozen=True, slots=True)
class SendMessages(OfTopic[tuple[replies.SendConfirmation, ...] | None]):
    """Appends messages; R3 alone confirms where, the others answer None.

    *batch* are the bytes of the messages as the revision has them, not looked at yet: with index
    entries in R2A to R2C, with the batch's head in R3. It may be a view of the frame. *count* is
    the number of messages that the request announces; None in R0 to R1, which announce none.
    """

    partitioning: Partitioning
    batch: Part
    count: int | None = None


@dataclass(frozen=True, slots=True)
class FlushPartition(OfTopic[None]):
    """Asks that what is acknowledged be on disk."""

    partition: int
    fsync: bool


@dataclass(frozen=True, slots=True)
class OfConsumer(IggyRequestFor[R]):
    """A request of what is stored for a consumer; *partition* is None if it names none."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition: int | None


@dataclass(frozen=True, slots=True)
class GetConsumerOffset(OfConsumer[replies.ConsumerOffset | None]):
    """Asks for what is stored for a consumer; None: nothing is."""


@dataclass(frozen=True, slots=True)
class StoreConsumerOffset(OfConsumer[None]):
    """Stores an offset. *quorum*: R3's wish that all replicas have it before the answer."""

    offset: int
    quorum: bool = True


@dataclass(frozen=True, slots=True)
class DeleteConsumerOffset(OfConsumer[None]):
    """Forgets what is stored for a consumer. *quorum* as in StoreConsumerOffset."""

    quorum: bool = True


@dataclass(frozen=True, slots=True)
class GetStream(OfStream[replies.StreamDetails | None]):
    """Asks for a stream and its topics."""


@dataclass(frozen=True, slots=True)
class GetStreams(IggyRequestFor[tuple[replies.IggyStreamInfo, ...]]):
    """Asks for all streams."""


@dataclass(frozen=True, slots=True)
class IggyCreateStream(IggyRequestFor[replies.IggyStreamInfo | None]):
    """Creates a stream; R0 and R0B answer None.

    *id* is chosen by the client up to R2A: always in R0 and R0B, or None for the server's choice.
    """

    name: str
    id: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteStream(OfStream[None]):
    """Deletes a stream with its topics."""


@dataclass(frozen=True, slots=True)
class UpdateStream(OfStream[None]):
    """Gives the stream another name."""

    name: str


@dataclass(frozen=True, slots=True)
class PurgeStream(OfStream[None]):
    """Deletes the messages of all topics."""


@dataclass(frozen=True, slots=True)
class GetTopic(OfTopic[replies.TopicDetails | None]):
    """Asks for a topic and its partitions."""


@dataclass(frozen=True, slots=True)
class GetTopics(OfStream[tuple[replies.TopicInfo, ...]]):
    """Asks for all topics of a stream."""


@dataclass(frozen=True, slots=True)
class CreateTopic(OfStream[replies.TopicDetails | None]):
    """Creates a topic; R0 and R0B answer None. *id* as in IggyCreateStream."""

    name: str
    partitions: int
    options: TopicOptions = field(default_factory=TopicOptions)
    id: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopic(OfTopic[None]):
    """Deletes a topic with its messages."""


@dataclass(frozen=True, slots=True)
class UpdateTopic(OfTopic[None]):
    """Gives the topic another name, and changes the options given."""

    name: str
    options: TopicOptions = field(default_factory=TopicOptions)


@dataclass(frozen=True, slots=True)
class PurgeTopic(OfTopic[None]):
    """Deletes the messages of all partitions."""


@dataclass(frozen=True, slots=True)
class CreatePartitions(OfTopic[None]):
    """Adds *count* partitions."""

    count: int


@dataclass(frozen=True, slots=True)
class DeletePartitions(OfTopic[None]):
    """Deletes the *count* last partitions."""

    count: int


@dataclass(frozen=True, slots=True)
class DeleteSegments(OfTopic[None]):
    """Deletes the *count* oldest of the partition's files."""

    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class GetGroup(OfGroup[replies.GroupDetails | None]):
    """Asks for a group and its members."""


@dataclass(frozen=True, slots=True)
class GetGroups(OfTopic[tuple[replies.GroupInfo, ...]]):
    """Asks for all groups of a topic."""


@dataclass(frozen=True, slots=True)
class CreateGroup(OfTopic[replies.GroupInfo | None]):
    """Creates a group; R0 and R0B answer None.

    *name* is None in R0, whose groups have none; *id* as in IggyCreateStream.
    """

    name: str | None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup(OfGroup[None]):
    """Deletes a group with its offsets."""


@dataclass(frozen=True, slots=True)
class JoinGroup(OfGroup[None]):
    """Makes the connection a member."""


@dataclass(frozen=True, slots=True)
class LeaveGroup(OfGroup[None]):
    """Ends the connection's membership."""


@dataclass(frozen=True, slots=True)
class SyncGroup(OfGroup[replies.GroupAssignment | None]):
    """R3: asks for the member's partitions; None: it is none."""
