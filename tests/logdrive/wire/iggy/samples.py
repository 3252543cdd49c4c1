"""Hypothesis strategies: any request and any reply that a revision can say."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from logdrive.wire.iggy import replies, requests
from logdrive.wire.iggy.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
    ToPartition,
)
from logdrive.wire.iggy.limits import U8_MAX, U32_MAX, U64_MAX
from logdrive.wire.iggy.options import (
    Durability,
    IggyCompression,
    OptionScope,
    TopicOptions,
)
from logdrive.wire.iggy.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from logdrive.wire.iggy.replies import IggyReply
from logdrive.wire.iggy.requests import IggyRequest
from logdrive.wire.iggy.revision import Revision

Values = st.SearchStrategy[Any]

u8 = st.integers(0, U8_MAX)
u16 = st.integers(0, 2**16 - 1)
u32 = st.integers(0, U32_MAX)
u64 = st.integers(0, U64_MAX)
flags = st.booleans()
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
short_texts = st.text(max_size=40)
names = st.text(min_size=1, max_size=40)
kept_names = st.from_regex(r"[a-zäß0-9_-]{1,20}(\.[a-z]{1,5})?", fullmatch=True)
identifiers = u32 | names
partitions = st.integers(0, U32_MAX - 1)
payloads = st.binary(max_size=80)
seconds = st.integers(1, U32_MAX).map(lambda value: value * 1_000_000)
given_u64 = st.none() | st.integers(1, U64_MAX)
secrets = st.text(max_size=40)
permissions = st.builds(
    Permissions,
    st.builds(GlobalPermissions, *[flags] * 10),
    st.lists(
        st.builds(
            StreamPermissions,
            u32,
            *[flags] * 6,
            st.lists(st.builds(TopicPermissions, u32, *[flags] * 4), max_size=3).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
)


def options(revision: Revision) -> Values:
    if revision <= Revision.R0B:
        return st.builds(TopicOptions, expiry_us=st.just(U64_MAX) | seconds)
    if revision <= Revision.R2C:
        return st.builds(
            TopicOptions,
            compression=st.sampled_from(IggyCompression),
            expiry_us=given_u64,
            max_size=given_u64,
            replication=st.none() | st.integers(1, U8_MAX),
        )
    durabilities = st.none() | st.sampled_from(Durability)
    return st.builds(
        TopicOptions,
        compression=st.none() | st.sampled_from(IggyCompression),
        expiry_us=st.none() | u64,
        max_size=st.none() | u64,
        replication=st.none(),
        segment_size=st.none() | u64,
        messages_required_to_save=st.none() | u32,
        size_required_to_save=st.none() | u64,
        preallocate=st.none() | flags,
        enforce_fsync=st.none() | flags,
        durability=durabilities,
        consumer_offset_durability=durabilities,
    )


def new_names(revision: Revision) -> Values:
    return kept_names if revision <= Revision.R0B else names


def chosen_ids(revision: Revision) -> Values:
    if revision <= Revision.R0B:
        return st.integers(1, U32_MAX)
    return st.none() | st.integers(1, U32_MAX) if revision <= Revision.R2A else st.none()


def group_ids(revision: Revision) -> Values:
    return u32 if revision is Revision.R0 else identifiers


def any_request(revision: Revision, kind: type[IggyRequest]) -> Values:
    """Return what makes requests of the class *kind* that *revision* can say."""
    r3 = revision is Revision.R3
    consumers = st.builds(Consumer, st.sampled_from(ConsumerKind), group_ids(revision))
    fields: dict[str, Values] = {
        "active": flags if kind is requests.CreateUser else st.none() | flags,
        "auto_commit": flags,
        "batch": payloads,
        "client": u32,
        "compression": u8,
        "consumer": consumers,
        "count": u32,
        "current": secrets,
        "expiry_us": given_u64,
        "fsync": flags,
        "group": group_ids(revision),
        "id": chosen_ids(revision),
        "kinds": payloads,
        "name": new_names(revision),
        "new": secrets,
        "offset": u64,
        "options": options(revision),
        "partition": st.none() | partitions,
        "partitioning": st.builds(Balanced)
        | st.builds(ToPartition, partitions)
        | st.builds(ByKey, st.binary(min_size=1, max_size=255)),
        "partitions": u32,
        "password": secrets,
        "permissions": st.none() | permissions,
        "quorum": flags if r3 else st.just(True),
        "scope": st.sampled_from(OptionScope),
        "strategy": st.builds(PollingStrategy, st.sampled_from(PollingKind), u64),
        "stream": identifiers,
        "token": secrets,
        "topic": identifiers,
        "user": identifiers,
    }
    if kind is requests.IggyLogin:
        own = short_texts if revision >= Revision.R1 else st.none()
        fields |= {"user": short_texts, "version": own, "context": own}
    if kind is requests.UpdateUser:
        fields["name"] = st.none() | short_texts
    if kind is requests.SendMessages and revision < Revision.R2A:
        fields["count"] = st.none()
    if kind is requests.CreateGroup and revision is Revision.R0:
        fields["name"] = st.none()
    if kind in {requests.FlushPartition, requests.DeleteSegments}:
        fields["partition"] = partitions
    names_of: dict[str, Any] = getattr(kind, "__dataclass_fields__", {})
    return st.builds(kind, **{name: fields[name] for name in names_of})


def many(values: Values) -> Values:
    return st.lists(values, max_size=3).map(tuple)


def _streams(revision: Revision) -> Values:
    return st.builds(replies.IggyStreamInfo, u32, u64, u32, u64, u64, short_texts)


def _topics(revision: Revision) -> Values:
    fields: dict[str, Values] = {"expiry_us": seconds | st.just(U64_MAX)}
    if revision >= Revision.R1:
        fields = {
            "expiry_us": u64,
            "compression": st.sampled_from(IggyCompression),
            "max_size": u64,
            "replication": u8 if revision <= Revision.R2C else st.just(1),
        }
    if revision is Revision.R3:
        fields |= {"options": options(revision), "derived": options(revision)}
    else:
        fields |= {"options": st.builds(TopicOptions), "derived": st.builds(TopicOptions)}
    return st.builds(replies.TopicInfo, u32, u64, u32, u64, u64, short_texts, **fields)


def _partitions(revision: Revision) -> Values:
    return st.builds(replies.PartitionInfo, partitions, u64, u32, u64, u64, u64)


def _groups(revision: Revision) -> Values:
    name = st.just("") if revision is Revision.R0 else short_texts
    return st.builds(replies.GroupInfo, u32, u32, u32, name)


def _clients(revision: Revision) -> Values:
    user = st.just(0) if revision is Revision.R0 else u32
    transports = st.sampled_from(replies.ClientTransport)
    return st.builds(replies.ClientInfo, u32, transports, short_texts, u32, user)


def _client_details(revision: Revision) -> Values:
    memberships = st.builds(replies.Membership, u32, u32, u32)
    return st.builds(replies.ClientDetails, _clients(revision), many(memberships))


def _users(revision: Revision) -> Values:
    return st.builds(replies.UserInfo, u32, u64, flags, short_texts)


def _user_details(revision: Revision) -> Values:
    return st.builds(replies.UserDetails, _users(revision), st.none() | permissions)


def _stats(revision: Revision) -> Values:
    times = seconds if revision <= Revision.R0B else u64
    numbers = [times, times, u64, u64, u64, u32, u32, u32, u32, u64, u32, u32]
    texts = [short_texts] * 4
    later: dict[str, Values] = {}
    if revision >= Revision.R1:
        metrics = st.builds(replies.CacheMetrics, u32, u32, partitions, u64, u64, floats)
        later = {
            "total_cpu": floats,
            "version": short_texts,
            "semver": u32,
            "caches": many(metrics),
        }
    if revision >= Revision.R2A:
        later |= {"threads": u32, "disk_free": u64, "disk_total": u64}
    return st.builds(replies.ServerStats, u32, floats, u64, u64, u64, *numbers, *texts, **later)


def _created(values: Callable[[Revision], Values]) -> Callable[[Revision], Values]:
    """Return the same, for what R0 and R0B do not tell."""
    return lambda revision: st.none() if revision <= Revision.R0B else values(revision)


def _found(values: Callable[[Revision], Values]) -> Callable[[Revision], Values]:
    """Return the same, or None where that is told by an empty reply."""
    return lambda revision: (
        values(revision) if revision <= Revision.R0B else st.none() | values(revision)
    )


def _topic_details(revision: Revision) -> Values:
    return st.builds(replies.TopicDetails, _topics(revision), many(_partitions(revision)))


def _stream_details(revision: Revision) -> Values:
    return st.builds(replies.StreamDetails, _streams(revision), many(_topics(revision)))


def _group_details(revision: Revision) -> Values:
    members = st.builds(replies.MemberInfo, u32, many(partitions))
    return st.builds(replies.GroupDetails, _groups(revision), many(members))


def _logged_in(revision: Revision) -> Values:
    return st.builds(replies.LoggedIn, u32)


def _confirmations(revision: Revision) -> Values:
    confirmations = st.builds(replies.SendConfirmation, u32, u32, u32, u64)
    return many(confirmations) if revision is Revision.R3 else st.none()


REPLIES: dict[type[IggyRequest], Callable[[Revision], Values]] = {
    requests.GetStats: _stats,
    requests.GetSnapshot: lambda _: st.binary(min_size=1, max_size=80),
    requests.GetClusterMetadata: lambda _: st.builds(
        replies.ClusterMetadata,
        short_texts,
        many(st.builds(replies.ClusterNode, short_texts, short_texts, u16, u16, u16, u16, u8, u8)),
    ),
    requests.DescribeOptions: lambda _: many(
        st.builds(replies.OptionDescription, short_texts, u8, payloads, short_texts)
    ),
    requests.GetMe: _client_details,
    requests.GetClient: _found(_client_details),
    requests.GetClients: lambda revision: many(_clients(revision)),
    requests.GetUser: _found(_user_details),
    requests.GetUsers: lambda revision: many(_users(revision)),
    requests.CreateUser: _user_details,
    requests.IggyLogin: _logged_in,
    requests.LoginWithToken: _logged_in,
    requests.GetTokens: lambda _: many(
        st.builds(replies.TokenInfo, short_texts, st.none() | st.integers(1, U64_MAX))
    ),
    requests.CreateToken: lambda _: st.builds(replies.RawToken, names),
    requests.PollMessages: lambda _: st.builds(replies.Polled, partitions, u64, u32, payloads),
    requests.SendMessages: _confirmations,
    requests.GetConsumerOffset: _found(
        lambda _: st.builds(replies.ConsumerOffset, partitions, u64, u64)
    ),
    requests.GetStream: _found(_stream_details),
    requests.GetStreams: lambda revision: many(_streams(revision)),
    requests.IggyCreateStream: _created(_streams),
    requests.GetTopic: _found(_topic_details),
    requests.GetTopics: lambda revision: many(_topics(revision)),
    requests.CreateTopic: _created(_topic_details),
    requests.GetGroup: _found(_group_details),
    requests.GetGroups: lambda revision: many(_groups(revision)),
    requests.CreateGroup: _created(_groups),
    requests.SyncGroup: lambda _: (
        st.none() | st.builds(replies.GroupAssignment, u64, many(partitions))
    ),
}


def any_reply(revision: Revision, kind: type[IggyRequest]) -> st.SearchStrategy[IggyReply]:
    """Return what makes replies to requests of the class *kind* that *revision* can say."""
    values = REPLIES.get(kind)
    return st.none() if values is None else values(revision)
