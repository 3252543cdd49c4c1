"""Values at the edges of their fields: each is refused, or can be told to every client later."""

import asyncio

import pytest

from logdrive.services.iggy.server.log.partition import PartitionFigures
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import NAME_BYTES, NEVER, U32_MAX
from logdrive.wire.iggy.options import TopicOptions
from logdrive.wire.iggy.replies import ConsumerOffset, TokenInfo
from logdrive.wire.iggy.replies_codec import reply_parts
from logdrive.wire.iggy.requests import (
    CreateToken,
    CreateTopic,
    GetConsumerOffset,
    GetStreams,
    GetTokens,
    GetTopic,
    IggyCreateStream,
    IggyRequest,
    PurgeTopic,
    StoreConsumerOffset,
)
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.handlers.harness import (
    ME,
    NEXT,
    STREAM,
    TOPIC,
    Face,
    refused,
    with_iggy,
)


async def _told(face: Face, session: IggySession, request: IggyRequest) -> bytes:
    """Return the reply's bytes in the revision of the session."""
    reply = await face.handlers.handle(session, request)
    return b"".join(reply_parts(session.revision, request, reply))


@with_iggy
async def test_a_token_that_expires_after_all_times_never_does(face: Face) -> None:
    root = await face.login()
    for number, expiry in enumerate((NEVER - 1, 2**63, NEVER, None)):
        await face.ask(root, CreateToken(f"token {number}", expiry))
    assert await _told(face, root, GetTokens())
    tokens = await face.ask(root, GetTokens())
    assert isinstance(tokens, tuple)
    assert [token.expires_us is None for token in tokens] == [True, False, True, True]
    assert all(isinstance(token, TokenInfo) for token in tokens)


@with_iggy
async def test_a_name_that_is_too_long_in_lower_case_is_refused(face: Face) -> None:
    root, old = await face.login(), face.connect(Revision.R0)
    face.handlers.admit_nameless(old)
    long = "\u0130" * (NAME_BYTES // 2)  # two bytes each, and three in lower case
    with refused(Reason.INVALID_STREAM_NAME):
        await face.ask(old, IggyCreateStream(long, 7))
    await face.ask(old, IggyCreateStream("\u0130" * (NAME_BYTES // 3), 7))
    assert await _told(face, root, GetStreams())


@with_iggy
async def test_pieces_of_one_byte_are_counted_as_far_as_a_reply_can_tell(face: Face) -> None:
    root = await face.with_topic(1)
    await face.ask(root, CreateTopic(STREAM, "pieces", 1, TopicOptions(segment_size=1)))
    assert await _told(face, root, GetTopic(STREAM, "pieces"))
    assert PartitionFigures(0, 0, 1, U32_MAX + 2, 0).segments(1) == U32_MAX


@with_iggy
async def test_no_offset_is_stored_where_there_never_was_a_message(face: Face) -> None:
    root = await face.with_topic(1)
    with refused(Reason.INVALID_OFFSET):
        await face.ask(root, StoreConsumerOffset(ME, STREAM, TOPIC, 0, 0))
    await face.send(root, "first", to=0)
    assert await face.poll(root, strategy=NEXT) == (0, ["first"])
    with refused(Reason.INVALID_OFFSET):
        await face.ask(root, StoreConsumerOffset(ME, STREAM, TOPIC, 0, 1))
    await face.ask(root, PurgeTopic(STREAM, TOPIC))
    await face.ask(root, StoreConsumerOffset(ME, STREAM, TOPIC, 0, 0))
    stored = await face.ask(root, GetConsumerOffset(ME, STREAM, TOPIC, 0))
    assert isinstance(stored, ConsumerOffset)
    assert stored.stored == 0


@pytest.mark.parametrize("name", ["", "x" * (NAME_BYTES + 1), "\u00fc" * (NAME_BYTES // 2 + 1)])
def test_names_that_no_field_holds_are_refused(name: str) -> None:
    @with_iggy
    async def test(face: Face) -> None:
        root = await face.login()
        with pytest.raises(IggyError) as caught:
            await face.ask(root, IggyCreateStream(name))
        assert caught.value.reason is Reason.INVALID_STREAM_NAME

    test()


@with_iggy
async def test_others_are_served_while_many_partitions_are_looked_at(face: Face) -> None:
    partitions = 100
    root = await face.with_topic(partitions)
    await face.ask(root, GetTopic(STREAM, TOPIC))  # all are open then
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while turns < 10 * partitions:
            await asyncio.sleep(0)
            turns += 1

    other = asyncio.create_task(take_turns())
    await face.ask(root, GetTopic(STREAM, TOPIC))
    other.cancel()
    assert turns >= partitions - 1
