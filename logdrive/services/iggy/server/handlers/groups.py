"""Consumer groups: created and deleted, joined and left."""

from msgspec.structs import replace

from logdrive.services.iggy.server.handlers.consumers import find_group
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.names import requested_name
from logdrive.services.iggy.server.state.offsets import group_key
from logdrive.services.iggy.server.state.records import ConsumerGroupPut, IggyPut, TopicPut
from logdrive.services.iggy.server.state.rights import Right
from logdrive.services.iggy.server.state.topology import FoundTopic
from logdrive.wire.iggy.errors import IggyError, Reason, topic_not_found
from logdrive.wire.iggy.identifiers import Identifier
from logdrive.wire.iggy.replies import GroupAssignment, GroupDetails, GroupInfo, MemberInfo
from logdrive.wire.iggy.requests import (
    CreateGroup,
    DeleteGroup,
    GetGroup,
    GetGroups,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)

_GROUPS = 10_000
"""Limit on the groups of one topic."""


async def _topic_of(
    service: IggyService, session: IggySession, stream: Identifier, topic: Identifier
) -> FoundTopic:
    found = await service.topology.topic(stream, topic)
    service.check(session, Right.READ_TOPIC, found.target)
    return found


async def get_group(
    service: IggyService, session: IggySession, request: GetGroup
) -> GroupDetails | None:
    """Return a group and its members."""
    topic = await _topic_of(service, session, request.stream, request.topic)
    group = find_group(service, topic, request.group)
    members = service.members.group(topic, group)
    shown = tuple(MemberInfo(client, members.partitions_of(client)) for client in members.members)
    return GroupDetails(_info(service, topic, group), shown)


async def get_groups(
    service: IggyService, session: IggySession, request: GetGroups
) -> tuple[GroupInfo, ...]:
    """Return all groups of a topic, by number."""
    topic = await _topic_of(service, session, request.stream, request.topic)
    groups = service.registry.state.groups(*topic.key)
    return tuple(_info(service, topic, group) for group in sorted(groups))


async def create_group(
    service: IggyService, session: IggySession, request: CreateGroup
) -> GroupInfo:
    """Create a group with the number that the client chose, or the next one."""
    topic = await _topic_of(service, session, request.stream, request.topic)
    if request.id == 0:
        raise IggyError(Reason.INVALID_GROUP_ID, "a group has a number above 0")
    name = str(request.id) if request.name is None else request.name
    wanted = requested_name(name, session.revision)
    if wanted is None:
        raise IggyError(Reason.INVALID_GROUP_NAME, "a group's name has 1 to 255 bytes")
    async with service.registry.turn() as state:
        registered = state.topic(*topic.key)
        if registered is None:
            raise topic_not_found(request.topic)
        groups, id_, last = state.groups(*topic.key), request.id, registered.last_group
        if id_ is not None and id_ in groups:
            raise IggyError(Reason.GROUP_ID_EXISTS, f"group {id_} exists")
        if wanted in groups.values():
            raise IggyError(Reason.GROUP_NAME_EXISTS, f"group {wanted!r} exists")
        if len(groups) >= _GROUPS:
            raise IggyError(Reason.ERROR, f"the topic has {_GROUPS} groups: delete some")
        puts: list[IggyPut] = []
        if id_ is None:
            while (last := last + 1) in groups:
                pass
            id_ = last
            puts.append(TopicPut(*topic.key, replace(registered, last_group=last)))
        puts.append(ConsumerGroupPut(*topic.key, id_, wanted))
        await service.registry.commit_puts(puts)
    return _info(service, topic, id_)


async def delete_group(service: IggyService, session: IggySession, request: DeleteGroup) -> None:
    """Delete a group with its offsets; its members are none any more."""
    topic = await _topic_of(service, session, request.stream, request.topic)
    async with service.registry.turn():
        group = find_group(service, topic, request.group)
        service.members.drop(*topic.key, group)
        # another group may get the number, and must not go on from here
        for segment in topic.segments:
            if segment is not None and service.offsets.get(segment, group_key(group)) is not None:
                await service.offsets.put(segment, group_key(group), None)
        await service.registry.commit_puts([ConsumerGroupPut(*topic.key, group, None)])


async def join_group(service: IggyService, session: IggySession, request: JoinGroup) -> None:
    """Make the connection a member, until it leaves, logs out or ends."""
    topic = await _topic_of(service, session, request.stream, request.topic)
    group = find_group(service, topic, request.group)
    service.members.join(topic, group, session.client_id, session.revision)
    session.at_end(service.members.ending_of(session.client_id))


async def leave_group(service: IggyService, session: IggySession, request: LeaveGroup) -> None:
    """End a membership."""
    topic = await _topic_of(service, session, request.stream, request.topic)
    group = find_group(service, topic, request.group)
    if not service.members.leave(topic, group, session.client_id):
        raise IggyError(Reason.GROUP_MEMBER_NOT_FOUND, "the client has not joined the group")


async def sync_group(
    service: IggyService, session: IggySession, request: SyncGroup
) -> GroupAssignment | None:
    """Return the partitions of a member; None if the client is none."""
    topic = await _topic_of(service, session, request.stream, request.topic)
    group = find_group(service, topic, request.group)
    members = service.members.group(topic, group)
    member = members.members.get(session.client_id)
    if member is None:
        return None
    member.synced = members.generation
    return GroupAssignment(members.generation, members.partitions_of(session.client_id))


def _info(service: IggyService, topic: FoundTopic, group: int) -> GroupInfo:
    members = service.members.group(topic, group)
    name = service.registry.state.groups(*topic.key).get(group, "")
    return GroupInfo(group, len(topic.indices), len(members.members), name)
