"""Streams, topics and partitions: one set with those of the other faces."""

import errno

from logdrive.services.iggy.server.sessions import IggySession
from logdrive.store.streams.state import StreamConfig
from logdrive.wire.iggy.errors import Reason
from logdrive.wire.iggy.limits import NEVER
from logdrive.wire.iggy.options import TopicOptions
from logdrive.wire.iggy.replies import IggyStreamInfo, StreamDetails, TopicDetails, TopicInfo
from logdrive.wire.iggy.requests import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteStream,
    DeleteTopic,
    GetStream,
    GetStreams,
    GetTopic,
    GetTopics,
    IggyCreateStream,
    PurgeTopic,
    UpdateStream,
    UpdateTopic,
)
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.handlers.harness import (
    STREAM,
    TOPIC,
    Face,
    iggy_handlers,
    refused,
    with_iggy,
)
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


async def details(
    face: Face, session: IggySession, stream: str = STREAM, topic: str = TOPIC
) -> TopicDetails:
    reply = await face.ask(session, GetTopic(stream, topic))
    assert isinstance(reply, TopicDetails)
    return reply


@with_iggy
async def test_what_is_created_is_a_scope_a_stream_and_its_segments(face: Face) -> None:
    session = await face.login()
    made = await face.ask(session, IggyCreateStream(STREAM))
    assert isinstance(made, IggyStreamInfo)
    assert (made.id, made.name, made.topics) == (1, STREAM, 0)
    topic = await face.ask(
        session, CreateTopic(STREAM, TOPIC, 3, TopicOptions(expiry_us=7_000_000))
    )
    assert isinstance(topic, TopicDetails)
    assert (topic.topic.id, topic.topic.partitions, topic.topic.expiry_us) == (1, 3, 7_000_000)
    assert [one.index for one in topic.partitions] == [0, 1, 2]
    assert await face.streams.streams(STREAM) == [TOPIC]
    assert len((await face.streams.stream(STREAM, TOPIC)).segments) == 3
    assert await face.ask(session, GetTopic(1, 1)) == topic
    shown = await face.ask(session, GetStream(1))
    assert isinstance(shown, StreamDetails)
    assert [one.name for one in shown.topics] == [TOPIC]


@with_iggy
async def test_what_exists_is_not_created_again_and_what_is_missing_is_told(face: Face) -> None:
    session = await face.with_topic()
    with refused(Reason.STREAM_NAME_EXISTS):
        await face.ask(session, IggyCreateStream(STREAM))
    with refused(Reason.STREAM_ID_EXISTS):
        await face.ask(session, IggyCreateStream("other", 1))
    with refused(Reason.INVALID_STREAM_ID):
        await face.ask(session, IggyCreateStream("other", 0))
    with refused(Reason.TOPIC_NAME_EXISTS):
        await face.ask(session, CreateTopic(STREAM, TOPIC, 1))
    with refused(Reason.TOPIC_ID_EXISTS):
        await face.ask(session, CreateTopic(STREAM, "other", 1, id=1))
    with refused(Reason.TOO_MANY_PARTITIONS):
        await face.ask(session, CreateTopic(STREAM, "other", 1001))
    with refused(Reason.INVALID_STREAM_NAME):
        await face.ask(session, IggyCreateStream(""))
    with refused(Reason.STREAM_NAME_NOT_FOUND):
        await face.ask(session, CreateTopic("missing", TOPIC, 1))
    with refused(Reason.STREAM_NOT_FOUND):
        await face.ask(session, DeleteStream(99))
    with refused(Reason.TOPIC_NOT_FOUND):
        await face.ask(session, DeleteTopic(STREAM, 99))
    assert await face.ask(session, GetStream("missing")) is None
    assert await face.ask(session, GetTopic(STREAM, "missing")) is None
    old = face.connect(Revision.R0)
    face.handlers.admit_nameless(old)
    with refused(Reason.STREAM_NAME_NOT_FOUND):
        await face.ask(old, GetStream("missing"))


@with_iggy
async def test_a_client_may_choose_numbers_and_the_server_skips_them(face: Face) -> None:
    session = await face.login(revision=Revision.R1)
    await face.ask(session, IggyCreateStream("two", 2))
    for name, id_ in (("one", 1), ("three", 3)):
        made = await face.ask(session, IggyCreateStream(name))
        assert isinstance(made, IggyStreamInfo)
        assert made.id == id_
    await face.ask(session, DeleteStream("three"))
    made = await face.ask(session, IggyCreateStream("four"))
    assert isinstance(made, IggyStreamInfo)
    assert made.id == 4


