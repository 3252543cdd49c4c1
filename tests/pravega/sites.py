"""Two places to run the same tests at: our own store, and a real Pravega."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

from logdrive.clock import SystemClock
from logdrive.disk import SystemDisk
from logdrive.executor import ThreadExecutor
from logdrive.net.stream import Transport
from logdrive.net.tcp import SystemTransport
from logdrive.sinks.blocking import Target
from logdrive.sinks.controller import StreamSegment
from logdrive.sinks.pravega_client import SegmentClient, connected
from logdrive.sinks.pravega_controller import GrpcController, reached
from logdrive.sinks.pravega_service import Service, served
from logdrive.store.controller.listening import controlling
from logdrive.store.engine import Store
from logdrive.store.pravega.listening import listening
from logdrive.store.streams.catalogue import Catalogue
from logdrive.wire.pravega.controller import controller_pb2 as pb
from tests.pravega.real import RealPravega

SCALE_SECONDS = 30.0
Keys = tuple[float, float]


class Site:
    """A streaming service; *port* is its controller's, on 127.0.0.1. *scratch* is a directory for the test."""

    def __init__(self, port: int, controller: GrpcController, scratch: Path) -> None:
        self.port, self.controller, self.scratch = port, controller, scratch

    async def scale(self, scope: str, stream: str, sealed: Sequence[StreamSegment], keys: Sequence[Keys]) -> None:
        info = pb.StreamInfo(scope=scope, stream=stream)
        ranges = [pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in keys]
        request = pb.ScaleRequest(
            streamInfo=info,
            sealedSegments=[segment.id for segment in sealed],
            newKeyRanges=ranges,
            scaleTimestamp=SystemClock().now_ms(),
        )
        started = await self.controller.call("scale", request, pb.ScaleResponse)
        assert started.status == pb.ScaleResponse.STARTED
        check = pb.ScaleStatusRequest(streamInfo=info, epoch=started.epoch)
        async with asyncio.timeout(SCALE_SECONDS):
            while not await self._scaled(check):  # noqa: ASYNC110 - the controller tells only who asks
                await asyncio.sleep(0.05)

    async def _scaled(self, check: pb.ScaleStatusRequest) -> bool:
        return (await self.controller.call("checkScale", check, pb.ScaleStatusResponse)).status == pb.ScaleStatusResponse.SUCCESS

    async def give_up(self, scope: str, stream: str) -> None:
        cut = {segment.id: 0 for segment in await self.controller.current(scope, stream)}
        request = pb.StreamCut(streamInfo=pb.StreamInfo(scope=scope, stream=stream), cut=cut)
        assert (await self.controller.call("truncateStream", request, pb.UpdateStreamStatus)).status == pb.UpdateStreamStatus.SUCCESS


@contextlib.asynccontextmanager
async def our_site(directory: Path) -> AsyncIterator[Site]:
    """Run our store in *directory* while the context lasts."""
    disk, executor, clock = SystemDisk(), ThreadExecutor("store"), SystemClock()
    store = await Store.open(str(directory / "store"), disk=disk, executor=executor, clock=clock)
    running = asyncio.create_task(store.run(asyncio.Event()))
    async with (
        listening(store, "127.0.0.1", 0, None, transport=SystemTransport(), disk=disk) as face,
        controlling(Catalogue(store, clock=clock, random=Random(1)), ("127.0.0.1", 0), None, face, disk=disk) as (_, port),
        reached("127.0.0.1", port, None, None) as controller,
    ):
        yield Site(port, controller, directory)
    await store.close()
    await running
    executor.close()


@contextlib.asynccontextmanager
async def real_site(server: RealPravega, directory: Path) -> AsyncIterator[Site]:
    """Reach a running Pravega while the context lasts."""
    async with reached("127.0.0.1", server.controller, None, None) as controller:
        yield Site(server.controller, controller, directory)


Sites = Callable[[], AbstractAsyncContextManager[Site]]


@contextlib.asynccontextmanager
async def service(site: Site, transport: Transport | None = None) -> AsyncIterator[Service]:
    """Connect to *site* as a receiver does."""
    target = Target("127.0.0.1", site.port)
    random = Random(1)
    async with served(transport or SystemTransport(), target, clock=SystemClock(), random=random) as made:
        yield made


@contextlib.asynccontextmanager
async def client(site: Site, segment: StreamSegment) -> AsyncIterator[SegmentClient]:
    """Connect to the segment store of *segment*."""
    at = await site.controller.endpoint(segment)
    async with connected(SystemTransport(), at.host, at.port) as found:
        yield found


async def contents(site: Site, segment: StreamSegment) -> bytes:
    """Return all bytes of *segment*."""
    async with client(site, segment) as found:
        state = await found.segment_info(segment.name)
        assert state is not None
        return b"".join([piece async for piece in found.read_range(segment.name, state.start, state.length)])
