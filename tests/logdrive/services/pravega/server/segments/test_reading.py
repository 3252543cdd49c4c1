"""Answers to reads (specification, sections 3 and 0)."""

import asyncio

import pytest

from logdrive.wire.pravega.appends import SetupAppend
from logdrive.wire.pravega.control import ErrorMessage, KeepAlive, NoSuchSegment, SegmentIsSealed
from logdrive.wire.pravega.limits import PRAVEGA_READ_BYTES, PRAVEGA_TAIL_READS
from logdrive.wire.pravega.segments import ReadSegment, SegmentRead
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world

TEN = b"0123456789"


def read(offset: int, length: int = 1024, request: int = 7) -> ReadSegment:
    return ReadSegment(S, offset, length, "", request)


async def filled(made: World, data: bytes = TEN, number: int = 1) -> None:
    await made.store.create(S)
    await made.store.append(S, data, writer=W, expected=None, number=number, events=1)


@in_world
async def test_existing_data_is_answered_at_once_with_its_flags(made: World) -> None:
    await filled(made)
    peer = await made.peer()
    assert await peer.ask(read(0)) == SegmentRead(S, 0, True, False, TEN, 7)  # met the tail
    assert await peer.ask(read(0, 10)) == SegmentRead(S, 0, False, False, TEN, 7)  # filled exactly
    assert await peer.ask(read(2, 8, 9)) == SegmentRead(S, 2, False, False, TEN[2:], 9)
    # eight bytes at least
    assert await peer.ask(read(0, -3)) == SegmentRead(S, 0, False, False, TEN[:8], 7)
    await made.store.seal(S)
    assert await peer.ask(read(0)) == SegmentRead(S, 0, False, True, TEN, 7)
    assert await peer.ask(read(10)) == SegmentRead(S, 10, False, True, b"", 7)


@in_world
async def test_an_answer_has_two_mebibytes_at_most(made: World) -> None:
    await filled(made, bytes(PRAVEGA_READ_BYTES + 5))
    peer = await made.peer()
    answer = await peer.ask(read(0, 1 << 30))
    assert isinstance(answer, SegmentRead)
    assert len(answer.data) == PRAVEGA_READ_BYTES
    assert not answer.at_tail


@in_world
async def test_an_answer_has_a_few_thousand_appends_at_most(
    made: World,
) -> None:
    await made.store.create(S)
    whole = b"".join(b"%d" % (number % 10) for number in range(5000))
    await asyncio.gather(
        *(
            made.store.append(
                S, whole[number : number + 1], writer=W, expected=None, number=number + 1, events=1
            )
            for number in range(len(whole))
        )
    )
    await made.store.seal(S)
    peer = await made.peer()
    answer = await peer.ask(read(3, 1 << 20))
    assert isinstance(answer, SegmentRead)
    assert 1000 < len(answer.data) < 4500
    assert not answer.end_of_segment
    place = 3 + len(answer.data)
    rest = await peer.ask(read(place, 1 << 20))
    assert rest == SegmentRead(S, place, False, True, whole[place:], 7)
    assert bytes(answer.whole) + whole[place:] == whole[3:]


@in_world
async def test_a_missing_segment_is_named_with_the_offset_read(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(read(5)) == NoSuchSegment(7, S, "", 5)


@pytest.mark.parametrize(("offset", "sealed"), [(-1, False), (11, True)])
def test_an_impossible_offset_closes_the_connection_without_an_answer(
    offset: int, sealed: bool
) -> None:
    @in_world
    async def closed(made: World) -> None:
        await filled(made)
        if sealed:
            await made.store.seal(S)
        peer = await made.peer()
        await peer.say(read(offset))
        assert await peer.rest() == []

    closed()


@in_world
async def test_a_read_at_the_tail_waits_for_data_and_blocks_nothing(made: World) -> None:
    await filled(made)
    peer, other = await made.peer(), await made.peer()
    await peer.say(read(10), read(12, request=8))
    assert isinstance(await peer.ask(KeepAlive()), KeepAlive)
    await peer.ask(SetupAppend(1, W, S))
    assert await other.ask(read(0, 8)) == SegmentRead(S, 0, False, False, TEN[:8], 7)
    await filled_more(made, b"ab", 2)
    assert await peer.hear() == SegmentRead(S, 10, True, False, b"ab", 7)
    await filled_more(made, b"cd", 3)
    assert await peer.hear() == SegmentRead(S, 12, True, False, b"cd", 8)


async def filled_more(made: World, data: bytes, number: int) -> None:
    await made.store.append(S, data, writer=W, expected=None, number=number, events=1)


@pytest.mark.parametrize("offset", [0, 22])
def test_new_data_stays_in_memory_for_clients_that_read_or_wait_at_the_tail(
    offset: int,
) -> None:
    @in_world
    async def kept(made: World) -> None:
        await filled(made)
        peer = await made.peer()
        await filled_more(made, b"nobody reads", 2)
        assert not made.store._reader._kept
        await peer.say(read(offset))
        await peer.ask(KeepAlive())
        await filled_more(made, b"followed", 3)
        assert b"followed" in map(bytes, made.store._reader._kept.values())

    kept()


@in_world
async def test_a_read_at_the_tail_gets_an_empty_answer_within_ten_to_twenty_seconds(
    made: World,
) -> None:
    await filled(made)
    peer = await made.peer()
    before = asyncio.get_running_loop().time()
    assert await peer.ask(read(10)) == SegmentRead(S, 10, True, False, b"", 7)
    assert 10 <= asyncio.get_running_loop().time() - before <= 20


@in_world
async def test_a_seal_answers_the_reads_that_wait(made: World) -> None:
    await filled(made)
    peer = await made.peer()
    await peer.say(read(10))
    await peer.ask(KeepAlive())
    await made.store.seal(S)
    assert await peer.hear() == SegmentIsSealed(7, S, "", 10)


@in_world
async def test_waiting_reads_are_limited_and_the_next_is_answered_empty_at_once(
    made: World,
) -> None:
    await filled(made)
    peer = await made.peer()
    await peer.say(*(read(10, request=number) for number in range(PRAVEGA_TAIL_READS + 1)))
    before = asyncio.get_running_loop().time()
    assert await peer.hear() == SegmentRead(S, 10, True, False, b"", PRAVEGA_TAIL_READS)
    assert asyncio.get_running_loop().time() - before < 1


@in_world
async def test_damaged_data_is_reported_and_the_connection_goes_on(made: World) -> None:
    await filled(made, bytes(range(200)))
    contents = {
        path: made.disk.content(path)
        for path in (f"/var/store/{name}" for name in made.disk.names("/var/store"))
    }
    path = next(path for path, content in contents.items() if bytes(range(200)) in content)
    made.disk.flip_bit(path, contents[path].index(bytes(range(200))) + 50)
    peer = await made.peer()
    answer = await peer.ask(read(0))
    assert isinstance(answer, ErrorMessage)
    assert "damaged" in answer.text
    assert isinstance(await peer.ask(KeepAlive()), KeepAlive)
