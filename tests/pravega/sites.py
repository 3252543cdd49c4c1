"""Two places to run the same tests at: our own store, and a real Pravega."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any

from bench.processes import free_port
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.host.transport import ClientTls, Transport
from logdrive.net.settings import ServerTlsConfig
from logdrive.net.tcp import SystemTransport
from logdrive.services.auth.config import AuthConfig
from logdrive.services.config import StoreConfig, StoreListenConfig
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import SegmentClient, connect_segment_store
from logdrive.services.pravega.client.cluster import Cluster, open_cluster
from logdrive.services.pravega.client.controller import Login, StreamSegment
from logdrive.services.pravega.client.controller_grpc import GrpcController, open_grpc_controller
from logdrive.services.pravega.server.config import ControllerConfig, PravegaFaceConfig
from logdrive.services.serve import serve_store
from logdrive.store.config import DirectoryConfig
from logdrive.wire.pravega.controller import controller_pb2 as pb
from tests.pravega.real import RealPravega

SCALE_SECONDS = 30.0
Keys = tuple[float, float]


class Site:
    """A streaming service; *port* is its controller's, on 127.0.0.1.

    *scratch* is a directory for the test.
    """

    def __init__(self, port: int, controller: GrpcController, scratch: Path) -> None:
        self.port, self.controller, self.scratch = port, controller, scratch

    async def scale(
        self, scope: str, stream: str, sealed: Sequence[StreamSegment], keys: Sequence[Keys]
    ) -> None:
        info = pb.StreamInfo(scope=scope, stream=stream)
        ranges = [pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in keys]
        request = pb.ScaleRequest(
            streamInfo=info,
            sealedSegments=[segment.id for segment in sealed],
            newKeyRanges=ranges,
            scaleTimestamp=SystemClock().now_ms(),
        )
        started = await self.controller.call_method("scale", request, pb.ScaleResponse)
        assert started.status == pb.ScaleResponse.STARTED
        check = pb.ScaleStatusRequest(streamInfo=info, epoch=started.epoch)
        async with asyncio.timeout(SCALE_SECONDS):
            while not await self._scaled(check):  # noqa: ASYNC110 - the controller tells only who asks
                await asyncio.sleep(0.05)

    async def _scaled(self, check: pb.ScaleStatusRequest) -> bool:
        return (
            await self.controller.call_method("checkScale", check, pb.ScaleStatusResponse)
        ).status == pb.ScaleStatusResponse.SUCCESS

    async def give_up(self, scope: str, stream: str) -> None:
        cut = {segment.id: 0 for segment in await self.controller.current_segments(scope, stream)}
        request = pb.StreamCut(streamInfo=pb.StreamInfo(scope=scope, stream=stream), cut=cut)
        assert (
            await self.controller.call_method("truncateStream", request, pb.UpdateStreamStatus)
        ).status == pb.UpdateStreamStatus.SUCCESS


@contextlib.asynccontextmanager
async def our_site(
    directory: Path,
    tls: ServerTlsConfig | None = None,
    trusted: ClientTls | None = None,
    auth: AuthConfig | None = None,
    login: Login | None = None,
) -> AsyncIterator[Site]:
    """Run our store in *directory*, as `logdrive store run` does, while the context lasts; *login*
    is the site's own where it asks.
    """
    executor, stop = ThreadExecutor("store"), asyncio.Event()
    config = StoreConfig(
        store=DirectoryConfig(path=str(directory / "store")),
        listen=StoreListenConfig(
            pravega=PravegaFaceConfig(address=f"127.0.0.1:{free_port()}", tls=tls),
            controller=ControllerConfig(address=f"127.0.0.1:{(port := free_port())}", tls=tls),
            auth=auth,
        ),
    )
    started: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(
        serve_store(
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
    beginnings: list[asyncio.Future[Any]] = [running, started]
    await asyncio.wait(beginnings, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running
    async with open_grpc_controller("127.0.0.1", port, trusted, login) as controller:
        yield Site(port, controller, directory)
    stop.set()
    await running
    executor.close()


@contextlib.asynccontextmanager
async def real_site(server: RealPravega, directory: Path) -> AsyncIterator[Site]:
    """Reach a running Pravega while the context lasts."""
    async with open_grpc_controller("127.0.0.1", server.controller, None, None) as controller:
        yield Site(server.controller, controller, directory)


Sites = Callable[[], AbstractAsyncContextManager[Site]]


@contextlib.asynccontextmanager
async def service(
    site: Site,
    transport: Transport | None = None,
    tls: ClientTls | None = None,
    login: Login | None = None,
) -> AsyncIterator[Cluster]:
    """Connect to *site* as a receiver does."""
    target = Target("127.0.0.1", site.port, tls)
    random = Random(1)
    async with open_cluster(
        transport or SystemTransport(), target, clock=SystemClock(), random=random, login=login
    ) as made:
        yield made


@contextlib.asynccontextmanager
async def client(site: Site, segment: StreamSegment) -> AsyncIterator[SegmentClient]:
    """Connect to the segment store of *segment*."""
    at = await site.controller.locate_segment(segment)
    async with connect_segment_store(SystemTransport(), at.host, at.port) as found:
        yield found


async def contents(site: Site, segment: StreamSegment) -> bytes:
    """Return all bytes of *segment*."""
    async with client(site, segment) as found:
        state = await found.segment_info(segment.name)
        assert state is not None
        return b"".join(
            [piece async for piece in found.read_range(segment.name, state.start, state.length)]
        )
