"""A face keeps nothing of connections that have ended."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from logdrive.model.numbers import ABSENT
from logdrive.services.face_memory import FaceAllocation
from logdrive.services.pravega.server.segments.appending import Appender
from logdrive.services.pravega.server.segments.connection import SegmentConnection
from logdrive.services.pravega.server.segments.fencing import WriterClaim
from logdrive.wire.pravega.appends import AppendBlockEnd, AppendSetup, SetupAppend
from logdrive.wire.pravega.segments import ReadSegment
from tests.support.let_go import Made
from tests.support.pravega.framings import W
from tests.support.pravega.peer import Peer, S, virtually, world


async def closes(peer: Peer) -> None:
    await peer.stream.close()


async def is_reset_while_it_appends(peer: Peer) -> None:
    await peer.say(
        *(AppendBlockEnd(W, 1000, bytes(1000), 1, number, number) for number in range(1, 10))
    )
    await asyncio.sleep(0.5)
    peer.stream.abort()


async def breaks_a_rule(peer: Peer) -> None:
    await peer.say(AppendBlockEnd(W, 1, b"x", 1, -5, 1))


async def is_reset_while_it_waits_for_more(peer: Peer) -> None:
    await peer.say(ReadSegment(S, 0, 1000, "", 3))
    await asyncio.sleep(0.5)
    peer.stream.abort()


@pytest.mark.parametrize(
    "end", [closes, is_reset_while_it_appends, breaks_a_rule, is_reset_while_it_waits_for_more]
)
def test_nothing_is_kept_of_a_connection_that_ended(end: Callable[[Peer], Awaitable[None]]) -> None:
    @virtually
    async def scenario() -> None:
        async with world(sync_seconds=1.0) as made:
            await made.store.create(S)
            there = Made(Appender, SegmentConnection, WriterClaim, FaceAllocation)
            peer = await made.peer()
            assert await peer.ask(SetupAppend(1, W, S)) == AppendSetup(1, S, W, ABSENT)
            assert there.names() == [
                "Appender",
                "FaceAllocation",
                "SegmentConnection",
                "WriterClaim",
            ]
            await end(peer)
            await asyncio.sleep(120)
            assert there.names() == []

    scenario()
