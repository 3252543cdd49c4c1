"""The S2 face's basins, streams and access tokens over a store on a disk in memory."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from random import Random

import pytest

from logdrive.services.s2.server.access_tokens import AccessTokens
from logdrive.services.s2.server.basins import Basins
from logdrive.services.s2.server.purging import Purger
from logdrive.services.s2.server.registry import Registry
from logdrive.services.s2.server.streams import S2Streams
from logdrive.store.engine import Store
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.streams import Streams
from logdrive.wire.s2.configs import BasinConfig
from logdrive.wire.s2.errors import S2Error
from tests.logdrive.store.harness import running
from tests.support import virtual_time
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock

BASIN = "first-basin"
PLAIN = BasinConfig()


@dataclass(frozen=True, slots=True)
class Control:
    """All that changes basins, streams and access tokens; `forgotten` has the purged segments."""

    store: Store
    clock: VirtualClock
    catalog: Catalog
    inside: Streams
    registry: Registry
    basins: Basins
    streams: S2Streams
    tokens: AccessTokens
    purger: Purger
    forgotten: list[str]

    async def with_basin(self, config: BasinConfig = PLAIN) -> None:
        await self.basins.create(BASIN, config, location=None, token=None)


async def control_on(store: Store) -> Control:
    clock = VirtualClock()
    catalog = Catalog(store, clock=clock, random=Random(3))
    inside = Streams(catalog)
    registry = Registry(store)
    async with registry.turn():
        pass
    forgotten: list[str] = []

    async def forget(segment: str) -> None:
        forgotten.append(segment)

    purger = Purger(registry, inside, forget=forget, clock=clock)
    basins = Basins(registry, inside, clock=clock, purge=purger.wake)
    streams = S2Streams(registry, basins, catalog, inside, clock=clock, purge=purger.wake)
    tokens = AccessTokens(registry, clock=clock, random=Random(5))
    return Control(
        store, clock, catalog, inside, registry, basins, streams, tokens, purger, forgotten
    )


@contextlib.asynccontextmanager
async def control(disk: MemoryDisk | None = None, *, clean: bool = True) -> AsyncIterator[Control]:
    async with running(disk or MemoryDisk(), delay=0.001, clean=clean) as store:
        yield await control_on(store)


def in_control(test: Callable[[Control], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of *test*, run in virtual time."""

    async def main() -> None:
        async with control() as made:
            await test(made)

    def run() -> None:
        virtual_time.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@contextlib.contextmanager
def refused(code: str) -> Iterator[None]:
    """Expect an `S2Error` with *code*."""
    with pytest.raises(S2Error) as caught:
        yield
    assert caught.value.code == code, caught.value
