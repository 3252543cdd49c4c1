"""A connection with many small messages takes turns with the others."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from logdrive.model.framing import Part
from logdrive.services.pravega.server.segments.turn import TURN_STEPS
from logdrive.store.pending import PendingWrite
from logdrive.wire.pravega.appends import AppendBlockEnd, DataAppended, SetupAppend
from logdrive.wire.pravega.codec import MessageReader
from logdrive.wire.pravega.control import KeepAlive
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import PRAVEGA_TAIL_READS
from logdrive.wire.pravega.segments import (
    GetStreamSegmentInfo,
    LocateOffset,
    ReadSegment,
    SegmentRead,
)
from tests.support.memory.transport import MemoryStream
from tests.support.pravega.framings import W
from tests.support.pravega.peer import Peer, S, World, in_world

_MANY = 4 * TURN_STEPS


class _Answers:
    """Counts the messages that all streams are given to write."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._write = MemoryStream.write
        answers = self

        async def counted(stream: MemoryStream, parts: Sequence[Part]) -> None:
            if stream.peer.address.startswith("client"):  # the server's end
                answers.count += sum(
                    1 for _ in MessageReader().receive_data(b"".join(map(bytes, parts)))
                )
            await answers._write(stream, parts)

        patch.setattr(MemoryStream, "write", counted)

    async def most_at_once(self, until: Callable[[], bool]) -> int:
        """Return the most answers that were written before the other tasks could run."""
        most = 0
        while not until():
            before = self.count
            await asyncio.sleep(0)
            most = max(most, self.count - before)
        return most


def _info(number: int) -> Message:
    return GetStreamSegmentInfo(number, S)


def _set_up(number: int) -> Message:
    return SetupAppend(number, UUID(int=number), S)


def _missing(number: int) -> Message:
    return LocateOffset(number, "none", 0)


def _read(number: int) -> Message:
    return ReadSegment(S, 0, 8, "", number)


@pytest.mark.parametrize("message", [lambda _: KeepAlive(), _info, _set_up, _missing, _read])
def test_many_messages_are_answered_one_turn_at_a_time(
    message: Callable[[int], Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    @in_world
    async def flooded(made: World) -> None:
        await made.store.create(S)
        await made.store.append(S, b"12345678", writer=W, expected=None, number=1, events=1)
        answers = _Answers(monkeypatch)
        peer = await made.peer()
        await peer.say(*(message(number) for number in range(_MANY)))
        most = await answers.most_at_once(lambda: answers.count >= _MANY)
        assert 0 < most <= TURN_STEPS
        heard = [await peer.hear() for _ in range(_MANY)]
        assert len({type(answer) for answer in heard}) == 1
        assert [getattr(answer, "request_id", at) for at, answer in enumerate(heard)] == list(
            range(_MANY)
        )

    flooded()


@in_world
async def test_several_busy_connections_share_one_turn_a_round(made: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        answers = _Answers(patch)
        peers = [await made.peer() for _ in range(8)]
        for peer in peers:
            await peer.say(*[KeepAlive()] * _MANY)
        before = answers.count
        firsts = len(peers) * TURN_STEPS  # each had a first turn
        await answers.most_at_once(lambda: answers.count >= before + firsts)
        assert (
            0
            < await answers.most_at_once(lambda: answers.count >= len(peers) * _MANY)
            <= TURN_STEPS
        )


@in_world
async def test_many_appends_are_acknowledged_one_turn_at_a_time(
    made: World,
) -> None:
    peer = await made.peer()
    await made.store.create(S)
    await peer.ask(SetupAppend(1, W, S))
    settled = list[int]()
    settle = made.store._commit._on_durable

    def counted(group: Sequence[PendingWrite]) -> None:
        settled.append(len(group))
        settle(group)

    made.store._commit._on_durable = counted
    total = 3 * made.store._limits.group_entries
    await peer.say(
        *(AppendBlockEnd(W, 1, b"x", 1, number, number) for number in range(1, total + 1))
    )
    before, acknowledged = 0, list[int]()
    while before < total:
        answer = await peer.hear()
        assert isinstance(answer, DataAppended)
        acknowledged.append(answer.event_number - before)
        before = answer.event_number
    assert max(acknowledged) <= TURN_STEPS
    assert max(settled) <= made.store._limits.group_entries


async def _polling(made: World, count: int, offset: int) -> Peer:
    peer = await made.peer()
    await peer.say(*(ReadSegment(S, offset, 8, "", number) for number in range(count)), KeepAlive())
    assert await peer.hear() == KeepAlive()
    return peer


@in_world
async def test_waiting_reads_have_no_task_each(made: World) -> None:
    await made.store.create(S)
    before = len(asyncio.all_tasks())
    peer = await _polling(made, PRAVEGA_TAIL_READS, 0)
    assert len(asyncio.all_tasks()) <= before + 5
    await peer.stream.close()


@in_world
async def test_reads_woken_by_one_append_are_answered_one_turn_at_a_time(made: World) -> None:
    await made.store.create(S)
    with pytest.MonkeyPatch.context() as patch:
        answers = _Answers(patch)
        peer = await _polling(made, PRAVEGA_TAIL_READS, 0)
        before = answers.count
        await made.store.append(S, b"12345678", writer=W, expected=None, number=1, events=1)
        assert (
            0
            < await answers.most_at_once(lambda: answers.count >= before + PRAVEGA_TAIL_READS)
            <= TURN_STEPS
        )
        heard: list[Any] = [await peer.hear() for _ in range(PRAVEGA_TAIL_READS)]
        assert {answer.request_id for answer in heard} == set(range(PRAVEGA_TAIL_READS))


@in_world
async def test_an_append_costs_nothing_for_reads_beyond_it(made: World) -> None:
    """Otherwise a client with a thousand reads far beyond the end would slow down each append."""
    await made.store.create(S)
    far = await _polling(made, PRAVEGA_TAIL_READS, 1 << 40)
    near = await _polling(made, 1, 0)
    looks = 0
    info = made.store.info

    def counted(segment: str) -> object:
        nonlocal looks
        looks += 1
        return info(segment)

    made.store.info = counted  # type: ignore[method-assign,assignment]
    await made.store.append(S, b"12345678", writer=W, expected=None, number=1, events=1)
    answer = await near.hear()
    assert isinstance(answer, SegmentRead)
    assert 0 < looks < 20
    await far.stream.close()


@in_world
async def test_reads_answered_at_their_deadline_leave_nothing_behind(
    made: World,
) -> None:
    await made.store.create(S)
    peer = await _polling(made, 10, 0)
    assert made.store._waiters._waiting
    for _ in range(10):
        answer = await peer.hear()
        assert isinstance(answer, SegmentRead)
        assert (answer.at_tail, answer.data) == (True, b"")
    assert not made.store._waiters._waiting
    await peer.say(ReadSegment(S, 0, 8, "", 11), KeepAlive())
    await peer.hear()
    await peer.stream.close()
    await asyncio.sleep(1)
    assert not made.store._waiters._waiting
