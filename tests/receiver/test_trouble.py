"""A receiver meets peers that break the protocol, disks that fail, overload, and its own stop."""

import asyncio
import errno
import os
from uuid import UUID

import pytest

from logdrive.errors import ConfigError, StorageError, TransientError, UnavailableError
from logdrive.wire.lumberjack.frames import (
    CONNECTION,
    AckFrame,
    JsonRun,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from tests.receiver.peers import NativePeer, at, content, run_of
from tests.receiver.world import World, configuration, in_virtual_time, ledger, receiver
from tests.support.memory.disk import MemoryDisk

A, B = UUID(int=0xA), UUID(int=0xB)


def lines(index: int, start: int, end: int) -> tuple:  # type: ignore[type-arg]
    return run_of(index, start, end, lines=(end - start) // 10)


async def _refused(peer: NativePeer, code: RefusalCode) -> str:
    """Return why the connection is refused; it must end then."""
    while True:
        frame = await peer.next()
        if isinstance(frame, RefusalFrame) and frame.index == CONNECTION:
            break
        assert isinstance(frame, PositionFrame | AckFrame | RefusalFrame), frame
    assert frame.code == code, frame
    assert await peer.next() is None
    return frame.text


async def _still_serves(world: World) -> None:
    peer = await world.native("web-9", "cn:web-9")
    await peer.register(0, B)
    await peer.acknowledged(await peer.send_window(lines(0, 0, 30)))


BAD: dict[str, tuple[RefusalCode, bytes]] = {
    "garbage": (RefusalCode.PROTOCOL, b"GET / HTTP/1.1\r\n\r\n"),
    "version 1": (RefusalCode.PROTOCOL, WindowFrame(1).encode(b"1")),
    "a run of an unknown index": (
        RefusalCode.PROTOCOL,
        WindowFrame(1).encode() + run_of(9, 0, 10)[0].encode() + JsonRun.of(1, [b"{}"]).encode(),
    ),
    "a run before its position": (
        RefusalCode.PROTOCOL,
        SourceFrame(1, B, b"{}").encode()
        + WindowFrame(1).encode()
        + run_of(1, 0, 10)[0].encode()
        + JsonRun.of(1, [b"{}"]).encode(),
    ),
    "a gap without its mark": (
        RefusalCode.PROTOCOL,
        WindowFrame(1).encode()
        + RunFrame(0, 1, 0, at(10), 0, 0, 0, 1).encode()
        + JsonRun.of(1, [b"{}"]).encode(),
    ),
    "a mark too long for a header": (
        RefusalCode.PROTOCOL,
        WindowFrame(1).encode()
        + RunFrame(0, 1, 0, at(10), 0, 0, 0, 1).encode()
        + JsonRun.of(1, [b'{"log":{"gap":{"reason":"' + b"x" * 40_000 + b'"}}}']).encode(),
    ),
    "attributes too long": (RefusalCode.LIMIT, SourceFrame(1, B, b" " * 20_000).encode()[:26]),
    "a window too large": (RefusalCode.LIMIT, WindowFrame(70_000).encode()),
    "a record too long": (
        RefusalCode.LIMIT,
        WindowFrame(1).encode()
        + run_of(0, 0, 10)[0].encode()
        + JsonRun.of(1, [b" " * 800_000]).encode()[:20],
    ),
    "a truncated envelope": (
        RefusalCode.PROTOCOL,
        WindowFrame(1).encode() + b"2C\0\0\0\x04\x78\x01\x01\x00",
    ),
}


@pytest.mark.parametrize("name", BAD)
@in_virtual_time
async def test_a_peer_that_breaks_the_protocol_is_told_why_and_the_others_go_on(name: str) -> None:
    code, data = BAD[name]
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.send(data)
        assert await _refused(peer, code)
        await _still_serves(world)
        assert world.counters.protocol_errors == 1
    assert set((await ledger(world.disk)).by_data()) == {content(30)}


@in_virtual_time
async def test_more_windows_in_flight_than_agreed_are_a_limit() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        world.stall(30.0)
        await peer.send(*(peer.window(lines(0, n * 10, n * 10 + 10)) for n in range(17)))
        assert "16 windows" in await _refused(peer, RefusalCode.LIMIT)


@in_virtual_time
async def test_more_unanswered_sources_than_agreed_are_a_limit() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.send(
            *(SourceFrame(index, UUID(int=index), b"{}").encode() for index in range(257))
        )
        assert "256 sources" in await _refused(peer, RefusalCode.LIMIT)


@in_virtual_time
async def test_a_source_freed_before_its_position_no_longer_counts_as_unanswered() -> None:
    async with receiver() as world:
        holder = await world.native()
        await holder.register(0, A)
        world.executor.delay = 5.0
        await holder.send_window(lines(0, 0, 10))
        peer = await world.native()
        for index in range(300):
            await peer.send(
                SourceFrame(index, A, b"{}").encode(), SourceFrame(index, A, b"").encode()
            )
        position = await peer.register(300, A)
        assert isinstance(position, PositionFrame)
        assert position.number == at(10)


@in_virtual_time
async def test_d8_over_tls_without_the_dialect_s_is_an_error() -> None:
    async with receiver() as world:
        peer = await world.foreign()
        await peer.send(SourceFrame(0, A, b"{}").encode())
        assert await peer.next() is None
        await _still_serves(world)
        assert world.counters.protocol_errors == 1


@in_virtual_time
async def test_a_connection_cut_in_mid_window_concerns_nobody_else_and_its_runs_are_kept() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        data = peer.window(lines(0, 0, 50), lines(0, 50, 90))
        await peer.send(data[:-5])
        await asyncio.sleep(1)
        peer.stream.abort()
        await _still_serves(world)
        position = await (await world.native()).register(0, A)
        assert isinstance(position, PositionFrame)
        assert position.number == at(50)
        assert world.counters.connections_open == 2


@in_virtual_time
async def test_idle_connection_is_closed_after_its_time_and_one_that_waits_for_us_is_not() -> None:
    async with receiver(config=configuration(idle_seconds=20.0)) as world:
        idle, waiting = await world.native(), await world.native()
        await waiting.register(0, A)
        world.executor.delay = 50.0
        last = await waiting.send_window(lines(0, 0, 10))
        assert "idle" in await _refused(idle, RefusalCode.DRAINING)
        await waiting.acknowledged(last)


# Its own end ------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_drain_tells_every_peer_then_finishes_and_acknowledges_what_was_received() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 5.0
        last = await peer.send_window(lines(0, 0, 100))
        await asyncio.sleep(0.1)
        world.stop.set()
        refusal = await peer.next(1.0)
        assert isinstance(refusal, RefusalFrame)
        assert (refusal.index, refusal.code) == (CONNECTION, RefusalCode.DRAINING)
        await peer.acknowledged(last)
        assert await peer.next() is None
        await world.task
    assert set((await ledger(world.disk)).by_data()) == {content(100)}


@in_virtual_time
async def test_a_drain_ends_in_its_time_even_where_the_disk_does_not() -> None:
    async with receiver(config=configuration(drain_seconds=3.0)) as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 30.0
        await peer.send_window(lines(0, 0, 100))
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        world.stop.set()
        with pytest.raises(TransientError, match="reset"):
            await _acknowledged_nothing(peer)
        assert asyncio.get_running_loop().time() - began < 3.5


async def _acknowledged_nothing(peer: NativePeer) -> None:
    while (frame := await peer.next()) is not None:
        assert not isinstance(frame, AckFrame)


@in_virtual_time
async def test_no_connection_is_taken_while_draining() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        world.executor.delay = 5.0
        await peer.send_window(lines(0, 0, 100))
        await asyncio.sleep(0.1)
        world.stop.set()
        await asyncio.sleep(0.1)
        with pytest.raises(Exception, match="refused"):
            await world.native()


@in_virtual_time
async def test_a_failed_sync_ends_the_receiver_and_nothing_more_is_acknowledged() -> None:
    async with receiver() as world:
        first, second = await world.native(), await world.native()
        await first.register(0, A)
        await second.register(0, B)
        await first.acknowledged(await first.send_window(lines(0, 0, 10)))
        world.disk.fail_sync()
        await first.send_window(lines(0, 10, 20))
        await second.send_window(lines(0, 0, 10))
        for peer in (first, second):
            assert await _refused(peer, RefusalCode.INTERNAL) == "the disk failed"
        with pytest.raises(StorageError):
            await world.task


@in_virtual_time
async def test_a_store_that_another_process_has_is_one_clear_error() -> None:
    disk = MemoryDisk()
    async with receiver(disk=disk):
        named = r"sink\.uri = file:///store.*: another process has this store open"
        with pytest.raises(UnavailableError, match=named):
            async with receiver(disk=disk, config=configuration(address="127.0.0.1:5045")):
                pass


@in_virtual_time
async def test_a_port_in_use_is_one_clear_error_and_leaves_the_store_free() -> None:
    async with receiver() as world:
        other = MemoryDisk()
        with pytest.raises(ConfigError, match="in use"):
            async with receiver(network=world.network, disk=other):
                pass
        with other.lock("/store/lock"):
            pass


@in_virtual_time
async def test_after_a_kill_nothing_that_was_acknowledged_is_missing() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.acknowledged(await peer.send_window(lines(0, 0, 100)))
        await peer.send_window(lines(0, 100, 200))
        killed = world.disk.killed()
    async with receiver(disk=killed) as world:
        peer = await world.native()
        position = await peer.register(0, A)
        assert isinstance(position, PositionFrame)
        assert position.number >= at(100)


@in_virtual_time
async def test_a_full_disk_at_the_start_is_one_clear_error() -> None:
    with pytest.raises(Exception, match=os.strerror(errno.ENOSPC)):
        async with receiver(disk=MemoryDisk(capacity=0)):
            pass


@pytest.mark.parametrize(
    ("data", "dialect"),
    [(b"2J\0\0\0\1\0\0\0\x09abc", "lumberjack"), (WindowFrame(2).encode(), "logdrive/1")],
)
@in_virtual_time
async def test_peer_ends_in_middle_of_something_is_counted_as_one_that_broke_protocol(
    data: bytes, dialect: str
) -> None:
    async with receiver() as world:
        peer = await (world.native() if dialect == "logdrive/1" else world.foreign())
        await peer.send(data)
        await peer.stream.close()
        await asyncio.sleep(1)
        assert world.counters.protocol_errors == 1
        assert world.counters.connections_open == 0


@in_virtual_time
async def test_a_killed_receiver_lets_go_of_its_store_and_says_nothing_more() -> None:
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        world.stall(5.0)
        await peer.send_window(lines(0, 0, 100))
        await asyncio.sleep(0.1)
        world.task.cancel()
        await world.network.crash("receiver")
        with pytest.raises(asyncio.CancelledError):
            await world.task
        with pytest.raises(TransientError):
            await _acknowledged_nothing(peer)
        with world.disk.lock("/store/lock"):
            pass
