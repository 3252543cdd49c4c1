"""`logdrive store run` in memory and virtual time: killed, powered off and started again."""

import asyncio
from random import Random

from logdrive.host.host import Host
from logdrive.services.config import StoreConfig, StoreListenConfig
from logdrive.services.pravega.server.config import PravegaFaceConfig
from logdrive.services.serve import serve_store
from logdrive.store.config import DirectoryConfig
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryNetwork
from tests.support.virtual_time import VirtualClock

HOST, PORT = "store", 6000
DIRECTORY = "/store"


class StoreService:
    """A store's process on the host "store".

    *disk* is what it leaves behind at its end, and finds at its next start.
    """

    def __init__(self, network: MemoryNetwork, *, sync_seconds: float = 0.01) -> None:
        self.network, self.disk = network, MemoryDisk()
        self._sync_seconds = sync_seconds
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def start(self) -> None:
        """Start it; it listens a little later."""
        face = PravegaFaceConfig(address=f"0.0.0.0:{PORT}", tls="off")
        config = StoreConfig(
            store=DirectoryConfig(path=DIRECTORY), listen=StoreListenConfig(pravega=face)
        )
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(
            serve_store(
                config,
                host=Host(
                    clock=VirtualClock(),
                    disk=self.disk,
                    transport=self.network.host(HOST),
                    executor=InlineExecutor(self._sync_seconds),
                    random=Random(5),
                ),
                stop=self._stop,
            ),
            name="store",
        )

    async def end(self) -> None:
        """End it as SIGTERM does."""
        assert self._task is not None
        self._stop.set()
        await self._task

    async def kill(self, power: Random | None = None) -> None:
        """End the service as SIGKILL does, or with *power* as a power cut.

        *power* decides what its disk keeps.
        """
        assert self._task is not None
        self.disk = self.disk.killed() if power is None else self.disk.crash(power)
        self._task.cancel()
        await self.network.crash(HOST)
        await asyncio.gather(self._task, return_exceptions=True)
