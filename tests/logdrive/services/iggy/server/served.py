"""An Iggy face of a store in memory, and clients of it in virtual time."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from random import Random

from logdrive.host.host import Host
from logdrive.host.transport import Transport
from logdrive.services.iggy.server.config import IggyFaceConfig
from logdrive.services.iggy.server.listen import serve_iggy
from logdrive.services.numbering.segments import open_numbering
from logdrive.store.engine import Store
from logdrive.store.streams.catalog import Catalog
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.connections import LOGIN, Classic
from tests.logdrive.store.harness import running
from tests.support import virtual_time
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryNetwork, MemoryStream
from tests.support.virtual_time import VirtualClock

PORT = 8090
CONFIG = IggyFaceConfig(address=f"127.0.0.1:{PORT}")


@dataclass(frozen=True, slots=True)
class ServedFace:
    """A served store; *stop* stops serving. *transport* connects to it from another host."""

    store: Store
    catalog: Catalog
    network: MemoryNetwork
    stop: Callable[[], Awaitable[None]]
    transport: Transport

    async def connect(self) -> MemoryStream:
        return await self.network.host("client").connect("store", PORT, None)

    async def client(self, revision: Revision = Revision.R2C, login: bool = True) -> Classic:
        made = Classic(await self.connect(), revision)
        if login:
            assert (await made.ask(LOGIN)).status == 0
        return made


@contextlib.asynccontextmanager
async def iggy_face(
    disk: MemoryDisk | None = None, *, config: IggyFaceConfig = CONFIG, clean: bool = True
) -> AsyncIterator[ServedFace]:
    """Serve a store on *disk*; unless *clean*, it ends as in a crash."""
    network, clock, disk = MemoryNetwork(), VirtualClock(), disk or MemoryDisk()
    host = Host(
        clock=clock,
        disk=disk,
        transport=network.host("store"),
        executor=InlineExecutor(),
        random=Random(7),
    )
    async with running(disk, delay=0.001, clean=clean) as store:
        catalog = Catalog(store, clock=clock, random=Random(3))
        async with (
            open_numbering(store, clock=clock) as numbering,
            contextlib.AsyncExitStack() as serving,
        ):
            face = serve_iggy(
                catalog,
                numbering,
                config,
                host=host,
                users=None,
                executors=lambda name: InlineExecutor(),
            )
            await serving.enter_async_context(face)
            transport = network.host("client")
            yield ServedFace(store, catalog, network, serving.aclose, transport)
    await network.close()


def with_iggy_face(test: Callable[[ServedFace], Awaitable[None]]) -> None:
    """Run *test* with a face in virtual time."""

    async def main() -> None:
        async with iggy_face() as made:
            await test(made)

    virtual_time.run(main())
