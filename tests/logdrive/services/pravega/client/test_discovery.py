"""The client finds out which of the two protocols a port speaks."""

import asyncio

import pytest

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.discovery import is_controller
from tests.receiver.world import in_virtual_time
from tests.support.memory.transport import MemoryNetwork
from tests.support.service import HOST, PORT, StoreService

# as Pravega's controller greets
NETTY = bytes.fromhex(
    "00001204000000000000037fffffff000400100000000600002000000004080000000000000f0001"
)


async def greeted_with(greeting: bytes) -> bool:
    """Return what a port is taken for that says *greeting*, byte by byte, and closes."""
    network = MemoryNetwork()

    async def greet(stream: ByteStream) -> None:
        for at in range(len(greeting)):
            await stream.write([greeting[at : at + 1]])

    listener = await network.host("server").listen("0.0.0.0", 9090, None, greet)
    try:
        return await is_controller(network.host("client"), Target("server", 9090))
    finally:
        await listener.close()


@in_virtual_time
async def test_a_store_is_told_by_its_hello() -> None:
    network = MemoryNetwork()
    store = StoreService(network)
    store.start()
    await asyncio.sleep(1)
    assert not await is_controller(network.host("client"), Target(HOST, PORT))
    await store.end()


@in_virtual_time
async def test_a_controller_is_told_by_its_settings() -> None:
    assert await greeted_with(NETTY)


@pytest.mark.parametrize(
    "greeting",
    [b"", b"SSH-2.0-OpenSSH_9.2\r\n", NETTY[:8], bytes(9), b"HTTP/1.1 400 Bad Request\r\n\r\n"],
)
def test_others_are_neither(greeting: bytes) -> None:
    @in_virtual_time
    async def scenario() -> None:
        with pytest.raises(TransientError):
            await greeted_with(greeting)

    scenario()
