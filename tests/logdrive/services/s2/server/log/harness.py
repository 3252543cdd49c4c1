"""A stream on a store in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from uuid import UUID

from logdrive.model.framing import frame_events
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.reading import Chunk
from logdrive.services.s2.server.log.stream_log import StreamLog
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.wire.s2.protobuf import decode_read_batch
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import AppendInput, Record, SequencedRecord
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock

FOREIGN = UUID(int=77)
DEFAULTS = LogSettings()
EVERYTHING = ReadQuery(seq_num=0, count=10**9)


class OpenedLog(StreamLog):
    """A stream with a numbered segment of its own, which is closed with it."""

    def __init__(self, store: Store, numbered: NumberedSegment, settings: LogSettings) -> None:
        super().__init__(
            store, numbered, clock=VirtualClock(), random=Random(3), settings=lambda: settings
        )
        self.numbered = numbered

    async def close(self) -> None:
        await super().close()
        await self.numbered.close()


async def opened(store: Store, settings: LogSettings = DEFAULTS) -> OpenedLog:
    """Open the stream; its segment is made if it is missing."""
    if store.info(SEGMENT) is None:
        await store.create(SEGMENT)
    return OpenedLog(
        store, await NumberedSegment.open(store, SEGMENT, clock=VirtualClock()), settings
    )


@contextlib.asynccontextmanager
async def stream(
    disk: MemoryDisk | None = None,
    settings: LogSettings = DEFAULTS,
    *,
    limits: StoreLimits = StoreLimits(),
    delay: float = 0.0,
) -> AsyncIterator[tuple[OpenedLog, Store]]:
    """Run a store with one open stream; both are closed at the end."""
    async with running(disk or MemoryDisk(), limits, delay=delay) as store:
        log = await opened(store, settings)
        yield log, store
        await log.close()


def bodies(*texts: bytes, match: int | None = None, token: str | None = None) -> AppendInput:
    return AppendInput(tuple(Record(text) for text in texts), match, token)


def append_foreign(store: Store, *payloads: bytes) -> "asyncio.Future[int]":
    """Append events as another face does."""
    return append_raw(store, frame_events(payloads), len(payloads))


def append_raw(store: Store, data: bytes, events: int = 1) -> "asyncio.Future[int]":
    """Append any bytes as another face does."""
    return store.append(
        SEGMENT,
        data,
        writer=FOREIGN,
        expected=None,
        number=max(store.submitted_number(SEGMENT, FOREIGN), 0) + 1,
        events=events,
    )


async def records(
    log: StreamLog, query: ReadQuery = EVERYTHING, key: bytes | None = None
) -> list[SequencedRecord]:
    """Return everything that a session with this query is sent, until it ends."""
    found: list[SequencedRecord] = []
    for chunk in await chunks(log, query, key):
        found += decode_read_batch(chunk.batch).records
    return found


async def chunks(log: StreamLog, query: ReadQuery, key: bytes | None = None) -> list[Chunk]:
    reading = await log.read(query, key=key)
    return [chunk async for chunk in reading]