@with_iggy
async def test_any_name_is_kept_as_it_is_and_changed_in_r0(face: Face) -> None:
    session = await face.login()
    for name in ("Two words", "ü/ß", "_hidden", "x" * 255):
        await face.ask(session, IggyCreateStream(name), CreateTopic(name, name, 1))
        assert (await details(face, session, name, name)).topic.name == name
    assert all(scope.isascii() for scope in await face.streams.scopes())
    old = face.connect(Revision.R0)
    face.handlers.admit_nameless(old)
    await face.ask(old, IggyCreateStream("My  Stream", 77))
    shown = await face.ask(session, GetStream(77))
    assert isinstance(shown, StreamDetails)
    assert shown.stream.name == "my.stream"


@with_iggy
async def test_what_other_faces_made_is_there_and_keeps_its_number(face: Face) -> None:
    session = await face.login()
    await face.streams.create_scope("pravega")
    await face.streams.create("pravega", "app", StreamConfig(min_segments=2))
    await face.streams.create("pravega", "_MARKapp", StreamConfig())
    await face.store.create("sink/lines/0.#epoch.0")
    assert len((await details(face, session, "pravega", "app")).partitions) == 2
    shown = await face.ask(session, GetStreams())
    assert isinstance(shown, tuple)
    names = {one.name: one.id for one in shown}
    assert set(names) == {"pravega", "sink"}
    topics = await face.ask(session, GetTopics("pravega"))
    assert isinstance(topics, tuple)
    assert [topic.name for topic in topics] == ["app"]
    # made without its name being asked for before
    assert (await details(face, session, "sink", "lines")).topic.partitions == 1

    await face.streams.seal("pravega", "app")
    await face.streams.delete("pravega", "app")
    assert await face.ask(session, GetTopic("pravega", "app")) is None
    await face.streams.create("pravega", "app", StreamConfig(min_segments=1))
    again = await details(face, session, "pravega", "app")
    assert again.topic.partitions == 1
    assert again.topic.id > 1


@with_iggy
async def test_scaled_streams_have_more_partitions_and_old_ones_take_no_messages(
    face: Face,
) -> None:
    session = await face.with_topic(1)
    await face.send(session, "before", to=0)
    await face.streams.scale(STREAM, TOPIC, [0], [(0.0, 0.5), (0.5, 1.0)])
    assert [one.index for one in (await details(face, session)).partitions] == [0, 1, 2]
    with refused(Reason.SEGMENT_CLOSED):
        await face.send(session, "after", to=0)
    sent = [(await face.send(session, "after"))[0].partition for _ in range(4)]
    assert sent == [1, 2, 1, 2]
    assert await face.poll(session, 0) == (0, ["before"])


@with_iggy
async def test_partitions_come_and_go_and_keys_find_their_segments_all_the_same(
    face: Face,
) -> None:
    session = await face.with_topic(2)
    before = await face.streams.stream(STREAM, TOPIC)
    await face.ask(session, CreatePartitions(STREAM, TOPIC, 2))
    await face.send(session, "new", to=3)
    await face.send(session, "old", to=1)
    assert (await details(face, session)).topic.partitions == 4
    there = await face.streams.stream(STREAM, TOPIC)
    assert there.segments[:2] == before.segments
    await face.ask(session, DeletePartitions(STREAM, TOPIC, 3))
    assert (await details(face, session)).topic.partitions == 1
    # segments that keys lead to stay, without their messages
    assert (await face.streams.stream(STREAM, TOPIC)).segments == before.segments
    info = face.store.info("logs/app/1.#epoch.0")
    assert info is not None
    assert info.start == info.length > 0
    with refused(Reason.PARTITION_NOT_FOUND):
        await face.send(session, "gone", to=1)
    await face.ask(session, CreatePartitions(STREAM, TOPIC, 1))
    assert (await face.send(session, "again", to=1))[0].first_offset == 0


