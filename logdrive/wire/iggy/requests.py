"""Requests, each as a class common to all revisions. See docs/protocols/iggy.md#commands.

A field that a revision does not have is None, or what its comment says. Partitions are counted from
0 in every revision; times and durations are µs.
"""

from dataclasses import dataclass, field

from logdrive.model.framing import Part
from logdrive.wire.iggy.identifiers import Consumer, Identifier, Partitioning, PollingStrategy
from logdrive.wire.iggy.options import OptionScope, TopicOptions
from logdrive.wire.iggy.permissions import Permissions


class IggyRequest:
    """One request; the table of all is in `logdrive.wire.iggy.commands`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Ping(IggyRequest):
    """Renews the heartbeat; allowed without a login."""


@dataclass(frozen=True, slots=True)
class GetStats(IggyRequest):
    """Answered with ServerStats."""


@dataclass(frozen=True, slots=True)
class GetSnapshot(IggyRequest):
    """Asks for an archive of the server's state; answered with bytes."""

    compression: int
    kinds: bytes  # one byte each


@dataclass(frozen=True, slots=True)
class GetClusterMetadata(IggyRequest):
    """Answered with ClusterMetadata."""


@dataclass(frozen=True, slots=True)
class DescribeOptions(IggyRequest):
    """R3. Answered with a tuple of OptionDescription."""

    scope: OptionScope


@dataclass(frozen=True, slots=True)
class GetMe(IggyRequest):
    """Answered with the ClientDetails of the one who asks."""


@dataclass(frozen=True, slots=True)
class GetClient(IggyRequest):
    """Answered with ClientDetails, or None."""

    client: int


@dataclass(frozen=True, slots=True)
class GetClients(IggyRequest):
    """Answered with a tuple of ClientInfo."""


@dataclass(frozen=True, slots=True)
class GetUser(IggyRequest):
    """Answered with UserDetails, or None."""

    user: Identifier


@dataclass(frozen=True, slots=True)
class GetUsers(IggyRequest):
    """Answered with a tuple of UserInfo."""


@dataclass(frozen=True, slots=True)
class CreateUser(IggyRequest):
    """Answered with UserDetails."""

    name: str
    password: str
    active: bool = True
    permissions: Permissions | None = None


@dataclass(frozen=True, slots=True)
class DeleteUser(IggyRequest):
    """Answered with None."""

    user: Identifier


@dataclass(frozen=True, slots=True)
class UpdateUser(IggyRequest):
    """Changes what is given. Answered with None."""

    user: Identifier
    name: str | None = None
    active: bool | None = None


@dataclass(frozen=True, slots=True)
class UpdatePermissions(IggyRequest):
    """Replaces a user's permissions; None takes all. Answered with None."""

    user: Identifier
    permissions: Permissions | None = None


@dataclass(frozen=True, slots=True)
class ChangePassword(IggyRequest):
    """Answered with None."""

    user: Identifier
    current: str
    new: str


@dataclass(frozen=True, slots=True)
class IggyLogin(IggyRequest):
    """Answered with LoggedIn. *version* and *context* are the client library's own; None in R0B."""

    user: str
    password: str
    version: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class LoginWithToken(IggyRequest):
    """Answered with LoggedIn. *token* is the secret that RawToken gave."""

    token: str


@dataclass(frozen=True, slots=True)
class Logout(IggyRequest):
    """Answered with None."""


@dataclass(frozen=True, slots=True)
class GetTokens(IggyRequest):
    """Answered with a tuple of TokenInfo: those of the user who asks."""


@dataclass(frozen=True, slots=True)
class CreateToken(IggyRequest):
    """Answered with RawToken. *expiry_us*: for how long, or NEVER; None: the server's default."""

    name: str
    expiry_us: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteToken(IggyRequest):
    """Answered with None."""

    name: str


