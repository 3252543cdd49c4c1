"""All open numbered segments of one store, by name: one index a segment, whichever faces use it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from logdrive.host.clock import Clock
from logdrive.services.numbering.checkpoint import PREFIX, Checkpoints
from logdrive.services.numbering.opened import OpenByName
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.store.engine import Store


class NumberedSegments:
    """Opens segments on demand; closes idle ones, and all at the end."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._open: OpenByName[NumberedSegment] = OpenByName(clock)

    async def open(self, segment: str) -> NumberedSegment:
        """Return *segment*, opened if it is not; enter its `in_use` at once to keep it open.

        Raises `NoSuchSegmentError`, `StorageError`, `NotEventsError`.
        """
        return await self._open.open(
            segment, lambda: NumberedSegment.open(self.store, segment, clock=self._clock)
        )

    def get(self, segment: str) -> NumberedSegment | None:
        """Return the segment if it is open."""
        return self._open.get(segment)

    async def run(self) -> None:
        """Close segments that nobody uses, until cancelled."""
        await self._open.run()

    async def close_idle(self) -> None:
        """Close the segments that nobody has used for a minute."""
        await self._open.close_idle()

    async def forget(self, segment: str) -> None:
        """Close a segment that is deleted, or is about to be, and delete its index."""
        async with self._open.closed(segment):
            await Checkpoints(self.store, segment).delete()

    async def delete_orphans(self) -> None:
        """Delete the indexes of segments that are gone; call it once after a start."""
        for name in self.store.segments(PREFIX):
            if self.store.info(name.removeprefix(PREFIX)) is None:
                await self.store.delete(name)

    async def close(self) -> None:
        """Close all segments; call it behind all faces, and before the store is closed."""
        await self._open.close()


@contextlib.asynccontextmanager
async def open_numbering(store: Store, *, clock: Clock) -> AsyncIterator[NumberedSegments]:
    """Yield the numbered segments of *store*, for all its faces; enter it before them.

    Indexes are written at the end, but not after an exception: they are made again then.
    """
    numbering = NumberedSegments(store, clock=clock)
    await numbering.delete_orphans()
    idle = asyncio.create_task(numbering.run(), name="idle numbered segments")
    try:
        yield numbering
    except BaseException:
        idle.cancel()
        raise
    idle.cancel()
    await asyncio.wait([idle])
    await numbering.close()
