"""Consumer groups over requests: who polls what, and what ends with a connection."""

from logdrive.services.iggy.server.sessions import IggySession
from logdrive.wire.iggy.errors import Reason
from logdrive.wire.iggy.identifiers import Consumer, ConsumerKind
from logdrive.wire.iggy.limits import FENCED_PARTITION
from logdrive.wire.iggy.permissions import ALL_PERMISSIONS
from logdrive.wire.iggy.replies import (
    ClientDetails,
    ConsumerOffset,
    GroupAssignment,
    GroupDetails,
    GroupInfo,
    Membership,
)
from logdrive.wire.iggy.requests import (
    CreateGroup,
    CreatePartitions,
    CreateUser,
    DeleteGroup,
    GetConsumerOffset,
    GetGroup,
    GetGroups,
    GetMe,
    JoinGroup,
    LeaveGroup,
    Logout,
    StoreConsumerOffset,
    SyncGroup,
    UpdatePermissions,
)
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.handlers.harness import (
    NEXT,
    STREAM,
    TOPIC,
    Face,
    iggy_handlers,
    refused,
    with_iggy,
)
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

NAME = "readers"
GROUP = Consumer(ConsumerKind.GROUP, NAME)
JOIN = JoinGroup(STREAM, TOPIC, NAME)


async def with_group(
    face: Face, partitions: int = 4, revision: Revision = Revision.R2C
) -> IggySession:
    session = await face.with_topic(partitions, revision)
    await face.ask(session, CreateGroup(STREAM, TOPIC, NAME), JOIN)
    return session


async def shares(face: Face, session: IggySession) -> dict[int, tuple[int, ...]]:
    found = await face.ask(session, GetGroup(STREAM, TOPIC, NAME))
    assert isinstance(found, GroupDetails)
    return {member.id: member.partitions for member in found.members}


@with_iggy
async def test_groups_are_created_listed_and_deleted(face: Face) -> None:
    session = await face.with_topic(2)
    made = await face.ask(session, CreateGroup(STREAM, TOPIC, NAME))
    assert made == GroupInfo(1, 2, 0, NAME)
    with refused(Reason.GROUP_NAME_EXISTS):
        await face.ask(session, CreateGroup(STREAM, TOPIC, NAME))
    with refused(Reason.GROUP_ID_EXISTS):
        await face.ask(session, CreateGroup(STREAM, TOPIC, "other", 1))
    await face.ask(session, CreateGroup(STREAM, TOPIC, None, 7))
    assert await face.ask(session, GetGroups(STREAM, TOPIC)) == (made, GroupInfo(7, 2, 0, "7"))
    await face.ask(session, DeleteGroup(STREAM, TOPIC, 7))
    assert await face.ask(session, GetGroup(STREAM, TOPIC, 7)) is None
    with refused(Reason.GROUP_NAME_NOT_FOUND):
        await face.ask(session, JoinGroup(STREAM, TOPIC, "missing"))


@with_iggy
async def test_partitions_are_shared_out_as_members_join_and_leave(face: Face) -> None:
    one = await with_group(face)
    two, three = await face.login(), await face.login()
    assert await shares(face, one) == {one.client_id: (0, 1, 2, 3)}
    await face.ask(two, JOIN)
    assert {len(found) for found in (await shares(face, one)).values()} == {2}
    await face.ask(three, JOIN)
    assert sorted(len(found) for found in (await shares(face, one)).values()) == [1, 1, 2]
    await face.ask(two, LeaveGroup(STREAM, TOPIC, NAME))
    with refused(Reason.GROUP_MEMBER_NOT_FOUND):
        await face.ask(two, LeaveGroup(STREAM, TOPIC, NAME))
    # a connection that ends, and a logout
    face.service.sessions.close_session(three)
    assert await shares(face, one) == {one.client_id: (0, 1, 2, 3)}
    await face.ask(one, CreatePartitions(STREAM, TOPIC, 1))
    assert await shares(face, one) == {one.client_id: (0, 1, 2, 3, 4)}
    me = await face.ask(one, GetMe())
    assert isinstance(me, ClientDetails)
    assert me.memberships == (Membership(1, 1, 1),)
    await face.ask(one, Logout())
    assert await shares(face, await face.login()) == {}


@with_iggy
async def test_members_poll_their_partitions_in_turn_and_go_on_for_each_other(face: Face) -> None:
    one = await with_group(face, 2)
    two = await face.login()
    await face.ask(two, JOIN)
    for partition in (0, 1):
        await face.send(one, f"{partition}a", f"{partition}b", to=partition)
    polled = []
    for session in (one, two):
        for _ in range(2):
            found = await face.poll(
                session, None, consumer=GROUP, strategy=NEXT, commit=True, count=1
            )
            polled += found[1]
    assert sorted(polled) == ["0a", "0b", "1a", "1b"]
    face.service.sessions.close_session(two)
    for partition in (0, 1):
        await face.send(one, f"{partition}c", to=partition)
    rest = [
        await face.poll(one, None, consumer=GROUP, strategy=NEXT, commit=True) for _ in range(2)
    ]
    assert sorted(rest) == [(0, ["0c"]), (1, ["1c"])]


