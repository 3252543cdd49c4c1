"""A receiver keeps no memory of connections and sources that have ended."""

import asyncio
import dataclasses
import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from logdrive.model.units import MIB
from logdrive.wire.lumberjack.frames import SourceFrame, WindowFrame
from receiver.acks import AckQueue
from receiver.connection import ConnectionContext
from receiver.dialects.logdrive1 import Logdrive1Receiver
from receiver.dialects.registration import Registration
from receiver.outbox import Outbox
from receiver.session import ReceiverSession
from tests.receiver.peers import NativePeer, Peer, run_of
from tests.receiver.world import in_virtual_time, receiver
from tests.support.let_go import Made, left_of

A, B = UUID(int=0xA), UUID(int=0xB)
ONE_CONNECTION = [
    "AckQueue",
    "ConnectionContext",
    "Logdrive1Receiver",
    "Outbox",
    "ReceiverSession",
    "Registration",
]


async def closes(peer: NativePeer) -> None:
    await peer.stream.close()


async def is_reset(peer: NativePeer) -> None:
    await peer.send_window(run_of(0, 50, 100))  # on its way to the disk
    peer.stream.abort()


async def breaks_a_rule(peer: NativePeer) -> None:
    await peer.send(b"nothing that is a frame")


@pytest.mark.parametrize("end", [closes, is_reset, breaks_a_rule])
def test_nothing_is_kept_of_a_connection_that_ended(
    end: Callable[[NativePeer], Awaitable[None]],
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        made = Made(
            ReceiverSession, ConnectionContext, Logdrive1Receiver, Registration, AckQueue, Outbox
        )
        async with receiver() as world:
            peer = await world.native()
            await peer.register(0, A)
            await peer.acknowledged(await peer.send_window(run_of(0, 0, 50)))
            assert made.names() == ONE_CONNECTION
            await end(peer)
            await asyncio.sleep(60)
            assert made.names() == []

    scenario()


@in_virtual_time
async def test_what_connection_had_not_ended_is_free_at_once_when_it_is_lost() -> None:
    """Its budget is: what waited for the next collection would come on top of the limit."""
    async with receiver() as world:
        foreign, native = await world.foreign(), await world.native()
        await native.register(0, A)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            await _begin_event(foreign)
            await _begin_run(native)
            held, _ = tracemalloc.get_traced_memory()
            assert held > 4 * MIB + 700_000
            foreign.stream.abort()
            native.stream.abort()
            await asyncio.sleep(60)
            left, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
        assert left < MIB // 4


async def _begin_event(peer: Peer) -> None:
    begun = WindowFrame(1).encode() + b"2J" + (1).to_bytes(4) + (15 * MIB).to_bytes(4)
    await peer.send(begun, bytes(4 * MIB))
    await asyncio.sleep(1)


async def _begin_run(peer: NativePeer) -> None:
    run, records = run_of(0, 0, 700_000)
    await peer.send(peer.window((dataclasses.replace(run, records=2), records)))
    await asyncio.sleep(1)


@in_virtual_time
async def test_nothing_is_kept_of_a_source_whose_index_was_freed() -> None:
    made = Made(Registration)
    async with receiver() as world:
        peer = await world.native()
        await peer.register(0, A)
        await peer.acknowledged(await peer.send_window(run_of(0, 0, 50)))
        first = made.now()
        assert len(first) == 1
        await peer.send(SourceFrame(0, A, b"").encode())
        await peer.register(1, B)
        assert left_of(first) == []
        assert made.names() == ["Registration"]


@in_virtual_time
async def test_nothing_is_kept_of_source_another_connection_took_over_and_that_was_freed() -> None:
    made = Made(Registration)
    async with receiver() as world:
        first, second = await world.native(), await world.native()
        await first.register(0, A)
        overtaken = made.now()
        await second.register(0, A)
        await first.next()  # the E that says so
        await first.send(SourceFrame(0, A, b"").encode())
        await first.register(1, B)
        assert left_of(overtaken) == []
