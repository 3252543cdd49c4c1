"""The whole S2 face of a store in memory, and a client that sends it raw requests."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import orjson

from logdrive.host.host import Host
from logdrive.host.transport import Transport
from logdrive.net.http.client import HttpClient
from logdrive.services.numbering.segments import open_numbering
from logdrive.services.s2.server.listen import serve_s2
from logdrive.store.engine import Store
from logdrive.store.streams.catalog import Catalog
from tests.logdrive.store.harness import running
from tests.support import virtual_time
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryNetwork
from tests.support.virtual_time import VirtualClock

BASIN = "first-basin"
PORT = 8080
JSON = ("content-type", "application/json")


@dataclass(frozen=True, slots=True)
class Got:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def code(self) -> object:
        """The status, with S2's code if there is one."""
        return self.status, self.json.get("code") if self.body else None


@dataclass(frozen=True, slots=True)
class Face:
    """A served store, and a connection to it; *stop* stops serving.

    *transport* connects to it from another host, at `store`:`PORT`.
    """

    store: Store
    catalog: Catalog
    clock: VirtualClock
    client: HttpClient
    connect: Callable[..., HttpClient]
    stop: Callable[[], Awaitable[None]]
    transport: Transport

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *headers: tuple[str, str],
        basin: str | None = BASIN,
    ) -> Got:
        """Send a request; a *body* that is not bytes is sent as JSON."""
        sent: Sequence[tuple[str, str]] = headers
        if basin is not None:
            sent = (*sent, ("s2-basin", basin))
        if body is not None and not isinstance(body, bytes):
            body, sent = orjson.dumps(body), (*sent, JSON)
        assert body is None or isinstance(body, bytes)
        async with contextlib.AsyncExitStack() as stack:
            client = self.client
            if not client.usable:  # the connection was idle for too long
                client = await stack.enter_async_context(self.connect())
            answer = await client.request(method, path, sent, body)
        return Got(answer.head.status, dict(answer.head.headers), answer.body)

    async def make(self, *streams: str, config: object = None, **basin: object) -> None:
        """Create the basin, with *basin* as its configuration, and streams in it."""
        made = await self.ask("POST", "/v1/basins", {"basin": BASIN, "config": basin})
        assert made.status == 201, made
        for name in streams:
            body = {"stream": name, "config": config}
            made = await self.ask("POST", "/v1/streams", body)
            assert made.status == 201, made

    async def append(self, stream: str, *bodies: str, **conditions: object) -> Got:
        records = [{"body": body} for body in bodies]
        path = f"/v1/streams/{stream}/records"
        return await self.ask("POST", path, {"records": records, **conditions})


@contextlib.asynccontextmanager
async def face(disk: MemoryDisk | None = None, *, clean: bool = True) -> AsyncIterator[Face]:
    """Serve a store on *disk*."""
    network, clock = MemoryNetwork(), VirtualClock()
    host = Host(
        clock=clock,
        disk=disk or MemoryDisk(),
        transport=network.host("store"),
        executor=InlineExecutor(),
        random=Random(7),
    )
    async with running(disk or MemoryDisk(), delay=0.001, clean=clean) as store:
        catalog = Catalog(store, clock=clock, random=Random(3))
        async with contextlib.AsyncExitStack() as serving:
            numbering = await serving.enter_async_context(open_numbering(store, clock=clock))
            await serving.enter_async_context(
                serve_s2(catalog, numbering, ("store", PORT), None, host=host, users=None)
            )
            transport = network.host("client")
            connect = partial(HttpClient, transport, "store", PORT, None)
            async with connect() as client:
                yield Face(store, catalog, clock, client, connect, serving.aclose, transport)
    await network.close()


def with_face(test: Callable[[Face], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of *test*, run in virtual time."""

    async def main() -> None:
        async with face() as made:
            await test(made)

    def run() -> None:
        virtual_time.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
