"""A whole receiver in this process, on a real port with mutual TLS and a store on a real disk, for
peers that others wrote.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.net.certificates import write_certificates
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.tcp import SystemTransport
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from receiver import app
from receiver.config import ListenConfig, ReceiverConfig, SinkConfig
from tests.support.ledger import Ledger


async def with_a_receiver(work: Path, use: Callable[[int, Path], None]) -> Ledger:
    """Run *use* with a receiver's port and the directory of its certificates; return what was
    stored.
    """
    tls = work / "tls"
    write_certificates(str(tls), ["localhost"], client="beat-1", days=9, now=datetime.now(UTC))
    server = ServerTlsConfig(
        cert=str(tls / "server.pem"), key=str(tls / "server.key"), ca=str(tls / "ca.pem")
    )
    listen = ListenConfig(address="127.0.0.1:0", tls=server)
    config = ReceiverConfig(listen=listen, sink=SinkConfig(uri=f"file://{work}/store#logs/beats"))
    executor, stop = ThreadExecutor("store"), asyncio.Event()
    started: asyncio.Future[app.Started] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(
            app.run(
                config,
                host=Host(
                    clock=SystemClock(),
                    disk=SystemDisk(),
                    transport=SystemTransport(),
                    executor=executor,
                ),
                stop=stop,
                started=started.set_result,
            )
        )
        port = (await started).address[1]
        try:
            await asyncio.to_thread(use, port, tls)
        finally:
            stop.set()
    return await _stored(work, executor)


async def _stored(work: Path, executor: ThreadExecutor) -> Ledger:
    store = await Store.open(
        str(work / "store"),
        disk=SystemDisk(),
        executor=executor,
        clock=SystemClock(),
        limits=StoreLimits(),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(store.run(asyncio.Event()))
        segments = [store.read(name, 0, 1 << 26) for name in store.segments("logs/beats/")]
        await store.close()
    executor.close()
    return Ledger.read(segments)
