"""Sends, polls and offsets of single consumers."""

import asyncio

from logdrive.wire.iggy.errors import Reason
from logdrive.wire.iggy.identifiers import ByKey, Consumer, ConsumerKind, ToPartition
from logdrive.wire.iggy.messages.envelope import StoredMessage
from logdrive.wire.iggy.messages.sending import encode_sent
from logdrive.wire.iggy.replies import ConsumerOffset, SendConfirmation
from logdrive.wire.iggy.requests import (
    CreateTopic,
    DeleteConsumerOffset,
    DeletePartitions,
    DeleteTopic,
    FlushPartition,
    GetConsumerOffset,
    SendMessages,
    StoreConsumerOffset,
)
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.handlers.harness import (
    ME,
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

NAMED = Consumer(ConsumerKind.CONSUMER, "indexer")


@with_iggy
async def test_what_one_revision_sends_all_others_poll(face: Face) -> None:
    await face.with_topic(1)
    revisions = (Revision.R0, Revision.R1, Revision.R2C, Revision.R3)
    sessions = {revision: await face.login(revision=revision) for revision in revisions}
    for revision, session in sessions.items():
        await face.send(session, f"of {revision.name}", to=0)
    for session in sessions.values():
        polled = await face.poll(session)
        assert polled == (0, [f"of {revision.name}" for revision in revisions])


@with_iggy
async def test_a_send_tells_its_first_offset_and_where_it_is(face: Face) -> None:
    session = await face.with_topic(2)
    assert await face.send(session, "a", "b", to=1) == (SendConfirmation(1, 1, 1, 0),)
    assert await face.send(session, "c", to=1) == (SendConfirmation(1, 1, 1, 2),)
    with refused(Reason.PARTITION_NOT_FOUND):
        await face.send(session, "d", to=2)
    with refused(Reason.PARTITION_NOT_FOUND):
        await face.send(session, "d", to=-1)
    await face.ask(session, FlushPartition(STREAM, TOPIC, 1, True))


@with_iggy
async def test_balanced_sends_take_turns_and_keys_stay_together(face: Face) -> None:
    session = await face.with_topic(3)
    balanced = [(await face.send(session, "x"))[0].partition for _ in range(6)]
    assert balanced == [0, 1, 2, 0, 1, 2]
    keyed = {
        key: {
            (await face.send(session, "x", partitioning=ByKey(key)))[0].partition for _ in range(3)
        }
        for key in (b"a", b"b", b"c", b"d", b"order-1")
    }
    assert all(len(partitions) == 1 for partitions in keyed.values())
    assert len(set().union(*keyed.values())) > 1


@with_iggy
async def test_sends_that_are_begun_one_after_the_other_are_stored_in_that_order(
    face: Face,
) -> None:
    session = await face.with_topic(1)
    begun = []
    for number in range(20):
        batch = encode_sent(Revision.R2C, [StoredMessage(b"%d" % number)])
        request = SendMessages(STREAM, TOPIC, ToPartition(0), batch, 1)
        begun.append(await face.handlers.begin_send(session, request))
    await asyncio.gather(*begun)
    assert (await face.poll(session))[1] == [str(number) for number in range(20)]


@with_iggy
async def test_a_consumer_goes_on_behind_its_offset_and_others_do_not(face: Face) -> None:
    session = await face.with_topic(1)
    await face.send(session, "a", "b", "c", "d")
    assert (await face.poll(session, strategy=NEXT, count=2, commit=True))[1] == ["a", "b"]
    assert (await face.poll(session, strategy=NEXT, count=1))[1] == ["c"]
    assert (await face.poll(session, strategy=NEXT))[1] == ["c", "d"]
    assert (await face.poll(session, strategy=NEXT, consumer=NAMED, count=1))[1] == ["a"]
    found = await face.ask(session, GetConsumerOffset(ME, STREAM, TOPIC, 0))
    assert found == ConsumerOffset(0, 3, 1)
    # without a partition it is the first one, from R1 on
    assert await face.ask(session, GetConsumerOffset(ME, STREAM, TOPIC, None)) == found
    assert await face.ask(session, GetConsumerOffset(NAMED, STREAM, TOPIC, 0)) is None


@with_iggy
async def test_offsets_are_stored_and_deleted_and_never_beyond_the_newest(face: Face) -> None:
    session = await face.with_topic(2)
    await face.send(session, "a", "b", to=1)
    await face.ask(session, StoreConsumerOffset(NAMED, STREAM, TOPIC, 1, 0))
    assert (await face.poll(session, 1, strategy=NEXT, consumer=NAMED))[1] == ["b"]
    with refused(Reason.INVALID_OFFSET):
        await face.ask(session, StoreConsumerOffset(NAMED, STREAM, TOPIC, 1, 2))
    await face.ask(session, DeleteConsumerOffset(NAMED, STREAM, TOPIC, 1))
    assert await face.ask(session, GetConsumerOffset(NAMED, STREAM, TOPIC, 1)) is None
    with refused(Reason.OFFSET_NOT_FOUND):
        await face.ask(session, DeleteConsumerOffset(NAMED, STREAM, TOPIC, 1))
    with refused(Reason.PARTITION_NOT_FOUND):
        await face.ask(session, StoreConsumerOffset(NAMED, STREAM, TOPIC, 2, 0))
    old = face.connect(Revision.R0)
    face.handlers.admit_nameless(old)
    assert await face.ask(old, GetConsumerOffset(ME, STREAM, TOPIC, 1)) == ConsumerOffset(1, 1, 0)
    with refused(Reason.PARTITION_NOT_FOUND):
        await face.ask(old, GetConsumerOffset(ME, STREAM, TOPIC, None))


@with_iggy
async def test_a_deleted_partition_or_topic_takes_its_offsets_along(face: Face) -> None:
    session = await face.with_topic(2)
    await face.send(session, "a", "b", to=1)
    await face.ask(
        session,
        StoreConsumerOffset(ME, STREAM, TOPIC, 1, 1),
        DeletePartitions(STREAM, TOPIC, 1),
        DeleteTopic(STREAM, TOPIC),
        CreateTopic(STREAM, TOPIC, 2),
    )
    await face.send(session, "again", to=1)
    assert await face.ask(session, GetConsumerOffset(ME, STREAM, TOPIC, 1)) is None
    assert (await face.poll(session, 1, strategy=NEXT))[1] == ["again"]


def test_what_was_acknowledged_is_there_after_a_crash() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with iggy_handlers(disk, clean=False) as face:
            session = await face.with_topic(1)
            await face.send(session, "a", "b", "c")
            await face.ask(session, StoreConsumerOffset(ME, STREAM, TOPIC, 0, 1))
            dead = disk.killed()
        async with iggy_handlers(dead) as face:
            session = await face.login()
            assert (await face.poll(session))[1] == ["a", "b", "c"]
            assert (await face.poll(session, strategy=NEXT))[1] == ["c"]

    run(main())
