"""A `file://` store is read through its face: of the process that has it open, or opened here."""

import asyncio
import errno
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

import pytest

from logdrive.address import StreamAddress
from logdrive.errors import ConfigError, TransientError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.host.transport import ServerTls
from logdrive.model.units import MIB
from logdrive.net.tcp import SystemTransport
from logdrive.services.embedded.attach import attach_store
from logdrive.services.pravega.client.blocking import BlockingClient, Target
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.server import endpoint
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.store.engine import Store
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryHost, MemoryNetwork
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, virtually
from tests.support.virtual_time import VirtualClock

ADDRESS = StreamAddress("/var/store", "logs", "app")


class Machine:
    """One host with a store, made with ten bytes in one segment."""

    def __init__(self) -> None:
        self.disk, self.host = MemoryDisk(["/var"]), MemoryNetwork().host("here")
        self.clock = VirtualClock()

    async def open(self) -> Store:
        return await Store.open(
            "/var/store",
            disk=self.disk,
            executor=InlineExecutor(),
            clock=self.clock,
            random=Random(1),
        )

    async def fill(self) -> None:
        store = await self.open()
        running = asyncio.create_task(store.run(asyncio.Event()))
        await store.create(S)
        await store.append(S, b"0123456789", writer=W, expected=None, number=1, events=1)
        await store.close()
        await running

    def attached(self) -> AbstractAsyncContextManager[Target]:
        return attach_store(
            ADDRESS,
            host=Host(
                clock=self.clock, disk=self.disk, transport=self.host, executor=InlineExecutor()
            ),
        )

    async def read(self) -> bytes:
        async with self.attached() as target:
            return await read_at(self.host, target)


async def read_at(host: MemoryHost, target: Target) -> bytes:
    async with connect_segment_store(
        host, target.host, target.port, target.tls, token=target.token_of
    ) as client:
        return (await client.read_segment(S, 0, 100)).data


@virtually
async def test_a_store_that_nobody_has_open_is_served_here_and_let_go_again() -> None:
    machine = Machine()
    await machine.fill()
    assert await machine.read() == b"0123456789"
    assert endpoint.read_endpoint(machine.disk, "/var/store") is None
    assert await machine.read() == b"0123456789"


@virtually
async def test_a_store_that_another_process_serves_is_read_through_its_face() -> None:
    machine = Machine()
    await machine.fill()
    store = await machine.open()
    running = asyncio.create_task(store.run(asyncio.Event()))
    async with (
        serve_segment_store(
            store, "127.0.0.1", 6000, None, transport=machine.host, disk=machine.disk
        ),
        machine.attached() as target,
    ):
        assert target == Target("127.0.0.1", 6000)
        assert await read_at(machine.host, target) == b"0123456789"
    await store.close()
    await running


@virtually
async def test_a_store_whose_face_comes_up_a_moment_later_is_waited_for() -> None:
    machine = Machine()
    await machine.fill()
    store = await machine.open()
    running = asyncio.create_task(store.run(asyncio.Event()))
    reading = asyncio.create_task(machine.read())
    await asyncio.sleep(1)
    async with serve_segment_store(
        store, "127.0.0.1", 6000, None, transport=machine.host, disk=machine.disk
    ):
        assert await reading == b"0123456789"
    await store.close()
    await running


@pytest.mark.parametrize("stale", [False, True])
def test_a_locked_store_without_a_face_names_the_key_to_add(stale: bool) -> None:
    @virtually
    async def refused() -> None:
        machine = Machine()
        store = await machine.open()
        if stale:  # left behind by a process that was killed
            endpoint.publish_endpoint(
                machine.disk, "/var/store", endpoint.PublishedEndpoint("127.0.0.1:6000")
            )
        with pytest.raises(ConfigError, match=r"\[listen.pravega\] with address"):
            await machine.read()
        await store.close()

    refused()


