"""Peers that compress much into little, or never end a window.

Memory stays limited, and the other peers are served meanwhile.
"""

import asyncio
import os
import tracemalloc
from random import Random
from uuid import UUID

from logdrive.model.units import KIB, MIB
from logdrive.wire.lumberjack.envelope import KEPT, pack
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    JsonFrame,
    JsonRun,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
    SourceFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.reader import STEP_FRAMES
from receiver.conversation import PORTION_STEPS
from tests.receiver.peers import Peer, run_of
from tests.receiver.world import SYNC_SECONDS, World, configuration, in_virtual_time, receiver

A = UUID(int=0xA)
EVENT = b'"' + b" " * (700 * KIB) + b'"'
BOMB_EVENTS = 40
BOMB = (
    WindowFrame(BOMB_EVENTS).encode()
    + EnvelopeFrame(pack(JsonRun.of(1, [EVENT] * BOMB_EVENTS).encode())).encode()
)
"""28 MB of events."""
UNFINISHED = WindowFrame(1).encode() + b"2C" + (6 * MIB).to_bytes(4, "big") + os.urandom(4 * MIB)


def window(number: int) -> bytes:
    """Return a Beat's window of three events."""
    return (
        WindowFrame(3).encode()
        + EnvelopeFrame(pack(JsonRun.of(1, [b'{"n":%d}' % number] * 3).encode())).encode()
    )


async def _served(peer: Peer, windows: int) -> float:
    """Send *windows*, one after the other; return for how long one had to wait at most."""
    loop, longest = asyncio.get_running_loop(), 0.0
    for number in range(windows):
        began = loop.time()
        await peer.send(window(number))
        assert await peer.next() == AckFrame(3)
        longest = max(longest, loop.time() - began)
    return longest


@in_virtual_time
async def test_what_envelopes_hold_is_not_unpacked_before_there_is_memory_for_it() -> None:
    async with receiver(
        config=configuration(connection_bytes=8 * MIB, total_bytes=16 * MIB)
    ) as world:
        bad = [await world.foreign(f"bad-{n}", f"cn:bad-{n}") for n in range(8)]
        world.stall(60.0)
        tracemalloc.start()
        try:
            for peer in bad:
                await peer.send(BOMB)
            await asyncio.sleep(30)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert 12 * MIB < world.memory.used < (16 + 8) * MIB + KEPT, (
            "the limit, and one that goes beyond it up to its own"
        )
        assert peak < 80 * MIB, "eight envelopes hold 224 MB"
        world.executor.delay = SYNC_SECONDS
        for peer in bad:
            assert await peer.next(600) == AckFrame(BOMB_EVENTS)
        assert world.memory.used == 0


@in_virtual_time
async def test_the_others_have_turns_amid_an_envelope() -> None:
    """Each of ten envelopes has 20,000 events that are frames of their own; in a round of the loop
    a few hundred are stored.
    """
    numbers = Random(1)
    events = 20_000
    content = b"".join(
        JsonFrame(numbers.randrange(1, 1 << 32), b"{}").encode() for _ in range(events)
    )
    hostile = WindowFrame(events).encode() + EnvelopeFrame(pack(content)).encode()
    async with receiver() as world:
        bad = [await world.foreign(f"bad-{n}", f"cn:bad-{n}") for n in range(10)]
        for peer in bad:
            await peer.send(hostile)
        growth, stored = [], 0
        while stored < 10 * events:
            await asyncio.sleep(0)
            growth.append(world.counters.events - stored)
            stored = world.counters.events
        assert len([size for size in growth if size]) >= 10 * events // (
            PORTION_STEPS * STEP_FRAMES
        )
        portions = sorted(growth, reverse=True)
        assert portions[10] <= PORTION_STEPS * STEP_FRAMES, (
            "once each has begun, one goes on in a round"
        )


@in_virtual_time
async def test_windows_go_through_beside_forty_connections_that_end_nothing() -> None:
    async with receiver(config=configuration(total_bytes=64 * MIB)) as world:
        good = await world.foreign()
        before = await _served(good, 5)
        senders = [asyncio.create_task(_hold(world, n)) for n in range(40)]
        await asyncio.sleep(0.1)
        assert world.memory.used > 48 * MIB
        longest = await _served(good, 200)
        assert longest < before + 0.1
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


