"""The address of a face is published in the store's directory, once the disk has room."""

import asyncio
from random import Random

from logdrive.services.pravega.server import endpoint
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.store.engine import Store
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryNetwork
from tests.support.pravega.peer import virtually
from tests.support.virtual_time import VirtualClock


@virtually
async def test_a_face_listens_on_a_full_disk_and_is_published_once_there_is_room() -> None:
    disk, network = MemoryDisk(["/var"]), MemoryNetwork()
    store = await Store.open(
        "/var/store", disk=disk, executor=InlineExecutor(), clock=VirtualClock(), random=Random(1)
    )
    running = asyncio.create_task(store.run(asyncio.Event()))
    disk.capacity = 0
    async with serve_segment_store(
        store, "server", 0, None, transport=network.host("server"), disk=disk
    ) as (
        host,
        port,
    ):
        assert endpoint.read_endpoint(disk, "/var/store") is None
        await asyncio.sleep(60)
        assert endpoint.read_endpoint(disk, "/var/store") is None
        assert "endpoint.json.new" not in disk.names("/var/store")
        disk.capacity = None
        await asyncio.sleep(15)
        assert endpoint.read_endpoint(disk, "/var/store") == endpoint.PublishedEndpoint(
            f"{host}:{port}"
        )
    assert endpoint.read_endpoint(disk, "/var/store") is None
    await network.close()
    await store.close()
    await running
