"""A client of a streaming service keeps no memory of connections that have ended."""

import asyncio
from random import Random
from uuid import UUID

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.model.numbers import ABSENT
from logdrive.services.outage import Outage
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.channel import RequestChannel
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.cluster import open_cluster
from logdrive.services.pravega.client.pooled_connection import PooledConnection
from logdrive.services.pravega.sink import PravegaSink
from tests.support.let_go import Made, left_of
from tests.support.memory.transport import MemoryNetwork
from tests.support.pravega.peer import virtually
from tests.support.service import HOST, PORT, StoreService
from tests.support.virtual_time import VirtualClock


@virtually
async def test_nothing_is_kept_of_a_connection_in_the_middle_of_which_the_service_died() -> None:
    network = MemoryNetwork()
    store = StoreService(network, sync_seconds=1.0)
    store.start()
    made = Made(SegmentClient, RequestChannel)
    async with open_cluster(
        network.host("receiver"), Target(HOST, PORT), clock=VirtualClock(), random=Random(1)
    ) as service:
        sink = await PravegaSink.open_stream(
            service, "logs", "events", segments=1, store_id=UUID(int=7)
        )
        (segment,) = sink.segments
        assert await sink.open_writer(segment, UUID(int=1)) == ABSENT
        appended = sink.append_batch(segment, UUID(int=1), [bytes(10_000)], 1, ABSENT, 5)
        await asyncio.sleep(0.5)
        first = made.now()
        assert {type(each()) for each in first} == {SegmentClient, RequestChannel}
        await store.kill()
        await asyncio.wait([appended])
        assert isinstance(appended.exception(), TransientError)
        del appended  # its failure leads to where it was raised
        store.start()
        await asyncio.sleep(60)
        assert left_of(first) == []
        assert made.names().count("RequestChannel") == len(first) // 2
    await store.end()


@virtually
async def test_nothing_is_kept_of_the_lanes_of_a_service_that_is_not_used_any_more() -> None:
    network = MemoryNetwork()
    store = StoreService(network)
    store.start()
    made = Made(PooledConnection, SegmentClient, RequestChannel)
    async with open_cluster(
        network.host("receiver"), Target(HOST, PORT), clock=VirtualClock(), random=Random(1)
    ) as service:
        await PravegaSink.open_stream(service, "logs", "events", segments=1, store_id=UUID(int=7))
        lanes = made.names().count("PooledConnection")
        assert lanes
        assert made.names() == sorted(
            ["PooledConnection", "SegmentClient", "RequestChannel"] * lanes
        )
    del service
    await store.end()
    assert made.names() == []


@virtually
async def test_nothing_is_kept_of_a_connection_on_which_nothing_is_said() -> None:
    network = MemoryNetwork()

    async def mute(stream: ByteStream) -> None:
        await asyncio.Event().wait()

    await network.host("service").listen("service", PORT, None, mute)
    made = Made(SegmentClient, RequestChannel)
    client, target = network.host("client"), Target("service", PORT)
    lane = PooledConnection(
        client, target, Outage("service"), clock=VirtualClock(), random=Random(1)
    )
    running = asyncio.create_task(lane.run())
    await asyncio.sleep(5)
    first = made.now()
    assert made.names() == ["RequestChannel", "SegmentClient"]
    await asyncio.sleep(60)
    assert left_of(first) == []
    running.cancel()
    await asyncio.wait([running])
    await network.close()