@dataclass(frozen=True, slots=True)
class PollMessages(IggyRequest):
    """Answered with Polled. *partition*: None if the request names none."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition: int | None
    strategy: PollingStrategy
    count: int
    auto_commit: bool = False


@dataclass(frozen=True, slots=True)
class SendMessages(IggyRequest):
    """Answered with a tuple of SendConfirmation in R3, else with None.

    *batch* are the bytes of the messages as the revision has them, not looked at yet: with index
    entries in R2A to R2C, with the batch's head in R3. It may be a view of the frame. *count* is
    the number of messages that the request announces; None in R0 to R1, which announce none.
    """

    stream: Identifier
    topic: Identifier
    partitioning: Partitioning
    batch: Part
    count: int | None = None


@dataclass(frozen=True, slots=True)
class FlushPartition(IggyRequest):
    """Asks that what is acknowledged be on disk. Answered with None."""

    stream: Identifier
    topic: Identifier
    partition: int
    fsync: bool


@dataclass(frozen=True, slots=True)
class GetConsumerOffset(IggyRequest):
    """Answered with ConsumerOffset, or None if none is stored."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition: int | None


@dataclass(frozen=True, slots=True)
class StoreConsumerOffset(IggyRequest):
    """Answered with None. *quorum*: R3's wish for the acknowledgement of all replicas."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition: int | None
    offset: int
    quorum: bool = True


@dataclass(frozen=True, slots=True)
class DeleteConsumerOffset(IggyRequest):
    """Answered with None."""

    consumer: Consumer
    stream: Identifier
    topic: Identifier
    partition: int | None
    quorum: bool = True


@dataclass(frozen=True, slots=True)
class GetStream(IggyRequest):
    """Answered with StreamDetails, or None."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class GetStreams(IggyRequest):
    """Answered with a tuple of IggyStreamInfo."""


@dataclass(frozen=True, slots=True)
class IggyCreateStream(IggyRequest):
    """Answered with IggyStreamInfo; in R0 and R0B that is not sent.

    *id* is chosen by the client up to R2A: always in R0 and R0B, or None for the server's choice.
    """

    name: str
    id: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteStream(IggyRequest):
    """Answered with None."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class UpdateStream(IggyRequest):
    """Gives the stream another name. Answered with None."""

    stream: Identifier
    name: str


@dataclass(frozen=True, slots=True)
class PurgeStream(IggyRequest):
    """Deletes the messages of all topics. Answered with None."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class GetTopic(IggyRequest):
    """Answered with TopicDetails, or None."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class GetTopics(IggyRequest):
    """Answered with a tuple of TopicInfo."""

    stream: Identifier


@dataclass(frozen=True, slots=True)
class CreateTopic(IggyRequest):
    """Answered with TopicDetails; in R0 and R0B that is not sent. *id* as in IggyCreateStream."""

    stream: Identifier
    name: str
    partitions: int
    options: TopicOptions = field(default_factory=TopicOptions)
    id: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopic(IggyRequest):
    """Answered with None."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class UpdateTopic(IggyRequest):
    """Gives the topic another name, and changes the options given. Answered with None."""

    stream: Identifier
    topic: Identifier
    name: str
    options: TopicOptions = field(default_factory=TopicOptions)


@dataclass(frozen=True, slots=True)
class PurgeTopic(IggyRequest):
    """Deletes the messages of all partitions. Answered with None."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class CreatePartitions(IggyRequest):
    """Adds *count* partitions. Answered with None."""

    stream: Identifier
    topic: Identifier
    count: int


@dataclass(frozen=True, slots=True)
class DeletePartitions(IggyRequest):
    """Deletes the *count* last partitions. Answered with None."""

    stream: Identifier
    topic: Identifier
    count: int


@dataclass(frozen=True, slots=True)
class DeleteSegments(IggyRequest):
    """Deletes the *count* oldest of the partition's files. Answered with None."""

    stream: Identifier
    topic: Identifier
    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class GetGroup(IggyRequest):
    """Answered with GroupDetails, or None."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class GetGroups(IggyRequest):
    """Answered with a tuple of GroupInfo."""

    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True)
class CreateGroup(IggyRequest):
    """Answered with GroupInfo; in R0 and R0B that is not sent.

    *name* is None in R0, whose groups have none; *id* as in IggyCreateStream.
    """

    stream: Identifier
    topic: Identifier
    name: str | None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup(IggyRequest):
    """Answered with None."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class JoinGroup(IggyRequest):
    """Makes the connection a member. Answered with None."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class LeaveGroup(IggyRequest):
    """Answered with None."""

    stream: Identifier
    topic: Identifier
    group: Identifier


@dataclass(frozen=True, slots=True)
class SyncGroup(IggyRequest):
    """R3: asks for the member's partitions. Answered with GroupAssignment; None: not a member."""

    stream: Identifier
    topic: Identifier
    group: Identifier
