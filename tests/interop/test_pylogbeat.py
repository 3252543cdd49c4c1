"""pylogbeat, a deployed Lumberjack v2 writer, against a real receiver: sockets, mutual TLS, and a store on a real disk."""

import asyncio
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pylogbeat import PyLogBeatClient

from logdrive.clock import SystemClock
from logdrive.disk import SystemDisk
from logdrive.executor import ThreadExecutor
from logdrive.limits import StoreLimits
from logdrive.net.certificates import write_certificates
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.tcp import SystemTransport
from logdrive.store.engine import Store
from receiver import app
from receiver.config import ListenConfig, ReceiverConfig, SinkConfig
from tests.support.ledger import Ledger

Use = Callable[[PyLogBeatClient], None]


async def _with_a_receiver(work: Path, use: Use) -> list[bytes]:
    """Run *use* with a client of a receiver in this process; return the records that were stored."""
    tls = work / "tls"
    write_certificates(str(tls), ["localhost"], client="beat-1", days=9, now=datetime.now(UTC))
    server = ServerTlsConfig(cert=str(tls / "server.pem"), key=str(tls / "server.key"), ca=str(tls / "ca.pem"))
    listen = ListenConfig(address="127.0.0.1:0", tls=server)
    config = ReceiverConfig(listen=listen, sink=SinkConfig(uri=f"file://{work}/store#logs/beats"))
    executor, stop = ThreadExecutor("store"), asyncio.Event()
    started: asyncio.Future[app.Started] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(
            app.run(
                config,
                clock=SystemClock(),
                disk=SystemDisk(),
                transport=SystemTransport(),
                executor=executor,
                stop=stop,
                started=started.set_result,
            )
        )
        port = (await started).address[1]
        try:
            await asyncio.to_thread(_use, port, tls, use)
        finally:
            stop.set()
    return await _stored(work, executor)


def _use(port: int, tls: Path, use: Use) -> None:
    client = PyLogBeatClient(
        "127.0.0.1",
        port,
        timeout=20,
        ssl_enable=True,
        keyfile=str(tls / "client.key"),
        certfile=str(tls / "client.pem"),
        ca_certs=str(tls / "ca.pem"),
    )
    with client:
        use(client)


async def _stored(work: Path, executor: ThreadExecutor) -> list[bytes]:
    store = await Store.open(str(work / "store"), disk=SystemDisk(), executor=executor, clock=SystemClock(), limits=StoreLimits())
    async with asyncio.TaskGroup() as group:
        group.create_task(store.run(asyncio.Event()))
        segments = [store.read(name, 0, 1 << 26) for name in store.segments("logs/beats/")]
        await store.close()
    executor.close()
    return Ledger.read(segments).foreign


@pytest.mark.process
def test_batches_of_all_sizes_arrive_in_order_each_with_the_acknowledgement_it_waits_for(tmp_path: Path) -> None:
    sizes = random.Random(3).choices((1, 2, 25, 999, 1000, 2048), k=12)
    batches = [[{"message": f"batch {batch} event {number} \u20ac"} for number in range(size)] for batch, size in enumerate(sizes)]

    def use(client: PyLogBeatClient) -> None:
        for batch in batches:
            client.send(batch)

    records = asyncio.run(_with_a_receiver(tmp_path, use))
    assert [json.loads(record) for record in records] == [event for batch in batches for event in batch]


@pytest.mark.process
def test_a_client_that_comes_back_goes_on_with_its_own_numbers(tmp_path: Path) -> None:
    def use(client: PyLogBeatClient) -> None:
        client.send([{"message": "one"}, {"message": "two"}])
        client.close()
        client.send([{"message": "three"}])

    records = asyncio.run(_with_a_receiver(tmp_path, use))
    assert [json.loads(record)["message"] for record in records] == ["one", "two", "three"]
