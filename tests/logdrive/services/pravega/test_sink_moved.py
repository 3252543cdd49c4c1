"""Segments that move from one segment store to another while a sink appends to them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from uuid import UUID

from logdrive.host.transport import ByteStream, ClientTls
from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.client.cluster import open_cluster
from logdrive.services.pravega.client.controller import (
    ControllerClient,
    Login,
    SegmentStoreAddress,
    StreamSegment,
    Successor,
)
from logdrive.services.pravega.sink import PravegaSink
from tests.receiver.world import in_virtual_time
from tests.support.memory.transport import MemoryNetwork
from tests.support.service import HOST, PORT, StoreService
from tests.support.virtual_time import VirtualClock


class OneSegment:
    """A controller of a stream of one segment, which was made at the face."""

    async def create_stream(self, scope: str, stream: str, segments: int) -> None:
        raise NotImplementedError

    async def current_segments(self, scope: str, stream: str) -> list[StreamSegment]:
        return [StreamSegment(scope, stream, 0, 0.0, 1.0)]

    async def oldest_segments(self, scope: str, stream: str) -> list[int]:
        return [0]

    async def successors_of(self, scope: str, stream: str, segment: int) -> list[Successor]:
        return []

    async def locate_segment(self, segment: StreamSegment) -> SegmentStoreAddress:
        return SegmentStoreAddress(HOST, PORT)

    async def delegation_token(self, scope: str, stream: str, *, update: bool = True) -> str:
        return ""


@contextlib.asynccontextmanager
async def one_segment(
    host: str, port: int, tls: ClientTls | None, login: Login | None
) -> AsyncIterator[ControllerClient]:
    yield OneSegment()


async def greet(stream: ByteStream) -> None:
    """Say what a server of HTTP/2 says first."""
    await stream.write([b"\0\0\0\4\0\0\0\0\0"])


@in_virtual_time
async def test_what_older_store_still_acknowledges_told_though_segment_said_have_moved__D2() -> (
    None
):
    network = MemoryNetwork()
    store = StoreService(network, sync_seconds=1.0)
    store.start()
    await network.host("controller").listen("controller", 9090, None, greet)
    await asyncio.sleep(1)
    async with connect_segment_store(network.host("maker"), HOST, PORT) as client:
        await client.create_segment("logs/events/0.#epoch.0")
    async with open_cluster(
        network.host("receiver"),
        Target("controller", 9090),
        clock=VirtualClock(),
        random=Random(1),
        controllers=one_segment,
    ) as service:
        sink = await PravegaSink.open_stream(
            service, "logs", "events", segments=1, store_id=UUID(int=7)
        )
        (segment,) = sink.segments
        assert await sink.open_writer(segment, UUID(int=1)) == ABSENT
        stored = sink.append_batch(segment, UUID(int=1), [b"x"], 1, ABSENT, 1)
        service.forget_location(segment)  # as the answer to another writer's set-up has it
        async with asyncio.timeout(100):
            await stored
    await store.end()
