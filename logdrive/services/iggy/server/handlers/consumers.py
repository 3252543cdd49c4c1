"""Consumers and groups: which partition a request means, and under which key its offset is."""

from typing import NamedTuple

from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.offsets import consumer_key, group_key
from logdrive.services.iggy.server.state.rebalancing import GroupMembers
from logdrive.services.iggy.server.state.topology import FoundTopic
from logdrive.wire.iggy.errors import IggyError, Reason, group_not_found, partition_not_found
from logdrive.wire.iggy.identifiers import Consumer, ConsumerKind, Identifier
from logdrive.wire.iggy.revision import Revision


class ConsumerPlace(NamedTuple):
    """A partition and its *segment*, the consumer's *key* there, and its *group*, if it is one."""

    partition: int
    segment: str
    key: str
    group: GroupMembers | None = None


def find_group(service: IggyService, topic: FoundTopic, group: Identifier) -> int:
    """Return the number of a group of *topic*. Raises `IggyError`."""
    groups = service.registry.state.groups(*topic.key)
    for id_, name in groups.items():
        if group in (id_, name):
            return id_
    raise group_not_found(group)


def place_to_poll(
    service: IggyService,
    session: IggySession,
    topic: FoundTopic,
    consumer: Consumer,
    partition: int | None,
) -> ConsumerPlace | None:
    """Return where a poll reads; None if the member of a group has no partition now.

    A member of a group polls its partitions in turn, unless it names one; in R0 it can't name one.
    """
    if consumer.kind is ConsumerKind.CONSUMER:
        return _place_of_consumer(session, topic, consumer, partition)
    group = find_group(service, topic, consumer.id)
    members = service.members.group(topic, group)
    _check_member(members, session)
    if partition is None or session.revision is Revision.R0:
        partition = members.next_partition(session.client_id)
        if partition is None:
            return None
    else:
        segment = topic.segment(partition)
        owns = partition in members.partitions_of(session.client_id)
        if session.revision >= Revision.R3 and not owns:
            raise IggyError(
                Reason.PARTITION_NOT_OWNED, f"partition {partition} is another member's: sync"
            )
        members.members[session.client_id].current = partition
        return ConsumerPlace(partition, segment, group_key(group), members)
    return ConsumerPlace(partition, topic.segment(partition), group_key(group), members)


def place_of_offset(
    service: IggyService,
    session: IggySession,
    topic: FoundTopic,
    consumer: Consumer,
    partition: int | None,
) -> ConsumerPlace:
    """Return where a consumer's offset is; for a group without a partition, where it polled last.

    Raises `IggyError`.
    """
    if consumer.kind is ConsumerKind.CONSUMER:
        return _place_of_consumer(session, topic, consumer, partition)
    group = find_group(service, topic, consumer.id)
    members = service.members.group(topic, group)
    if partition is None or session.revision is Revision.R0:
        _check_member(members, session)
        partition = members.members[session.client_id].current
        if partition is None:
            partition = next(iter(members.partitions_of(session.client_id)), None)
        if partition is None:
            raise IggyError(Reason.UNRESOLVED_CONSUMER, "the member has no partition: name one")
    return ConsumerPlace(partition, topic.segment(partition), group_key(group), members)


def _place_of_consumer(
    session: IggySession, topic: FoundTopic, consumer: Consumer, partition: int | None
) -> ConsumerPlace:
    if partition is None:
        if session.revision is Revision.R0:  # 0 is no partition there
            raise partition_not_found(None)
        partition = 0
    return ConsumerPlace(partition, topic.segment(partition), consumer_key(consumer.id))


def _check_member(members: GroupMembers, session: IggySession) -> None:
    if session.client_id not in members.members:
        raise IggyError(Reason.GROUP_MEMBER_NOT_FOUND, "the client has not joined the group")
