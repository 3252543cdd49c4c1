"""Runs that can't be stored where they are: rules D2, D3, S2, and their histories
(`docs/protocols/delivery.md` part 7).
"""

import asyncio
import errno
from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from logdrive.model.identity import source_id
from logdrive.model.numbers import ABSENT
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    Frame,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
    SourceFrame,
)
from tests.receiver.peers import NativePeer, at, content, run_of
from tests.receiver.world import SYNC_SECONDS, in_virtual_time, ledger, receiver
from tests.support.memory.disk import MemoryDisk

A, B = UUID(int=0xA), UUID(int=0xB)


def lines(index: int, start: int, end: int) -> tuple:  # type: ignore[type-arg]
    return run_of(index, start, end, lines=(end - start) // 10)


async def _position(peer: NativePeer, index: int = 0) -> int:
    frame = await peer.next()
    assert isinstance(frame, PositionFrame), frame
    assert frame.index == index
    return frame.number


@in_virtual_time
async def test_history_1_no_position_and_no_acknowledgement_before_sync_and_then_power_cut() -> (
    None
):
    async with receiver() as world:
        first, second = await world.native(), await world.native()
        await first.register(0, A)
        world.stall()
        await first.send_window(lines(0, 0, 100))
        await second.send(SourceFrame(0, A, b"{}").encode())
        assert await first.next(2.0) == RefusalFrame(
            0,
            RefusalCode.REGISTERED_LATER,
            "the source was registered again, here or on another connection",
        )
        assert await second.next(3.5, keepalives=True) == AckFrame(0)
        after = world.disk.crash(Random(5))
    async with receiver(disk=after) as world:
        peer = await world.native()
        position = await peer.register(0, A)
        assert isinstance(position, PositionFrame)
        # the cut may have kept the write: then the position says so
        start = max(position.number, 0) >> 16
        await peer.acknowledged(await peer.send_window(lines(0, start, 200)))
    assert content(200) in (await ledger(world.disk)).by_data()


@in_virtual_time
async def test_d3_run_does_not_follow_gets_position_before_its_window_is_acknowledged() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.register(1, B)
        await peer.acknowledged(await peer.send_window(lines(0, 0, 100)))
        await peer.send(
            peer.window(lines(0, 50, 150), lines(1, 0, 30)),
            peer.window(lines(0, 150, 200), lines(1, 30, 60)),
        )
        assert await _position(peer) == at(100)
        await peer.acknowledged(3)
        await peer.acknowledged(5)  # of the refused source this says nothing
        await peer.acknowledged(await peer.send_window(lines(0, 100, 200)))
    assert {len(delivered.data) for delivered in (await ledger(world.disk)).sources.values()} == {
        200,
        60,
    }
    assert world.counters.runs_refused == 2
    assert world.counters.positions_corrected == 1


@in_virtual_time
async def test_p2_what_was_never_seen_starts_at_0() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.send_window(lines(0, 10, 20))
        assert await _position(peer) == ABSENT
        await peer.acknowledged(1)
        await peer.acknowledged(await peer.send_window(lines(0, 0, 20)))


@in_virtual_time
async def test_d3_the_position_told_is_durable_and_waits_for_what_is_in_flight() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 5.0
        await peer.send(
            peer.window(lines(0, 0, 100)),
            peer.window(lines(0, 200, 300)),
            peer.window(lines(0, 300, 400)),
        )
        assert await peer.silent(2.0)
        # in either order: the position acknowledges the first window too
        frames = [await peer.next(), await peer.next()]
        assert AckFrame(1) in frames
        assert [frame.number for frame in frames if isinstance(frame, PositionFrame)] == [at(100)]
        await peer.acknowledged(2)
        await peer.acknowledged(3)


@in_virtual_time
async def test_history_3_two_first_runs_in_flight_and_first_fails_second_is_not_stored() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.register(1, B)
        world.disk.fail_write(errno.ENOSPC)
        await peer.send(
            peer.window(lines(0, 0, 100), lines(1, 0, 50)), peer.window(lines(0, 100, 200))
        )
        told = {
            frame.index: frame.number
            for frame in [await peer.next(), await peer.next()]
            if isinstance(frame, PositionFrame)
        }
        assert told == {0: ABSENT, 1: ABSENT}
        await peer.acknowledged(2)
        await peer.acknowledged(3)
        last = await peer.send_window(lines(0, 0, 200), lines(1, 0, 50))
        await peer.acknowledged(last)
    delivered = (await ledger(world.disk)).by_data()
    assert set(delivered) == {content(200), content(50)}
    assert world.counters.sink_failures >= 2


@in_virtual_time
async def test_a_full_disk_is_told_by_position_and_shipping_goes_on_once_there_is_room() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.acknowledged(await peer.send_window(lines(0, 0, 100)))
        world.disk.capacity = 0
        await peer.send_window(lines(0, 100, 200))
        assert await _position(peer) == at(100)
        await peer.acknowledged(2)
        world.disk.capacity = None
        await peer.acknowledged(await peer.send_window(lines(0, 100, 200)))
    assert content(200) in (await ledger(world.disk)).by_data()


@in_virtual_time
async def test_e3_three_runs_full_disk_did_not_take_end_source_for_second_and_no_other() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.register(1, B)
        world.disk.capacity = 0
        for number in (1, 2, 3):
            await peer.send_window(lines(0, 0, 100))
            assert await _position(peer) == ABSENT
            if number == 3:
                refusal = await peer.next()
                assert isinstance(refusal, RefusalFrame)
                assert (refusal.index, refusal.code) == (0, RefusalCode.TRY_LATER)
                assert "space" in refusal.text
            await peer.acknowledged(number)
        world.disk.capacity = None
        await peer.acknowledged(await peer.send_window(lines(0, 0, 100), lines(1, 0, 40)))
        await peer.register(2, A)  # a little later the writer tries again, under a new index
        await peer.acknowledged(await peer.send_window(lines(2, 0, 100)))
    assert set((await ledger(world.disk)).by_data()) == {content(100), content(40)}


class _FillingDisk(MemoryDisk):
    """Calls `on_full` when a write finds no room, before the writer learns of it."""

    on_full: Callable[[], None] = staticmethod(lambda: None)

    def _room_for(self, size: int) -> tuple[int, int]:
        room, error = super()._room_for(size)
        if error:
            self.on_full()
        return room, error


def _after_turns(turns: int, call: Callable[[], None]) -> None:
    """Call *call* after so many turns of the event loop."""
    if turns:
        asyncio.get_running_loop().call_soon(_after_turns, turns - 1, call)
    else:
        call()


@pytest.mark.parametrize("turns", range(6))
@in_virtual_time
async def test_e3_also_where_a_run_is_dropped_before_the_failure_of_the_one_before_is_known(
    turns: int,
) -> None:
    disk = _FillingDisk()
    async with receiver(disk=disk) as world:
        peer = await world.native()
        await peer.register(0, A)
        disk.capacity = 0
        [connection] = world.network.connections()
        disk.on_full = lambda: _after_turns(turns, connection.resume)
        for _ in (1, 2, 3):
            await peer.send_window(lines(0, 0, 100))
            await asyncio.sleep(SYNC_SECONDS / 2)
            # comes just before, or just after the failure of the first run
            connection.stall()
            last = await peer.send_window(lines(0, 100, 200))
            frames = []
            while (frame := await peer.next()) != AckFrame(last):
                frames.append(frame)
        refusals = [frame for frame in frames if isinstance(frame, RefusalFrame)]
        assert [frame.code for frame in refusals] == [RefusalCode.TRY_LATER]
        assert "space" in refusals[0].text


@in_virtual_time
async def test_history_24_one_source_that_can_never_match_among_ten_thousand() -> None:
    sources = 10_000
    async with receiver() as world:
        world.executor.delay = 0.001
        peer = await world.native()
        for start in range(0, sources, 250):
            await peer.send(
                *(
                    SourceFrame(index, UUID(int=index + 1), b"{}").encode()
                    for index in range(start, start + 250)
                )
            )
            for index in range(start, start + 250):
                assert await _position(peer, index) == ABSENT
        place = [0] * sources
        window = 0
        refusals: list[Frame | None] = []
        random = Random(24)
        while not any(isinstance(frame, RefusalFrame) for frame in refusals):
            window += 1
            assert window < 60, "no E 6"
            runs = [lines(0, 70, 90)]  # wrong each time
            for index in random.sample(range(1, sources), 200):
                runs.append(lines(index, place[index], place[index] + 20))
                place[index] += 20
            last = await peer.send_window(*runs)
            while (frame := await peer.next()) != AckFrame(last):
                refusals.append(frame)
        assert [type(frame) for frame in refusals] == [
            PositionFrame,
            PositionFrame,
            PositionFrame,
            RefusalFrame,
        ]
        assert refusals[-1].index == 0  # type: ignore[union-attr]
        assert refusals[-1].code == RefusalCode.NO_PROGRESS  # type: ignore[union-attr]
    delivered = (await ledger(world.disk)).sources
    wanted = {
        str(source_id(UUID(int=index + 1), "cn:web-1")): content(size)
        for index, size in enumerate(place)
        if size
    }
    assert {source: found.data for source, found in delivered.items()} == wanted


@in_virtual_time
async def test_history_11_half_open_session_and_its_successor_cut_same_source_differently() -> None:
    async with receiver() as world:
        old, new = await world.native(), await world.native()
        await old.register(0, A)
        await old.register(1, B)
        await old.acknowledged(await old.send_window(lines(0, 0, 100), lines(1, 0, 10)))
        world.executor.delay = 1.0
        await old.send_window(lines(0, 100, 170))  # on its way when the successor registers
        position = await new.register(0, A)
        assert isinstance(position, PositionFrame)
        assert position.number == at(170)
        refusal = await old.next()
        assert isinstance(refusal, RefusalFrame)
        assert (refusal.index, refusal.code) == (0, RefusalCode.REGISTERED_LATER)
        await old.acknowledged(3)
        # the half-open one goes on, with other cuts
        await old.send_window(lines(0, 170, 200), lines(1, 10, 20))
        await new.acknowledged(await new.send_window(lines(0, 170, 260)))
        await old.acknowledged(5)
        again = await old.register(2, A)  # and back
        assert isinstance(again, PositionFrame)
        assert again.number == at(260)
        await old.acknowledged(await old.send_window(lines(2, 260, 300)))
    assert set((await ledger(world.disk)).by_data()) == {content(300), content(20)}
    assert world.counters.sources_fenced == 2


@in_virtual_time
async def test_s2_same_source_registered_twice_on_one_connection_lives_under_its_last_index() -> (
    None
):
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.send(SourceFrame(1, A, b"{}").encode())
        frames = [await peer.next(), await peer.next()]
        assert [type(frame) for frame in frames] == [RefusalFrame, PositionFrame]
        await peer.acknowledged(await peer.send_window(lines(0, 0, 50), lines(1, 0, 80)))
    assert set((await ledger(world.disk)).by_data()) == {content(80)}


@in_virtual_time
async def test_a_source_registered_anew_under_its_own_index_goes_on() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.acknowledged(await peer.send_window(lines(0, 0, 50)))
        position = await peer.register(0, A)
        assert isinstance(position, PositionFrame)
        assert position.number == at(50)
        await peer.acknowledged(await peer.send_window(lines(0, 50, 80)))
    assert set((await ledger(world.disk)).by_data()) == {content(80)}
