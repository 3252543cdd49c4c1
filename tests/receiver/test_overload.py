"""Memory stays limited whatever peers send or hold back, and no peer delays others for long."""

import asyncio
import os
from uuid import UUID

import pytest

from logdrive.model.limits import RUN_BYTES
from logdrive.model.records import DATA, block_record
from logdrive.model.units import MIB
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    JsonRun,
    PositionFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from tests.receiver.peers import NativePeer, run_of
from tests.receiver.world import SYNC_SECONDS, configuration, in_virtual_time, ledger, receiver

A, B = UUID(int=0xA), UUID(int=0xB)


def lines(index: int, start: int, end: int) -> tuple:  # type: ignore[type-arg]
    return run_of(index, start, end, lines=(end - start) // 10)


def _large(index: int, number: int) -> tuple:  # type: ignore[type-arg]
    """Return run *number* of a source whose runs are of 800 KiB each, in records of some 100
    KiB.
    """
    size = 800 * 1024
    start, step = number * size, size // 8
    records = [
        block_record(start + n * step, start + (n + 1) * step, 1, "x" * (step - 1) + "\n")
        for n in range(8)
    ]
    assert sum(len(record) + 8 for record in records) <= RUN_BYTES
    return RunFrame(index, DATA, start << 16, (start + size) << 16, 0, 0, 8, 8), records


@in_virtual_time
async def test_one_connection_read_no_further_than_its_memory_until_its_batches_durable() -> None:
    async with receiver(config=configuration(connection_bytes=8 * MIB)) as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 60.0
        sending = asyncio.create_task(_send_all(peer, 0, 40))
        await asyncio.sleep(30)
        assert not sending.done()
        assert 7 * MIB < world.counters.bytes < 12 * MIB
        world.executor.delay = SYNC_SECONDS
        await sending
    assert [len(found.data) for found in (await ledger(world.disk)).sources.values()] == [
        40 * 800 * 1024
    ]


@in_virtual_time
async def test_all_connections_together_are_read_no_further_than_the_total() -> None:
    async with receiver(
        config=configuration(connection_bytes=16 * MIB, total_bytes=16 * MIB)
    ) as world:
        peers = [await world.native(f"web-{n}", f"cn:web-{n}") for n in range(8)]
        for peer in peers:
            await peer.register(0, A)
        world.executor.delay = 60.0
        sending = [asyncio.create_task(_send_all(peer, 0, 12)) for peer in peers]
        await asyncio.sleep(30)
        assert world.counters.bytes < 16 * MIB + 8 * 2 * MIB
        world.executor.delay = SYNC_SECONDS
        await asyncio.gather(*sending)
    assert [len(found.data) for found in (await ledger(world.disk)).sources.values()] == [
        12 * 800 * 1024
    ] * 8


async def _send_all(peer: NativePeer, index: int, runs: int) -> None:
    """Send *runs* windows of one run each, twelve in flight, until all are acknowledged."""
    flying: list[int] = []
    for number in range(runs):
        flying.append(await peer.send_window(_large(index, number)))
        if len(flying) == 12:
            await peer.acknowledged(flying.pop(0))
    for last in flying:
        await peer.acknowledged(last)


@in_virtual_time
async def test_memory_full_of_unfinished_windows_does_not_stop_the_receiver() -> None:
    """Connections that stop in mid-envelope can hold no more than the total, and not for ever."""
    async with receiver(config=configuration(total_bytes=8 * MIB)) as world:
        stuck = [await world.native(f"bad-{n}", f"cn:bad-{n}") for n in range(4)]
        noise = os.urandom(5 * MIB)
        sending = [
            asyncio.create_task(
                peer.send(WindowFrame(1).encode(), b"2C" + (6 * MIB).to_bytes(4, "big"), noise)
            )
            for peer in stuck
        ]
        await asyncio.sleep(5)
        good = await world.native()
        await good.register(0, A)
        last = await good.send_window(lines(0, 0, 100))
        frame = await good.next(120)
        assert frame == AckFrame(last)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


@in_virtual_time
async def test_history_25_many_agents_that_reconnect_at_once_are_all_served() -> None:
    agents, sources = 300, 10
    async with receiver() as world:
        peers = [await world.native(f"web-{n}", f"cn:web-{n}") for n in range(agents)]

        async def resume(peer: NativePeer) -> None:
            await peer.send(
                *(
                    SourceFrame(index, UUID(int=index + 1), b"{}").encode()
                    for index in range(sources)
                )
            )
            assert {
                frame.index
                for _ in range(sources)
                if isinstance(frame := await peer.next(), PositionFrame)
            } == set(range(sources))
            await peer.acknowledged(
                await peer.send_window(*(lines(index, 0, 20) for index in range(sources)))
            )

        async with asyncio.TaskGroup() as group:
            for peer in peers:
                group.create_task(resume(peer))
    assert len((await ledger(world.disk)).sources) == agents * sources


@in_virtual_time
async def test_who_reads_beyond_memory_limit_closed_after_its_time_though_keeps_sending() -> None:
    async with receiver(config=configuration(total_bytes=8 * MIB)) as world:
        stuck = [await world.native(f"bad-{n}", f"cn:bad-{n}") for n in range(3)]
        trickles = [asyncio.create_task(_trickle(peer)) for peer in stuck]
        await asyncio.sleep(1)
        good = await world.native()
        began = asyncio.get_running_loop().time()
        await good.register(0, A)
        await good.acknowledged(await good.send_window(lines(0, 0, 100)))
        assert asyncio.get_running_loop().time() - began < 40
        for trickle in trickles:
            trickle.cancel()
        await asyncio.gather(*trickles, return_exceptions=True)


async def _trickle(peer: NativePeer) -> None:
    """Begin an envelope and never end it: a byte each five seconds."""
    await peer.send(
        WindowFrame(1).encode(), b"2C" + (6 * MIB).to_bytes(4, "big"), os.urandom(4 * MIB)
    )
    while True:
        await asyncio.sleep(5)
        await peer.send(b"\0")


@in_virtual_time
async def test_a_source_registered_over_and_over_leaves_nothing_behind() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 60.0
        await peer.send_window(lines(0, 0, 10))  # so that the position has to be waited for
        await asyncio.sleep(0.1)
        tasks = len(asyncio.all_tasks())
        register = SourceFrame(1, A, b"{}").encode() + SourceFrame(1, A, b"").encode()
        for _ in range(20):
            await peer.send(register * 100)
            await asyncio.sleep(0.1)
        assert len(asyncio.all_tasks()) <= tasks


@in_virtual_time
async def test_attributes_of_all_sources_together_are_limited() -> None:
    async with receiver() as world:
        peer = await world.native()
        attributes = b'{"path":"%s"}' % (b"x" * 16_000)
        for start in range(0, 4096, 128):
            await peer.send(
                *(
                    SourceFrame(index, UUID(int=index + 1), attributes).encode()
                    for index in range(start, start + 128)
                )
            )
            for _ in range(128):
                assert isinstance(await peer.next(), PositionFrame)
        for index in range(4096):
            # freed, they count no more
            await peer.send(SourceFrame(index, UUID(int=index + 1), b"").encode())
        await peer.send(
            *(
                SourceFrame(index, UUID(int=index + 1), attributes).encode()
                for index in range(4096, 4200)
            )
        )
        for _ in range(104):
            assert isinstance(await peer.next(), PositionFrame)
        for start in range(5000, 9096, 128):
            await peer.send(
                *(
                    SourceFrame(index, UUID(int=index + 1), attributes).encode()
                    for index in range(start, start + 128)
                )
            )
            frame = [await peer.next() for _ in range(128)][-1]
            if not isinstance(frame, PositionFrame):
                break
        else:
            pytest.fail("more was taken than the limit")


@in_virtual_time
async def test_what_many_envelopes_hold_packed_small_is_not_in_memory_at_once() -> None:
    async with receiver(config=configuration(connection_bytes=8 * MIB)) as world:
        world.stall(60.0)
        peer = await world.foreign()
        envelope = EnvelopeFrame(
            pack(JsonRun.of(1, [b'"' + bytes(700_000) + b'"'] * 20).encode())
        ).encode()
        assert len(envelope) * 12 < 256 * 1024
        await peer.send(*([WindowFrame(20).encode() + envelope] * 12))
        await asyncio.sleep(30)
        assert world.counters.bytes < 30 * MIB, "more than the limit and one envelope"
        world.executor.delay = SYNC_SECONDS
        for _ in range(12):
            assert await peer.next() == AckFrame(20)
