"""A partition on a store in memory."""

import contextlib
from collections.abc import AsyncIterator
from uuid import UUID

from logdrive.model.framing import frame_events
from logdrive.services.iggy.server.log.appending import APPEND_BYTES
from logdrive.services.iggy.server.log.known_ids import Deduplication
from logdrive.services.iggy.server.log.partition import PartitionLog
from logdrive.services.iggy.server.log.polling import PolledMessages
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.wire.iggy.identifiers import PollingKind, PollingStrategy
from logdrive.wire.iggy.messages.batches import SentBatch, frame_sent
from logdrive.wire.iggy.messages.decode import IggyMessage, decode_polled
from logdrive.wire.iggy.messages.envelope import StoredMessage
from logdrive.wire.iggy.messages.sending import encode_sent
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock

FOREIGN = UUID(int=77)
FIRST = PollingStrategy(PollingKind.FIRST)
NEXT = PollingStrategy(PollingKind.NEXT)
EVERYTHING = 2**32 - 1


class OpenedPartition(PartitionLog):
    """A partition with a numbered segment of its own, which is closed with it."""

    def __init__(
        self,
        store: Store,
        numbered: NumberedSegment,
        deduplication: Deduplication | None,
        append_bytes: int,
    ) -> None:
        super().__init__(
            store,
            numbered,
            clock=VirtualClock(),
            deduplication=deduplication,
            append_bytes=append_bytes,
        )
        self.numbered = numbered

    async def close(self) -> None:
        await super().close()
        await self.numbered.close()


async def opened(
    store: Store, deduplication: Deduplication | None = None, append_bytes: int = APPEND_BYTES
) -> OpenedPartition:
    """Open the partition; its segment is made if it is missing."""
    if store.info(SEGMENT) is None:
        await store.create(SEGMENT)
    numbered = await NumberedSegment.open(store, SEGMENT, clock=VirtualClock())
    return OpenedPartition(store, numbered, deduplication, append_bytes)


@contextlib.asynccontextmanager
async def partition(
    disk: MemoryDisk | None = None,
    deduplication: Deduplication | None = None,
    *,
    limits: StoreLimits = StoreLimits(),
    append_bytes: int = APPEND_BYTES,
    delay: float = 0.0,
) -> AsyncIterator[tuple[OpenedPartition, Store]]:
    """Run a store with one open partition; both are closed at the end."""
    async with running(disk or MemoryDisk(), limits, delay=delay) as store:
        log = await opened(store, deduplication, append_bytes)
        yield log, store
        await log.close()


def sent(*messages: bytes | StoredMessage, revision: Revision = Revision.R2C) -> SentBatch:
    """Return *messages* as a client of *revision* sends them."""
    stored = [StoredMessage(one) if isinstance(one, bytes) else one for one in messages]
    return frame_sent(revision, encode_sent(revision, stored), len(stored))


async def append_foreign(store: Store, *payloads: bytes) -> None:
    """Append events as another face does."""
    await append_raw(store, frame_events(payloads), len(payloads))


async def append_raw(store: Store, data: bytes, events: int = 1) -> None:
    """Append any bytes as another face does."""
    await store.append(
        SEGMENT,
        data,
        writer=FOREIGN,
        expected=None,
        number=max(store.submitted_number(SEGMENT, FOREIGN), 0) + 1,
        events=events,
    )


async def polled(
    log: PartitionLog,
    strategy: PollingStrategy = FIRST,
    count: int = EVERYTHING,
    *,
    stored: int | None = None,
    revision: Revision = Revision.R2C,
) -> PolledMessages:
    """Poll once."""
    return await log.poll(revision, strategy, count, partition=0, stored=stored)


async def messages(
    log: PartitionLog,
    strategy: PollingStrategy = FIRST,
    count: int = EVERYTHING,
    *,
    stored: int | None = None,
    revision: Revision = Revision.R2C,
) -> list[IggyMessage]:
    """Return the messages of one poll."""
    found = await polled(log, strategy, count, stored=stored, revision=revision)
    decoded = list(decode_polled(revision, joined(found)))
    assert len(decoded) == found.reply.count
    assert (found.first_offset is None) == (not decoded)
    if decoded:
        assert (decoded[0].offset, decoded[-1].offset) == (found.first_offset, found.last_offset)
    return decoded


def joined(found: PolledMessages) -> bytes:
    """Return the bytes of a poll's messages."""
    batches = found.reply.batches
    return b"".join(batches) if isinstance(batches, tuple) else bytes(batches)


def payloads(found: list[IggyMessage]) -> list[bytes]:
    return [one.payload for one in found]