@with_iggy
async def test_more_members_than_partitions_and_strangers(face: Face) -> None:
    one = await with_group(face, 1)
    await face.send(one, "a")
    two = await face.login()
    with refused(Reason.GROUP_MEMBER_NOT_FOUND):
        await face.poll(two, None, consumer=GROUP)
    await face.ask(two, JOIN)
    assert (await face.poll(two, None, consumer=GROUP, strategy=NEXT))[1] == []
    assert (await face.poll(one, None, consumer=GROUP, strategy=NEXT))[1] == ["a"]


@with_iggy
async def test_a_partition_waits_for_the_commit_of_what_was_polled(face: Face) -> None:
    one = await with_group(face, 2)
    for partition in (0, 1):
        await face.send(one, "a", "b", to=partition)
        await face.poll(one, None, consumer=GROUP, strategy=NEXT, count=1)
    two = await face.login()
    await face.ask(two, JOIN)
    assert (await shares(face, one))[two.client_id] == ()
    assert len((await shares(face, one))[one.client_id]) == 1
    # the offset is for the partition that was polled last, unless one is named
    await face.ask(one, StoreConsumerOffset(GROUP, STREAM, TOPIC, None, 0))
    assert (await shares(face, one))[two.client_id] == (1,)
    found = await face.ask(two, GetConsumerOffset(GROUP, STREAM, TOPIC, 1))
    assert found == ConsumerOffset(1, 1, 0)
    assert (await face.poll(two, None, consumer=GROUP, strategy=NEXT)) == (1, ["b"])


@with_iggy
async def test_clients_of_r3_sync_and_are_fenced_when_that_is_out_of_date(face: Face) -> None:
    one = await with_group(face, 2, Revision.R3)
    sync = SyncGroup(STREAM, TOPIC, NAME)
    first = await face.ask(one, sync)
    assert isinstance(first, GroupAssignment)
    assert first.partitions == (0, 1)
    assert await face.poll(one, 0, consumer=GROUP, strategy=NEXT) == (0, [])
    two = await face.login(revision=Revision.R3)
    assert await face.ask(two, sync) is None
    await face.ask(two, JOIN)
    second = await face.ask(two, sync)
    assert isinstance(second, GroupAssignment)
    assert len(second.partitions) == 1
    assert second.generation > first.generation
    (lost,) = second.partitions
    with refused(Reason.PARTITION_NOT_OWNED):
        await face.poll(one, lost, consumer=GROUP, strategy=NEXT)
    assert await face.poll(one, 1 - lost, consumer=GROUP, strategy=NEXT) == (FENCED_PARTITION, [])
    await face.ask(one, sync)
    assert await face.poll(one, 1 - lost, consumer=GROUP, strategy=NEXT) == (1 - lost, [])


def test_groups_and_their_offsets_are_there_after_a_crash_and_members_are_not() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_handlers(disk, clean=False) as face:
            one = await with_group(face, 1)
            await face.send(one, "a", "b")
            await face.ask(one, StoreConsumerOffset(GROUP, STREAM, TOPIC, 0, 0))
        async with iggy_handlers(disk.killed()) as face:
            one = await face.login()
            assert await face.ask(one, GetGroups(STREAM, TOPIC)) == (GroupInfo(1, 1, 0, NAME),)
            await face.ask(one, JOIN)
            assert (await face.poll(one, None, consumer=GROUP, strategy=NEXT))[1] == ["b"]
            # its number may come again, its offsets not
            await face.ask(one, DeleteGroup(STREAM, TOPIC, NAME))
            await face.ask(one, CreateGroup(STREAM, TOPIC, NAME, 1), JOIN)
            assert (await face.poll(one, None, consumer=GROUP, strategy=NEXT))[1] == ["a", "b"]

    run(main())


@with_iggy
async def test_a_member_that_may_poll_no_more_gives_its_partitions_up(face: Face) -> None:
    root = await face.with_topic(1)
    await face.send(root, "a", to=0)
    await face.ask(root, CreateGroup(STREAM, TOPIC, NAME))
    await face.ask(root, CreateUser("eve", "secret", True, ALL_PERMISSIONS))
    eve = await face.login("eve", "secret")
    await face.ask(eve, JOIN)
    await face.ask(root, JOIN)
    assert await shares(face, root) == {eve.client_id: (0,), root.client_id: ()}
    await face.ask(root, UpdatePermissions("eve", None))
    with refused(Reason.UNAUTHORIZED):
        await face.poll(eve, None, consumer=GROUP, strategy=NEXT)
    assert await face.poll(root, None, consumer=GROUP, strategy=NEXT) == (0, ["a"])
