"""Receivers onto a site, over loopback: whole ones, with sessions, as `logdrive receiver run` runs
them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.net.tcp import SystemTransport
from logdrive.services.pravega.client.login import LoginConfig
from receiver import app
from receiver.config import ListenConfig, ReceiverConfig, SinkConfig
from tests.pravega.sites import Site
from tests.receiver.peers import NativePeer


class Running:
    """One receiver; *port* is where writers connect."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def peer(self) -> NativePeer:
        """Return a connected `logdrive/1` writer."""
        return NativePeer(await SystemTransport().connect("127.0.0.1", self.port, None))


@contextlib.asynccontextmanager
async def receiver(
    site: Site, stream: str, login: LoginConfig | None = None
) -> AsyncIterator[Running]:
    """Run a receiver onto `logs/STREAM` while the context lasts."""
    sink = SinkConfig(uri=f"pravega://127.0.0.1:{site.port}/logs/{stream}", segments=1, login=login)
    config = ReceiverConfig(
        listen=ListenConfig(address="127.0.0.1:0", tls="off"), sink=sink, drain_seconds=5.0
    )
    stop, executor = asyncio.Event(), ThreadExecutor("unused")
    started: asyncio.Future[app.Started] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(
        app.run(
            config,
            host=Host(
                clock=SystemClock(),
                disk=SystemDisk(),
                transport=SystemTransport(),
                executor=executor,
                random=Random(1),
            ),
            stop=stop,
            started=started.set_result,
        )
    )
    beginnings: list[asyncio.Future[Any]] = [running, started]
    await asyncio.wait(beginnings, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running
    yield Running(started.result().address[1])
    stop.set()
    await running
    executor.close()
