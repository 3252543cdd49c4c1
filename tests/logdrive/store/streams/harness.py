"""Streams of a store on a disk in memory."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random
from uuid import UUID

from logdrive.services.pravega.server.streams.transactions import Transactions
from logdrive.store.engine import Store
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.state import StreamConfig
from logdrive.store.streams.streams import Streams
from tests.logdrive.store.harness import running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock

SCOPE, STREAM = "logs", "app"
WRITER = UUID(int=1)


@dataclass(frozen=True, slots=True)
class Rig:
    store: Store
    catalog: Catalog
    streams: Streams
    transactions: Transactions

    @staticmethod
    def on(store: Store, *, slack: int = 1 << 20, seed: int = 3) -> "Rig":
        catalog = Catalog(store, clock=VirtualClock(), random=Random(seed), slack=slack)
        return Rig(store, catalog, Streams(catalog), Transactions(catalog))

    async def made(self, segments: int = 2) -> None:
        """Make the scope and the stream."""
        await self.streams.create_scope(SCOPE)
        await self.streams.create(SCOPE, STREAM, StreamConfig(min_segments=segments))

    async def write(self, segment: str, data: bytes) -> None:
        number = max(self.store.submitted_number(segment, WRITER), 0) + 1
        await self.store.append(
            segment, data, writer=WRITER, expected=None, number=number, events=1
        )

    def content(self, segment: str) -> bytes:
        info = self.store.info(segment)
        assert info is not None
        return self.store.read(segment, info.start, info.length)


@contextlib.asynccontextmanager
async def rig(
    disk: MemoryDisk | None = None, *, clean: bool = True, slack: int = 1 << 20, seed: int = 3
) -> AsyncIterator[Rig]:
    async with running(disk or MemoryDisk(), delay=0.001, clean=clean) as store:
        yield Rig.on(store, slack=slack, seed=seed)


__all__ = ["SCOPE", "STREAM", "WRITER", "Rig", "rig"]
