"""All open numbered segments of one store, by name: one index a segment, whichever faces use it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from logdrive.host.clock import Clock
from logdrive.services.numbering.checkpoint import PREFIX, Checkpoints
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.store.engine import Store

IDLE_SECONDS: Final = 60.0
"""Seconds after which a segment that nobody reads or appends to is closed."""
_IDLE_CHECK_SECONDS: Final = 30.0
"""Seconds between two looks for segments that nobody uses."""


@dataclass(slots=True, eq=False)
class _NumberedSlot:
    """One segment, or its place while it is opened; *users* are tasks that open or close it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    numbered: NumberedSegment | None = None
    # when it was asked for last (monotonic)
    used: float = 0.0


class NumberedSegments:
    """Opens segments on demand; closes idle ones, and all at the end."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._slots: dict[str, _NumberedSlot] = {}

    async def open(self, segment: str) -> NumberedSegment:
        """Return *segment*, opened if it is not; enter its `in_use` at once to keep it open.

        Raises `NoSuchSegmentError`, `StorageError`, `NotEventsError`.
        """
        async with self._slot(segment) as slot:
            if slot.numbered is None or not slot.numbered.is_current:
                slot.numbered = await NumberedSegment.open(self.store, segment, clock=self._clock)
            slot.used = self._clock.monotonic()
            return slot.numbered

    def get(self, segment: str) -> NumberedSegment | None:
        """Return the segment if it is open."""
        slot = self._slots.get(segment)
        return slot.numbered if slot is not None else None

    async def run(self) -> None:
        """Close segments that nobody uses, until cancelled."""
        while True:
            await self._clock.sleep(_IDLE_CHECK_SECONDS)
            await self.close_idle()

    async def close_idle(self) -> None:
        """Close the segments that nobody has used for a minute."""
        before = self._clock.monotonic() - IDLE_SECONDS
        for segment in list(self._slots):
            async with self._slot(segment) as slot:
                if slot.numbered is not None and slot.numbered.is_idle and slot.used < before:
                    await _close_numbered(slot)

    async def forget(self, segment: str) -> None:
        """Close a segment that is deleted, or is about to be, and delete its index."""
        async with self._slot(segment) as slot:
            await _close_numbered(slot)
            await Checkpoints(self.store, segment).delete()

    async def delete_orphans(self) -> None:
        """Delete the indexes of segments that are gone; call it once after a start."""
        for name in self.store.segments(PREFIX):
            if self.store.info(name.removeprefix(PREFIX)) is None:
                await self.store.delete(name)

    async def close(self) -> None:
        """Close all segments; call it behind all faces, and before the store is closed."""
        for segment in list(self._slots):
            async with self._slot(segment) as slot:
                await _close_numbered(slot)

    @contextlib.asynccontextmanager
    async def _slot(self, segment: str) -> AsyncIterator[_NumberedSlot]:
        slot = self._slots.setdefault(segment, _NumberedSlot())
        slot.users += 1
        try:
            async with slot.lock:
                yield slot
        finally:
            slot.users -= 1
            if not slot.users and slot.numbered is None:
                del self._slots[segment]


async def _close_numbered(slot: _NumberedSlot) -> None:
    numbered, slot.numbered = slot.numbered, None
    if numbered is not None:
        await numbered.close()


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
