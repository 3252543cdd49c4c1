"""All open streams of S2's face, by segment."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from random import Random

from logdrive.host.clock import Clock
from logdrive.services.numbering.segments import IDLE_SECONDS, NumberedSegments
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.stream_log import StreamLog


@dataclass(slots=True, eq=False)
class _Slot:
    """One stream, or its place while it is opened; *users* are tasks that open or close it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    log: StreamLog | None = None
    # when it was asked for last (monotonic)
    used: float = 0.0


class StreamLogs:
    """Opens streams on demand; closes idle ones, and all at the end."""

    def __init__(self, numbering: NumberedSegments, *, clock: Clock, random: Random) -> None:
        self._numbering = numbering
        self._clock = clock
        self._random = random
        self._slots: dict[str, _Slot] = {}

    async def open(self, segment: str, settings: Callable[[], LogSettings]) -> StreamLog:
        """Return the stream that is *segment*, opened if it is not.

        Ask for it again for each request: it may be closed when it is idle. Raises
        `NoSuchSegmentError`, `StorageError`, `NotEventsError`.
        """
        async with self._slot(segment) as slot:
            if slot.log is None or not slot.log.is_current:
                slot.log = StreamLog(
                    self._numbering.store,
                    await self._numbering.open(segment),
                    clock=self._clock,
                    random=self._random,
                    settings=settings,
                )
            slot.used = self._clock.monotonic()
            return slot.log

    def get(self, segment: str) -> StreamLog | None:
        """Return the stream if it is open."""
        slot = self._slots.get(segment)
        return slot.log if slot is not None else None

    async def close_idle(self) -> None:
        """Close the streams that nobody has used for a minute; call it from time to time."""
        before = self._clock.monotonic() - IDLE_SECONDS
        for segment in list(self._slots):
            async with self._slot(segment) as slot:
                if slot.log is not None and slot.log.is_idle and slot.used < before:
                    await _close(slot)

    async def forget(self, segment: str) -> None:
        """Close a stream that is deleted, or is about to be, and delete its index."""
        async with self._slot(segment) as slot:
            await _close(slot)
            await self._numbering.forget(segment)

    async def close(self) -> None:
        """Close all streams; call it before the numbered segments are closed."""
        for segment in list(self._slots):
            async with self._slot(segment) as slot:
                await _close(slot)

    @contextlib.asynccontextmanager
    async def _slot(self, segment: str) -> AsyncIterator[_Slot]:
        slot = self._slots.setdefault(segment, _Slot())
        slot.users += 1
        try:
            async with slot.lock:
                yield slot
        finally:
            slot.users -= 1
            if not slot.users and slot.log is None:
                del self._slots[segment]


async def _close(slot: _Slot) -> None:
    log, slot.log = slot.log, None
    if log is not None:
        await log.close()
