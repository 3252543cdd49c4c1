"""Topics that were deleted and made again under the same name, by any face: nothing of the old one
is the new one's.
"""

from collections.abc import Awaitable, Callable

import pytest

from logdrive.services.iggy.server.sessions import IggySession
from logdrive.store.streams.state import StreamConfig
from logdrive.wire.iggy.errors import Reason
from logdrive.wire.iggy.identifiers import Consumer, ConsumerKind
from logdrive.wire.iggy.replies import GroupDetails
from logdrive.wire.iggy.requests import (
    CreateGroup,
    CreateTopic,
    DeleteStream,
    DeleteTopic,
    GetConsumerOffset,
    GetGroup,
    GetGroups,
    IggyCreateStream,
    JoinGroup,
    StoreConsumerOffset,
)
from tests.logdrive.services.iggy.server.handlers.harness import (
    ME,
    NEXT,
    STREAM,
    TOPIC,
    Face,
    refused,
    with_iggy,
)

NUMBER = 1
GROUP = Consumer(ConsumerKind.GROUP, NUMBER)
ONE = StreamConfig(min_segments=1)


async def _topic_by_iggy(face: Face, root: IggySession) -> None:
    await face.ask(root, DeleteTopic(STREAM, TOPIC), CreateTopic(STREAM, TOPIC, 1))


async def _stream_by_iggy(face: Face, root: IggySession) -> None:
    await face.ask(root, DeleteStream(STREAM), IggyCreateStream(STREAM))
    await face.ask(root, CreateTopic(STREAM, TOPIC, 1))


async def _topic_by_another(face: Face, root: IggySession) -> None:
    await face.streams.seal(STREAM, TOPIC)
    await face.streams.delete(STREAM, TOPIC)
    await face.streams.create(STREAM, TOPIC, ONE)


async def _stream_by_another(face: Face, root: IggySession) -> None:
    await face.streams.delete_scope_with_all(STREAM)
    await face.streams.create_scope(STREAM)
    await face.streams.create(STREAM, TOPIC, ONE)


@pytest.mark.parametrize(
    "make_again",
    [_topic_by_iggy, _stream_by_iggy, _topic_by_another, _stream_by_another],
    ids=lambda one: str(one.__name__.strip("_")),
)
def test_groups_members_and_offsets_end_with_their_topic(
    make_again: Callable[[Face, IggySession], Awaitable[None]],
) -> None:
    @with_iggy
    async def test(face: Face) -> None:
        root, member = await face.with_topic(1), await face.login()
        await face.send(root, "old 0", "old 1", to=0)
        await face.ask(root, CreateGroup(STREAM, TOPIC, "readers", NUMBER))
        await face.ask(member, JoinGroup(STREAM, TOPIC, NUMBER))
        await face.ask(root, StoreConsumerOffset(ME, STREAM, TOPIC, 0, 1))
        await face.poll(member, None, consumer=GROUP, strategy=NEXT, commit=True)

        await make_again(face, root)
        assert await face.ask(root, GetGroups(STREAM, TOPIC)) == ()
        assert await face.ask(root, GetConsumerOffset(ME, STREAM, TOPIC, 0)) is None
        await face.send(root, "new 0", to=0)
        assert await face.poll(root, strategy=NEXT) == (0, ["new 0"])

        await face.ask(root, CreateGroup(STREAM, TOPIC, "others", NUMBER))
        found = await face.ask(root, GetGroup(STREAM, TOPIC, NUMBER))
        assert isinstance(found, GroupDetails)
        assert found.members == ()
        with refused(Reason.GROUP_MEMBER_NOT_FOUND):
            await face.poll(member, None, consumer=GROUP, strategy=NEXT)
        await face.ask(member, JoinGroup(STREAM, TOPIC, NUMBER))
        polled = await face.poll(member, None, consumer=GROUP, strategy=NEXT)
        assert polled == (0, ["new 0"])

    test()


@with_iggy
async def test_offsets_in_a_topic_that_another_face_deleted_are_forgotten(face: Face) -> None:
    root = await face.with_topic(1)
    await face.send(root, "old", to=0)
    await face.ask(root, StoreConsumerOffset(ME, STREAM, TOPIC, 0, 0))
    segment = f"{STREAM}/{TOPIC}/0.#epoch.0"
    assert face.service.offsets.get(segment, "n1") == 0
    await face.streams.seal(STREAM, TOPIC)
    await face.streams.delete(STREAM, TOPIC)
    await face.service.topology.register_all()
    assert face.service.offsets.get(segment, "n1") is None