@virtually
async def test_a_face_that_wants_certificates_is_not_tried_without() -> None:
    machine = Machine()
    store = await machine.open()
    running = asyncio.create_task(store.run(asyncio.Event()))
    tls = ServerTls("cert", "key", "ca")
    async with serve_segment_store(
        store, "127.0.0.1", 6000, tls, transport=machine.host, disk=machine.disk
    ):
        with pytest.raises(ConfigError, match="--ca, --cert and --key"):
            await machine.read()
    await store.close()
    await running


@virtually
async def test_where_there_is_no_store_none_is_made() -> None:
    machine = Machine()
    with pytest.raises(ConfigError, match="there is no store in /var/store"):
        await machine.read()
    assert machine.disk.names("/var") == []


@virtually
async def test_a_store_of_another_user_is_not_said_to_be_none() -> None:
    class Refusing(MemoryDisk):
        def names(self, directory: str) -> list[str]:
            raise PermissionError(errno.EACCES, "Permission denied", directory)

    machine = Machine()
    machine.disk = Refusing(["/var", "/var/store"])
    with pytest.raises(
        ConfigError,
        match=r"/var/store can't be read \(Permission denied\): run this as the user who owns",
    ):
        await machine.read()


@virtually
async def test_a_directory_that_is_no_store_stays_as_it_is() -> None:
    machine = Machine()
    machine.disk.make_directory("/var/store")
    with pytest.raises(ConfigError, match="there is no store in /var/store"):
        await machine.read()
    assert machine.disk.names("/var/store") == []


@virtually
async def test_a_stream_that_is_not_there_is_told_with_those_that_are() -> None:
    machine = Machine()
    await machine.fill()
    wrong = StreamAddress("/var/store", "logs", "ap")
    with pytest.raises(
        ConfigError,
        match=r"there is no stream logs/ap in the store /var/store; there are: logs/app$",
    ):
        async with attach_store(
            wrong,
            host=Host(
                clock=machine.clock,
                disk=machine.disk,
                transport=machine.host,
                executor=InlineExecutor(),
            ),
        ):
            pass
    assert await machine.read() == b"0123456789"


@virtually
async def test_a_store_without_streams_says_so() -> None:
    machine = Machine()
    store = await machine.open()
    await store.close()
    with pytest.raises(ConfigError, match="it has none yet"):
        await machine.read()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("0.0.0.0", "127.0.0.1:6000"),
        ("::", "[::1]:6000"),
        ("::1", "[::1]:6000"),
        ("10.0.0.7", "10.0.0.7:6000"),
    ],
)
def test_the_endpoint_is_an_address_that_programs_on_this_host_can_use(
    host: str, expected: str
) -> None:
    assert endpoint.endpoint_of(host, 6000, tls=False).pravega == expected


def test_a_worker_without_a_loop_reads_over_real_sockets(tmp_path: Path) -> None:
    data = Random(1).randbytes(5 * MIB)
    disk, executor = SystemDisk(), ThreadExecutor("store")

    async def main() -> None:
        store = await Store.open(
            str(tmp_path / "store"), disk=disk, executor=executor, clock=SystemClock()
        )
        running = asyncio.create_task(store.run(asyncio.Event()))
        await store.create(S)
        await store.append(S, data, writer=W, expected=None, number=1, events=1)
        await store.close()
        await running
        address = StreamAddress(str(tmp_path / "store"), "logs", "app")
        async with attach_store(
            address,
            host=Host(
                clock=SystemClock(), disk=disk, transport=SystemTransport(), executor=executor
            ),
        ) as target:
            announced = json.loads((tmp_path / "store" / "endpoint.json").read_text())
            assert announced["pravega"] == f"{target.host}:{target.port}"
            assert await asyncio.to_thread(worker, target, len(data)) == data[7:]

    asyncio.run(main())
    executor.close()


def worker(target: Target, length: int) -> bytes:
    with BlockingClient(target) as client:
        assert client.call(lambda service: service.segment_info("other")) is None
        return client.fetch(S, 7, 1000) + client.fetch(S, 1000, length)


def test_a_worker_is_told_when_nobody_listens() -> None:
    with pytest.raises(TransientError), BlockingClient(Target("127.0.0.1", 1)):
        pass
