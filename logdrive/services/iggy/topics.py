"""The topic of a sink: found or created, and what an acknowledgement is worth there."""

import re
from typing import Final

from logdrive.errors import TransientError
from logdrive.services.iggy.client.errors import EXISTS, MISSING_TOPIC, IggyUnavailableError
from logdrive.services.iggy.client.session import IggyClientSession
from logdrive.services.iggy.own_cluster import CLUSTER
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.limits import NEVER, UNLIMITED
from logdrive.wire.iggy.options import Durability, OptionScope, TopicOptions
from logdrive.wire.iggy.replies import TopicDetails
from logdrive.wire.iggy.requests import (
    CreateTopic,
    DescribeOptions,
    GetClusterMetadata,
    GetStats,
    GetStreams,
    GetTopic,
    GetTopics,
    IggyCreateStream,
)
from logdrive.wire.iggy.revision import Revision

_TRIES: Final = 4  # stream, topic, and once more for what others do meanwhile
_WHITE: Final = re.compile(r"\s+")


def kept_name(revision: Revision, name: str) -> str:
    """Return *name* as a service keeps it: R0 changes what is created, and finds only that."""
    return _WHITE.sub(".", name.lower()) if revision is Revision.R0 else name


async def find_topic(session: IggyClientSession, stream: str, topic: str) -> TopicDetails | None:
    """Return the topic, its partitions by number; None if it, or its stream, is missing.

    Raises `TransientError` and `IggyError`.
    """
    kept = [kept_name(session.revision, name) for name in (stream, topic)]
    try:
        details = await session.request(GetTopic(*kept))
    except IggyError as error:
        if error.reason in MISSING_TOPIC:
            return None
        raise
    if details is None:
        return None
    partitions = sorted(details.partitions, key=lambda one: one.index)
    return TopicDetails(details.topic, tuple(partitions))


async def ensure_topic(
    session: IggyClientSession, stream: str, topic: str, partitions: int
) -> TopicDetails:
    """Return the topic, created with so many partitions if it is missing, and its stream, too.

    Raises `TransientError` and `IggyError`.
    """
    for _ in range(_TRIES):
        found = await find_topic(session, stream, topic)
        if found is not None:
            return found
        await _create_stream(session, stream)
        await _create_topic(session, stream, topic, partitions)
    raise TransientError(f"{session.where}: {stream}/{topic} was created and is not there")


async def _create_stream(session: IggyClientSession, stream: str) -> None:
    streams = await session.request(GetStreams())
    name = kept_name(session.revision, stream)
    if any(one.name == name for one in streams):
        return
    number = _free_number(session.revision, [one.id for one in streams])
    try:
        await session.request(IggyCreateStream(name, number))
    except IggyError as error:  # another may have created it meanwhile
        if error.reason not in EXISTS:
            raise


async def _create_topic(
    session: IggyClientSession, stream: str, topic: str, partitions: int
) -> None:
    within = kept_name(session.revision, stream)
    topics = await session.request(GetTopics(within))
    name = kept_name(session.revision, topic)
    number = _free_number(session.revision, [one.id for one in topics])
    options = await _durable_options(session)
    try:
        await session.request(CreateTopic(within, name, partitions, options, number))
    except IggyError as error:
        if error.reason not in EXISTS:
            raise


def _free_number(revision: Revision, taken: list[int]) -> int | None:
    """Return the number of something new, None where the service chooses it."""
    return max(taken, default=0) + 1 if revision <= Revision.R0B else None


async def _durable_options(session: IggyClientSession) -> TopicOptions:
    """Return options with which nothing is removed, and acknowledgements are durable where the
    revision has such options.
    """
    if session.revision < Revision.R1:
        return TopicOptions()
    if session.revision < Revision.R3:
        return TopicOptions(expiry_us=NEVER, max_size=UNLIMITED)
    described = await session.request(DescribeOptions(OptionScope.TOPIC))
    keys = {one.key for one in described}
    return TopicOptions(
        enforce_fsync=True if "enforce_fsync" in keys else None,
        messages_required_to_save=1 if "messages_required_to_save" in keys else None,
        durability=Durability.PERSISTED if "durability" in keys else None,
    )


async def why_not_durable(session: IggyClientSession, details: TopicDetails | None) -> str:
    """Return why an acknowledgement may be lost with the service's memory; "" if it is durable.

    *details* are None for a topic that `ensure_topic` is to create.

    Raises `TransientError`.
    """
    if await _is_own(session):
        return ""
    if session.revision < Revision.R3:
        remedy = (
            "unless it runs with messages_required_to_save = 1 and enforce_fsync = true, which a "
            "client can't see"
        )
        if session.revision < Revision.R1:
            remedy += "; now and then even then"  # seen in about one of ten kills
        return (
            "an acknowledgement of this service means that it has the messages in memory: if it is "
            f"killed, they are lost, {remedy}"
        )
    if details is None:
        return ""
    options = details.topic.options
    saved = options.enforce_fsync and options.messages_required_to_save == 1
    if saved or options.durability is Durability.PERSISTED:
        return ""
    return (
        "an acknowledgement of this topic means that the service has the messages in memory: if it "
        "is killed, they are lost; create the topic with enforce_fsync = true and "
        "messages_required_to_save = 1, as this receiver does where it is missing"
    )


async def _is_own(session: IggyClientSession) -> bool:
    """Whether the service is a store of ours: the name of its cluster tells, or its version."""
    if session.revision < Revision.R1:
        return False
    try:
        if session.revision < Revision.R2B:
            return (await session.request(GetStats())).version.startswith(f"{CLUSTER} ")
        return (await session.request(GetClusterMetadata())).name == CLUSTER
    except (IggyError, IggyUnavailableError):
        return False
