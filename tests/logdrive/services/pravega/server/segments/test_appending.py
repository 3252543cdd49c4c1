"""Answers to appends (specification, sections 2.3 to 2.9 and 0)."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.model.framing import frame_event, frame_events
from logdrive.model.numbers import ABSENT
from logdrive.net.turns import Turns
from logdrive.services.pravega.server.segments.appending import Appender
from logdrive.services.pravega.server.segments.fencing import WriterFence
from logdrive.store.engine import Store
from logdrive.wire.pravega.appends import (
    AppendBlock,
    AppendBlockEnd,
    AppendSetup,
    ConditionalAppend,
    ConditionalBlockEnd,
    ConditionalCheckFailed,
    DataAppended,
    SetupAppend,
)
from logdrive.wire.pravega.codec import encode
from logdrive.wire.pravega.control import (
    Hello,
    InvalidEventNumber,
    KeepAlive,
    NoSuchSegment,
    SegmentIsSealed,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.reassembly import OrderError, WholeAppend
from tests.support import virtual_time
from tests.support.pravega.framings import W, alone, overflowing, padded, whole_block
from tests.support.pravega.peer import Peer, S, World, in_world, virtually, world

EVENTS = [b"one", b"", b"three" * 100]
DATA = frame_events(EVENTS)


def one(number: int, request: int = 0, data: bytes = b"x", writer: UUID = W) -> AppendBlockEnd:
    return AppendBlockEnd(writer, len(data), data, 1, number, request or number)


async def set_up(made: World) -> Peer:
    await made.store.create(S)
    peer = await made.peer()
    assert await peer.ask(SetupAppend(9, W, S)) == AppendSetup(9, S, W, ABSENT)
    return peer


@in_world
async def test_an_append_in_any_framing_is_stored_as_the_same_bytes(made: World) -> None:
    peer = await set_up(made)
    previous, length = ABSENT, 0
    framings = [
        alone(EVENTS, 3, 1),
        whole_block(EVENTS, 6, 2),
        padded(EVENTS, 11, 9, 3),
        overflowing(EVENTS, 100, 12, 4),
    ]
    for request, messages in enumerate(framings, 1):
        await peer.say(*messages)
        length += len(DATA)
        assert await peer.hear() == DataAppended(W, 3 * request, previous, request, length)
        previous = 3 * request
    assert made.store.read(S, 0, 1 << 20) == DATA * 4
    info = made.store.info(S)
    assert info is not None
    assert info.events == 12


@in_world
async def test_acknowledgements_are_combined_in_order_and_name_the_one_before(made: World) -> None:
    peer = await set_up(made)
    await peer.say(*(one(number) for number in range(1, 201)))
    acks: list[DataAppended] = []
    while not acks or acks[-1].event_number < 200:
        ack = await peer.hear()
        assert isinstance(ack, DataAppended)
        acks.append(ack)
    assert len(acks) < 200
    assert [ack.previous_event_number for ack in acks] == [
        ABSENT,
        *(ack.event_number for ack in acks[:-1]),
    ]
    assert all(ack.request_id == ack.event_number for ack in acks)
    assert acks[-1].current_segment_write_offset == 200


@virtually
async def test_nothing_is_acknowledged_before_it_is_durable() -> None:
    """Rules S1, D2."""
    async with world(sync_seconds=5.0) as made:
        peer = await set_up(made)
        await peer.say(one(1), KeepAlive())
        assert isinstance(await peer.hear(), KeepAlive)  # the connection goes on meanwhile
        assert made.store.submitted_number(S, W) == 1
        assert made.store.info(S).length == 0  # type: ignore[union-attr]
        assert await peer.hear() == DataAppended(W, 1, ABSENT, 1, 1)
        assert made.store.info(S).length == 1  # type: ignore[union-attr]


@in_world
async def test_a_set_up_answers_the_durable_number_and_appends_go_on_from_it(made: World) -> None:
    first = await set_up(made)
    await first.ask(one(7))
    second = await made.peer()
    assert await second.ask(SetupAppend(2, W, S)) == AppendSetup(2, S, W, 7)
    assert await second.ask(one(8)) == DataAppended(W, 8, 7, 8, 2)


@in_world
async def test_a_set_up_waits_for_what_another_connection_submitted(made: World) -> None:
    """Rule D2: the number told is durable."""
    first = await set_up(made)
    second = await made.peer()
    await first.say(one(1))
    await first.ask(KeepAlive())
    assert await second.ask(SetupAppend(2, W, S)) == AppendSetup(2, S, W, 1)


@pytest.mark.parametrize("number", [4, 5])
@pytest.mark.parametrize("version", [15, 17])
def test_a_number_that_does_not_grow_is_refused_and_the_connection_closed(
    number: int, version: int
) -> None:
    @in_world
    async def refused(made: World) -> None:
        peer = await set_up(made)
        await peer.ask(Hello(version, 5))
        await peer.say(one(5), one(number, 3))
        refusal = InvalidEventNumber(W, 3, "", number)
        expected = b"".join(
            part for m in (DataAppended(W, 5, ABSENT, 5, 1), refusal) for part in encode(m, version)
        )
        heard = b""
        while data := await peer.stream.read():
            heard += data
        assert heard == expected

    refused()


@in_world
async def test_a_writer_set_up_on_another_connection_is_refused_after_its_acknowledgements(
    made: World,
) -> None:
    first, second = await set_up(made), await made.peer()
    await second.ask(SetupAppend(2, W, S))
    await second.ask(one(3))
    assert await first.ask(one(2)) == InvalidEventNumber(W, 2, "", 2)
    assert await first.rest() == []


@in_world
async def test_a_sealed_segment_is_reported_for_the_first_append_and_the_connection_stays_open(
    made: World,
) -> None:
    peer = await set_up(made)
    await peer.ask(one(1))
    await made.store.seal(S)
    assert await peer.ask(SetupAppend(2, W, S)) == AppendSetup(2, S, W, 1)
    assert await peer.ask(one(2, 8)) == SegmentIsSealed(8, S, "", 2)
    assert isinstance(await peer.ask(KeepAlive()), KeepAlive)
    await peer.say(one(3))
    assert await peer.rest() == []


@in_world
async def test_appends_behind_the_one_refused_by_a_seal_are_dropped(made: World) -> None:
    peer = await set_up(made)
    await made.store.seal(S)
    await peer.say(one(1), one(2), one(3))
    assert await peer.hear() == SegmentIsSealed(1, S, "", 1)
    assert await peer.ask(SetupAppend(2, W, S)) == AppendSetup(2, S, W, ABSENT)


@in_world
async def test_an_error_waits_for_the_acknowledgements_before_it(made: World) -> None:
    peer = await set_up(made)
    sealing = made.store.seal
    await peer.say(one(1))
    await peer.ask(KeepAlive())  # it is submitted now
    sealing(S)
    await peer.say(one(2))
    assert await peer.hear() == DataAppended(W, 1, ABSENT, 1, 1)
    assert await peer.hear() == SegmentIsSealed(2, S, "", 2)


@in_world
async def test_a_set_up_on_a_missing_segment_is_refused(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(SetupAppend(9, W, "no/such/0.#epoch.0")) == NoSuchSegment(
        9, "no/such/0.#epoch.0", "", -1
    )
    assert isinstance(await peer.ask(KeepAlive()), KeepAlive)


@in_world
async def test_conditional_appends_compare_the_length(made: World) -> None:
    peer = await set_up(made)
    assert await peer.ask(ConditionalAppend(W, 1, 0, b"hi", 1)) == DataAppended(W, 1, ABSENT, 1, 10)
    assert await peer.ask(ConditionalAppend(W, 2, 0, b"hi", 2)) == ConditionalCheckFailed(W, 2, 2)
    assert await peer.ask(ConditionalBlockEnd(W, 3, 10, b"raw", 3)) == DataAppended(W, 3, 1, 3, 13)
    assert made.store.read(S, 0, 99) == frame_event(b"hi") + b"raw"


@in_world
async def test_an_append_behind_a_failed_condition_is_refused_too(made: World) -> None:
    peer = await set_up(made)
    await peer.say(ConditionalBlockEnd(W, 1, 5, b"a", 1), ConditionalBlockEnd(W, 2, 0, b"b", 2))
    assert await peer.rest() == [ConditionalCheckFailed(W, 1, 1), InvalidEventNumber(W, 2, "", 2)]
    assert made.store.read(S, 0, 99) == b""


@pytest.mark.parametrize(
    "messages",
    [
        [AppendBlockEnd(UUID(int=1), 1, b"x", 1, 1, 1)],
        [AppendBlockEnd(W, 1, b"x", 0, 1, 1)],
        [AppendBlockEnd(W, 1, b"x", 1, -1, 1)],
        [AppendBlock(W, b"x"), SetupAppend(1, W, S)],
        [AppendBlock(W, b"x"), AppendBlockEnd(W, 2, b"", 1, 1, 1)],
        [AppendSetup(1, S, W, 1)],
    ],
)
def test_appends_out_of_order_close_the_connection_without_an_answer(
    messages: list[Message],
) -> None:
    @in_world
    async def closed(made: World) -> None:
        peer = await set_up(made)
        await peer.say(*messages)
        assert await peer.rest() == []
        assert made.store.read(S, 0, 99) == b""

    closed()


@in_world
async def test_a_full_disk_closes_the_connection_and_the_writer_goes_on_once_there_is_room(
    made: World,
) -> None:
    peer = await set_up(made)
    await peer.ask(one(1))
    made.disk.capacity = 0
    await peer.say(one(2), one(3))
    assert await peer.rest() == []
    made.disk.capacity = None
    peer = await made.peer()
    assert await peer.ask(SetupAppend(2, W, S)) == AppendSetup(2, S, W, 1)
    assert await peer.ask(one(2)) == DataAppended(W, 2, 1, 2, 2)


@in_world
async def test_an_append_of_an_older_connection_is_refused_after_a_newer_set_up__S2(
    made: World,
) -> None:
    older = await set_up(made)
    assert isinstance(await older.ask(one(5)), DataAppended)
    newer = await made.peer()
    assert await newer.ask(SetupAppend(9, W, S)) == AppendSetup(9, S, W, 5)
    assert await older.ask(one(6)) == InvalidEventNumber(W, 6, "", 6)
    assert await older.rest() == []
    # the number that it was told was the last word
    assert isinstance(await newer.ask(one(7)), DataAppended)
    assert made.store.attribute(S, W) == 7


@virtually
async def test_a_set_up_answers_a_number_with_pending_appends_of_older_connections__S2_D2() -> None:
    async with world(sync_seconds=1.0) as made:
        older = await set_up(made)
        await older.say(one(5))
        await asyncio.sleep(0.1)
        newer = await made.peer()
        await newer.say(SetupAppend(9, W, S))
        await asyncio.sleep(0.1)
        await older.say(one(6))
        assert await newer.hear() == AppendSetup(9, S, W, 5)
        assert isinstance(await older.hear(), DataAppended)
        assert isinstance(await older.hear(), InvalidEventNumber)
        assert made.store.attribute(S, W) == 5


@virtually
async def test_of_too_many_writers_the_least_recently_used_is_forgotten__S4() -> None:
    async with world() as made:
        await made.store.create(S)
        claims, told = WriterFence(), list[Message]()
        appending = Appender(made.store, claims, Turns(), most_writers=2)

        async def send(replies: Sequence[Message]) -> None:
            told.extend(replies)

        for number in (1, 2):
            await appending.set_up_writer(SetupAppend(number, UUID(int=number), S))
        await appending.submit_append(WholeAppend(UUID(int=1), 1, 1, b"x", 3))
        await appending.set_up_writer(SetupAppend(4, UUID(int=3), S))
        await appending.submit_append(WholeAppend(UUID(int=1), 2, 1, b"x", 5))
        with pytest.raises(OrderError, match="not set up"):
            await appending.submit_append(WholeAppend(UUID(int=2), 1, 1, b"x", 6))
        assert len(claims) == 2
        appending.stop_accepting()
        await appending.send_replies(send)
        assert [type(message).__name__ for message in told] == [
            "AppendSetup",
            "AppendSetup",
            "DataAppended",
            "AppendSetup",
            "DataAppended",
        ]
        assert len(claims) == 0


@in_world
async def test_writers_of_all_connections_are_limited_and_later_ones_find_room(
    made: World,
) -> None:
    await made.store.create(S)
    claims = WriterFence(100)
    greedy = [Appender(made.store, claims, Turns()) for _ in range(3)]
    for number in range(500):
        for at, appending in enumerate(greedy):
            await appending.set_up_writer(SetupAppend(0, UUID(int=number * 10 + at), S))
    assert 60 < len(claims) <= 100
    late = Appender(made.store, claims, Turns())
    for number in range(10):
        await late.set_up_writer(SetupAppend(0, UUID(int=(1 << 64) + number), S))
    for number in range(10):
        late.require_writer(UUID(int=(1 << 64) + number))
    assert len(claims) <= 100
    for appending in (*greedy, late):
        appending.require_writer(next(reversed(appending._writers)))
        appending.stop_accepting()
    assert len(claims) == 0


@in_world
async def test_the_first_part_of_an_append_without_set_up_closes_the_connection(
    made: World,
) -> None:
    """No part of it is kept until its end, which could only be refused."""
    peer = await set_up(made)
    await peer.say(AppendBlock(UUID(int=99), b"x" * 1000))
    assert await peer.rest() == []
    assert await (await made.peer()).ask(KeepAlive()) == KeepAlive()


@pytest.mark.parametrize("end", [Store.seal, Store.delete])
def test_a_seal_or_deletion_is_reported_only_once_it_is_durable__D2(
    end: Callable[[Store, str], asyncio.Future[None]],
) -> None:
    """The disk is full when the segment is to be sealed, or deleted: an append that comes
    meanwhile waits for that, and is stored.
    """

    async def main() -> None:
        async with world() as made:
            peer = await set_up(made)
            assert isinstance(await peer.ask(one(1)), DataAppended)
            made.disk.fail_write(errno.ENOSPC)
            ending = end(made.store, S)
            assert isinstance(await peer.ask(one(2)), DataAppended)
            assert isinstance(ending.exception(), TransientError)
            ending = end(made.store, S)
            assert isinstance(await peer.ask(one(3)), SegmentIsSealed | NoSuchSegment)
            assert ending.exception() is None

    virtual_time.run(main())


@pytest.mark.parametrize(
    "flood",
    [
        lambda number: WholeAppend(W, number, 1, b"", number),
        lambda number: WholeAppend(W, 1, 1, b"", number),
        lambda number: SetupAppend(number, UUID(int=number % 7), S),
        lambda number: SetupAppend(number, W, "x" * 2000),
    ],
    ids=[
        "appends of nothing",
        "appends that are refused",
        "set-ups",
        "set-ups in long names that are not there",
    ],
)
def test_replies_for_a_peer_that_does_not_read_are_limited_however_small(
    flood: Callable[[int], WholeAppend | SetupAppend],
) -> None:
    async def main() -> None:
        async with world() as made:
            await made.store.create(S)
            appending, given = Appender(made.store, WriterFence(), Turns(), unacked_bytes=50_000), 0

            async def send(replies: Sequence[Message]) -> None:
                await asyncio.sleep(1000)

            async def read() -> None:
                nonlocal given
                await appending.set_up_writer(SetupAppend(0, W, S))
                for given in range(1, 1000):
                    message = flood(given)
                    await (
                        appending.set_up_writer(message)
                        if isinstance(message, SetupAppend)
                        else appending.submit_append(message)
                    )

            tasks = [asyncio.create_task(appending.send_replies(send)), asyncio.create_task(read())]
            await asyncio.sleep(500)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert 10 < given < 250

    virtual_time.run(main())


def test_pending_appends_of_one_connection_are_limited_however_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise those of other connections would wait behind them."""
    monkeypatch.setattr(
        "logdrive.services.pravega.server.segments.appending.PRAVEGA_UNACKED_APPENDS", 100
    )

    async def main() -> None:
        async with world(sync_seconds=10.0) as made:
            await made.store.create(S)
            appending, given = Appender(made.store, WriterFence(), Turns()), 0

            async def send(replies: Sequence[Message]) -> None:
                pass

            async def read() -> None:
                nonlocal given
                await appending.set_up_writer(SetupAppend(0, W, S))
                for given in range(1, 1000):
                    await appending.submit_append(WholeAppend(W, given, 1, b"x", given))

            tasks = [asyncio.create_task(appending.send_replies(send)), asyncio.create_task(read())]
            await asyncio.sleep(5)
            assert 50 < given <= 101
            await asyncio.sleep(500)
            assert given == 999
            tasks[0].cancel()
            await asyncio.wait(tasks)

    virtual_time.run(main())