@in_virtual_time
async def test_windows_go_through_though_more_connections_than_there_memory_for_end_nothing() -> (
    None
):
    async with receiver(config=configuration(total_bytes=8 * MIB)) as world:
        good = await world.foreign()
        await _served(good, 1)
        senders = [asyncio.create_task(_hold(world, n)) for n in range(60)]
        await asyncio.sleep(0.1)
        assert world.memory.used > 8 * MIB
        assert await _served(good, 20) < 5
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


async def _hold(world: World, number: int) -> None:
    """Hold an envelope that never ends; come again whenever the connection is closed."""
    while True:
        peer = await world.native(f"bad-{number}", f"cn:bad-{number}")
        sending = asyncio.create_task(peer.send(UNFINISHED))
        while (await peer.next(3600)) is not None:
            pass
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await asyncio.sleep(0.5)


@in_virtual_time
async def test_who_holds_memory_without_progress_told_to_come_again_once_others_want_it() -> None:
    async with receiver(config=configuration(total_bytes=8 * MIB)) as world:
        bad = [await world.native(f"bad-{n}", f"cn:bad-{n}") for n in range(3)]
        sending = [asyncio.create_task(peer.send(UNFINISHED)) for peer in bad]
        await asyncio.sleep(0.1)
        good = await world.native()
        await good.register(0, A)
        last = await good.send_window(run_of(0, 0, 100, lines=10))
        await good.acknowledged(last)
        told = await asyncio.gather(*(peer.next(5) for peer in bad), return_exceptions=True)
        refusals = [frame for frame in told if isinstance(frame, RefusalFrame)]
        assert refusals
        assert {frame.code for frame in refusals} == {RefusalCode.TRY_LATER}
        assert all("without ending what it began" in frame.text for frame in refusals)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


@in_virtual_time
async def test_a_peer_that_is_not_even_read_for_want_of_memory_gets_keepalives() -> None:
    async with receiver(config=configuration(total_bytes=8 * MIB)) as world:
        beat, full = await world.foreign(), await world.foreign("full", "cn:full")
        assert await _served(beat, 1) < 1
        world.stall(60.0)
        filling = asyncio.create_task(_fill(full))
        await asyncio.sleep(10)
        read = world.counters.batches

        agent = await world.native()
        await agent.send(SourceFrame(0, A, b"{}").encode())
        # is answered, as the receiver was reading, and stops now
        await beat.send(WindowFrame(0).encode())
        assert await beat.next(1, keepalives=True) == AckFrame(0)
        await beat.send(window(1))
        for peer in (agent, beat):
            assert await peer.next(10, keepalives=True) == AckFrame(0)
            assert await peer.next(10, keepalives=True) == AckFrame(0)
        assert world.counters.batches == read, "what the two sent was not read"
        assert world.counters.sources_registered == 0

        world.executor.delay = SYNC_SECONDS
        assert await beat.next(120) == AckFrame(3)
        assert isinstance(await agent.next(120), PositionFrame)
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)


async def _fill(peer: Peer) -> None:
    """Send windows of 100 kB each, several times what the receiver may hold."""
    for _ in range(300):
        await peer.send(
            WindowFrame(1).encode() + JsonFrame(1, b'"' + b"x" * 100_000 + b'"').encode()
        )


@in_virtual_time
async def test_who_is_overdrawn_and_gets_on_slowly_is_closed_after_its_time_all_the_same() -> None:
    async with receiver(config=configuration(total_bytes=8 * MIB)) as world:
        peer = await world.foreign()
        began = asyncio.get_running_loop().time()
        sending = asyncio.create_task(_crawl(peer))
        assert await peer.next(60) is None
        assert 9 < asyncio.get_running_loop().time() - began < 13
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _crawl(peer: Peer) -> None:
    """Begin an envelope of 16 MiB, and go on with it at 300 kB a second."""
    await peer.send(WindowFrame(1).encode(), b"2C" + (16 * MIB).to_bytes(4, "big"), bytes(7 * MIB))
    while True:
        await asyncio.sleep(0.5)
        await peer.send(bytes(150_000))
