"""One connection: greetings, bad peers, slow peers, and its end.

Specification, sections 1.1, 1.3 and 2.7.
"""

import asyncio
import struct
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import TransientError
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.server import endpoint
from logdrive.store.limits import StoreLimits
from logdrive.wire.pravega.administration import FlushToStorage, ListStorageChunks
from logdrive.wire.pravega.appends import (
    AppendBlock,
    AppendBlockEnd,
    AppendSetup,
    DataAppended,
    Padding,
    SetupAppend,
)
from logdrive.wire.pravega.control import Hello, KeepAlive, OperationUnsupported
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import PRAVEGA_UNACKED_BYTES
from logdrive.wire.pravega.segments import CreateSegment, ReadSegment, SegmentCreated, SegmentRead
from tests.support import virtual_time
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world, virtually, world


@in_world
async def test_hello_is_answered_and_not_required(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(Hello(15, 5)) == Hello(17, 5)
    assert await (await made.peer()).ask(KeepAlive()) == KeepAlive()


@pytest.mark.parametrize("hello", [Hello(4, 1), Hello(30, 18)])
def test_a_peer_without_a_common_version_gets_our_hello_and_is_closed(hello: Hello) -> None:
    @in_world
    async def closed(made: World) -> None:
        peer = await made.peer()
        await peer.say(hello)
        assert await peer.rest() == [Hello(17, 5)]

    closed()


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack("!ii", 12345, 0),
        struct.pack("!ii", 4, 0x00FFFFFF),
        struct.pack("!ii", 4, -1),
        struct.pack("!ii", 1, 3) + b"abc",
        struct.pack("!ii", 0, 2) + b"hi",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_garbage_closes_its_own_connection_without_an_answer(garbage: bytes) -> None:
    @in_world
    async def closed(made: World) -> None:
        peer, other = await made.peer(), await made.peer()
        await peer.stream.write([garbage])
        assert await peer.rest() == []
        assert await other.ask(CreateSegment(1, S)) == SegmentCreated(1, S)

    closed()


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_no_bytes_of_a_peer_harm_the_face(pieces: list[bytes], seed: int) -> None:
    async def main(made: World) -> None:
        peer = await made.peer()
        try:
            await peer.say(Hello())
            for piece in pieces:
                await peer.stream.write([piece])
        except TransientError:
            pass
        await peer.stream.close()
        assert await (await made.peer()).ask(KeepAlive()) == KeepAlive()

    in_world(main, random=Random(seed))()


@in_world
async def test_padding_outside_a_block_is_ignored(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(Padding(bytes(9)), KeepAlive()) == KeepAlive()


@pytest.mark.parametrize("request_", [FlushToStorage(1, "", 6), ListStorageChunks(S, "", 6)])
def test_requests_for_an_administration_gateway_are_refused_by_name(request_: Message) -> None:
    @in_world
    async def refused(made: World) -> None:
        peer = await made.peer()
        assert await peer.ask(request_) == OperationUnsupported(6, type(request_).__name__)

    refused()


@in_world
async def test_other_messages_may_come_between_a_block_and_its_end(made: World) -> None:
    await made.store.create(S)
    peer = await made.peer()
    await peer.ask(SetupAppend(1, W, S))
    assert await peer.ask(AppendBlock(W, b"abc"), KeepAlive()) == KeepAlive()
    assert await peer.ask(AppendBlockEnd(W, 3, b"", 1, 1, 2)) == DataAppended(W, 1, ABSENT, 2, 3)


@virtually
async def test_a_connection_is_not_read_while_too_much_is_not_durable() -> None:
    async with world(sync_seconds=1000.0) as made:
        made.store.create(S)
        peer = await made.peer()
        assert isinstance(await peer.ask(SetupAppend(1, W, S)), AppendSetup)
        size, sent = 1 << 20, 0

        async def flood() -> None:
            nonlocal sent
            for number in range(1, 100):
                await peer.say(AppendBlockEnd(W, size, bytes(size), 1, number, number))
                sent += size

        flooding = asyncio.create_task(flood())
        await asyncio.sleep(100)
        assert PRAVEGA_UNACKED_BYTES <= sent <= PRAVEGA_UNACKED_BYTES + 3 * size
        assert await (await made.peer()).ask(KeepAlive()) == KeepAlive()  # others go on
        acked = 0
        while acked < 99:
            ack = await peer.hear()
            assert isinstance(ack, DataAppended)
            acked = ack.event_number
        await flooding


@pytest.mark.parametrize("pending", [10_000, 4_000, 1_000])
def test_an_overloaded_store_makes_connections_wait_and_loses_nothing(
    pending: int,
) -> None:
    """Also where one append is more than half of the limit, or more than all of it."""

    async def main() -> None:
        async with world(limits=StoreLimits(pending=pending)) as made:
            await made.store.create(S)
            peers = [await made.peer() for _ in range(3)]
            for number, peer in enumerate(peers):
                writer = UUID(int=number)
                await peer.ask(SetupAppend(1, writer, S))
                await peer.say(
                    *(
                        AppendBlockEnd(writer, 0, bytes(1000 * (n % 3 + 1)), 1, n, n)
                        for n in range(1, 31)
                    )
                )
            for peer in peers:
                last: Message = KeepAlive()
                while not (isinstance(last, DataAppended) and last.event_number == 30):
                    last = await peer.hear()
            assert made.store.info(S).length == 3 * 10 * 6000  # type: ignore[union-attr]

    virtual_time.run(main())


@in_world
async def test_a_peer_that_does_not_read_takes_the_memory_of_one_answer(made: World) -> None:
    await made.store.create(S)
    await made.store.append(S, bytes(4 << 20), writer=W, expected=None, number=1, events=1)
    slow, other = await made.peer(), await made.peer()
    await slow.say(*(ReadSegment(S, 0, 1 << 21, "", n) for n in range(50)))
    await asyncio.sleep(10)
    assert await other.ask(KeepAlive()) == KeepAlive()
    for n in range(50):
        answer = await slow.hear()
        assert isinstance(answer, SegmentRead)
        assert answer.request_id == n


@virtually
async def test_closing_the_face_acknowledges_what_was_submitted_and_closes_connections() -> None:
    async with world(sync_seconds=1.0) as made:
        await made.store.create(S)
        peer, idle = await made.peer(), await made.peer()
        await peer.ask(SetupAppend(1, W, S))
        await idle.say(ReadSegment(S, 0, 10, "", 1))
        await peer.say(AppendBlockEnd(W, 1, b"x", 1, 1, 1))
        await peer.ask(KeepAlive())
        ending = asyncio.create_task(rest_of(peer, idle))
        await asyncio.sleep(0)
    assert await ending == ([DataAppended(W, 1, ABSENT, 1, 1)], [])


async def rest_of(*peers: object) -> tuple[list[Message], ...]:
    return tuple([await peer.rest() for peer in peers])  # type: ignore[attr-defined]


@in_world
async def test_the_endpoint_is_published_while_the_face_listens(made: World) -> None:
    assert endpoint.read_endpoint(made.disk, "/var/store") == endpoint.PublishedEndpoint(
        f"server:{made.port}"
    )


@virtually
async def test_the_endpoint_is_withdrawn_with_the_face() -> None:
    async with world() as made:
        pass
    assert endpoint.read_endpoint(made.disk, "/var/store") is None