@with_iggy
async def test_a_topic_may_have_no_partitions(face: Face) -> None:
    session = await face.with_topic(0, Revision.R3)
    assert (await details(face, session)).partitions == ()
    with refused(Reason.NO_PARTITIONS):
        await face.send(session, "lost")
    await face.ask(session, CreatePartitions(STREAM, TOPIC, 1))
    assert (await face.send(session, "kept"))[0].partition == 0


@with_iggy
async def test_new_names_and_options_are_in_force_and_old_names_free(face: Face) -> None:
    session = await face.with_topic(1)
    await face.send(session, "kept", to=0)
    await face.ask(
        session,
        UpdateTopic(STREAM, TOPIC, "other", TopicOptions(max_size=5_000)),
        UpdateStream(STREAM, "elsewhere"),
    )
    found = await details(face, session, "elsewhere", "other")
    assert (found.topic.max_size, found.topic.expiry_us) == (5_000, NEVER)
    assert found.topic.messages == 1
    await face.ask(session, IggyCreateStream(STREAM), CreateTopic(STREAM, TOPIC, 1))
    assert (await details(face, session)).topic.messages == 0
    with refused(Reason.STREAM_NAME_EXISTS):
        await face.ask(session, UpdateStream(STREAM, "elsewhere"))
    with refused(Reason.UNKNOWN_OPTION):
        await face.ask(session, UpdateTopic(STREAM, TOPIC, TOPIC, TopicOptions(enforce_fsync=True)))


@with_iggy
async def test_what_is_deleted_is_gone_for_all_faces(face: Face) -> None:
    session = await face.with_topic()
    await face.send(session, "lost")
    await face.ask(session, DeleteTopic(STREAM, TOPIC))
    assert await face.ask(session, GetTopic(STREAM, TOPIC)) is None
    assert face.store.segments("logs/") == []
    await face.ask(session, CreateTopic(STREAM, TOPIC, 1), DeleteStream(STREAM))
    assert await face.streams.scopes() == []
    assert await face.ask(session, GetStreams()) == ()


@with_iggy
async def test_a_purge_takes_the_messages_and_no_offset_comes_twice(face: Face) -> None:
    session = await face.with_topic(1)
    await face.send(session, "a", "b")
    await face.ask(session, PurgeTopic(STREAM, TOPIC))
    assert await face.poll(session) == (0, [])
    assert (await face.send(session, "c"))[0].first_offset == 2
    assert await face.poll(session) == (0, ["c"])


@with_iggy
async def test_no_two_streams_have_one_name_whoever_made_them(face: Face) -> None:
    session = await face.with_topic(1)
    await face.ask(session, UpdateStream(STREAM, "pravega"))
    await face.streams.create_scope("pravega")
    await face.streams.create("pravega", "lines", StreamConfig())
    shown = await face.ask(session, GetStreams())
    assert isinstance(shown, tuple)
    assert {one.name: one.topics for one in shown} == {"pravega": 1, "pravega.2": 1}
    assert (await details(face, session, "pravega.2", "lines")).topic.partitions == 1


def test_a_full_disk_is_told_and_later_the_same_request_succeeds() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_handlers(disk) as face:
            session = await face.login()
            for request in (IggyCreateStream(STREAM), CreateTopic(STREAM, TOPIC, 1)):
                disk.fail_write(errno.ENOSPC)
                with refused(Reason.IO_ERROR):
                    await face.ask(session, request)
                await face.ask(session, request)
            assert (await details(face, session)).topic.partitions == 1

    run(main())


def test_numbers_names_and_options_are_there_after_a_crash() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_handlers(disk, clean=False) as face:
            session = await face.with_topic(2)
            await face.ask(
                session,
                IggyCreateStream("with space"),
                CreateTopic("with space", "t", 1, TopicOptions(expiry_us=9_000_000)),
                CreatePartitions(STREAM, TOPIC, 1),
                DeleteTopic(STREAM, TOPIC),
                CreateTopic(STREAM, TOPIC, 1),
            )
            before = await face.ask(session, GetStreams())
            topics = await face.ask(session, GetTopics(STREAM))
        async with iggy_handlers(disk.killed()) as face:
            session = await face.login()
            assert await face.ask(session, GetStreams()) == before
            assert await face.ask(session, GetTopics(STREAM)) == topics
            assert isinstance(topics, tuple)
            assert isinstance(topics[0], TopicInfo)
            assert topics[0].id == 2
            assert (await details(face, session, "with space", "t")).topic.expiry_us == 9_000_000

    run(main())
