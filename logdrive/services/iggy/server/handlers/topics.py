"""Topics and their partitions: listed, created, changed, emptied, deleted."""

from dataclasses import fields, replace
from typing import Final

from logdrive.services.iggy.server.handlers.figures import estimates, topic_details, topic_info
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.log.partition import SEGMENT_BYTES
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.names import requested_name
from logdrive.services.iggy.server.state.rights import Right, named_topic_target
from logdrive.services.iggy.server.state.topology import FoundTopic
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import Identifier
from logdrive.wire.iggy.limits import PARTITIONS, R0_PARTITIONS
from logdrive.wire.iggy.options import TopicOptions
from logdrive.wire.iggy.replies import TopicDetails, TopicInfo
from logdrive.wire.iggy.requests import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from logdrive.wire.iggy.revision import Revision

_CHANGEABLE: Final = ("compression", "expiry_us", "max_size", "replication")


async def _topic_of(
    service: IggyService,
    session: IggySession,
    stream: Identifier,
    topic: Identifier,
    right: Right = Right.MANAGE_TOPIC,
) -> FoundTopic:
    found = await service.topology.topic(stream, topic)
    service.check(session, right, found.target)
    return found


async def get_topic(service: IggyService, session: IggySession, request: GetTopic) -> TopicDetails:
    """Return a topic and its partitions."""
    found = await _topic_of(service, session, request.stream, request.topic, Right.READ_TOPIC)
    return await topic_details(service, found)


async def get_topics(
    service: IggyService, session: IggySession, request: GetTopics
) -> tuple[TopicInfo, ...]:
    """Return the topics that the user may read; refused if that is none of those there are."""
    assert session.user_id is not None
    topics = await service.topology.topics(request.stream)
    shown = [
        topic
        for topic in topics
        if service.users.permits(session.user_id, Right.READ_TOPIC, topic.target)
    ]
    if not shown:
        service.check(session, Right.READ_STREAM, await service.topology.target(request.stream))
    return tuple(topic_info(topic, estimates(service, topic)) for topic in shown)


async def create_topic(
    service: IggyService, session: IggySession, request: CreateTopic
) -> TopicDetails:
    """Create a topic."""
    target = await service.topology.target(request.stream)
    name = _name(request.name, session)
    service.check(session, Right.MANAGE_TOPIC, named_topic_target(target, name))
    least = 1 if session.revision <= Revision.R0B else 0
    _check_partitions(request.partitions, session.revision, least)
    found = await service.changes.create_topic(
        request.stream, name, request.partitions, request.options, request.id
    )
    return await topic_details(service, found)


async def update_topic(service: IggyService, session: IggySession, request: UpdateTopic) -> None:
    """Give a topic another name and other options; those that are not given stay."""
    found = await _topic_of(service, session, request.stream, request.topic)
    options = _changed(found.topic.options, request.options)
    name = _name(request.name, session)
    if name != found.topic.name:
        # else it could be put where others send to the topic of that name
        service.check(session, Right.MANAGE_TOPIC, named_topic_target(found.target, name))
    await service.changes.update_topic(request.stream, request.topic, name, options)


async def delete_topic(service: IggyService, session: IggySession, request: DeleteTopic) -> None:
    """Delete a topic."""
    found = await _topic_of(service, session, request.stream, request.topic)
    await service.changes.delete_topic(request.stream, request.topic)
    await service.forget_topic(
        *found.key, [segment for segment in found.segments if segment is not None]
    )


async def purge_topic(service: IggyService, session: IggySession, request: PurgeTopic) -> None:
    """Delete all messages of a topic; offsets go on behind them."""
    found = await _topic_of(service, session, request.stream, request.topic)
    for segment in found.segments:
        if segment is not None:
            await service.empty(segment)


async def create_partitions(
    service: IggyService, session: IggySession, request: CreatePartitions
) -> None:
    """Add partitions to a topic."""
    await _topic_of(service, session, request.stream, request.topic)
    _check_partitions(request.count, session.revision, 1)
    await service.changes.add_partitions(request.stream, request.topic, request.count)


async def delete_partitions(
    service: IggyService, session: IggySession, request: DeletePartitions
) -> None:
    """Delete the last partitions of a topic."""
    await _topic_of(service, session, request.stream, request.topic)
    _check_partitions(request.count, session.revision, 1)
    deleted = await service.changes.delete_partitions(request.stream, request.topic, request.count)
    await service.offsets.forget(deleted)


async def delete_segments(
    service: IggyService, session: IggySession, request: DeleteSegments
) -> None:
    """Delete the oldest messages of a partition, in pieces of the topic's segment size."""
    found = await _topic_of(service, session, request.stream, request.topic)
    log = await service.open_partition(found, request.partition)
    await log.delete_segments(request.count, found.topic.options.segment_size or SEGMENT_BYTES)


def _changed(before: TopicOptions, given: TopicOptions) -> TopicOptions:
    """Return *before* with the options *given*, as far as a topic's can be changed."""
    names = [field.name for field in fields(given) if getattr(given, field.name) is not None]
    if fixed := [name for name in names if name not in _CHANGEABLE]:
        raise IggyError(
            Reason.UNKNOWN_OPTION, f"{fixed[0]} is chosen when the topic is created, once"
        )
    return replace(before, **{name: getattr(given, name) for name in names})


def _check_partitions(count: int, revision: Revision, least: int) -> None:
    most = R0_PARTITIONS if revision is Revision.R0 else PARTITIONS
    if not least <= count <= most:
        raise IggyError(Reason.TOO_MANY_PARTITIONS, f"{least} to {most} partitions, not {count}")


def _name(name: str, session: IggySession) -> str:
    if (wanted := requested_name(name, session.revision)) is None:
        raise IggyError(Reason.INVALID_TOPIC_NAME, "a topic's name has 1 to 255 bytes")
    return wanted
