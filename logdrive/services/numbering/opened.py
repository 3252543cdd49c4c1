"""What is open for a segment, by its name: made on demand, once; closed when it is idle."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from logdrive.host.clock import Clock

IDLE_SECONDS: Final = 60.0
"""Seconds after which what nobody uses is closed."""
_CHECK_SECONDS: Final = 30.0
"""Seconds between two looks for what nobody uses."""


class Openable(Protocol):
    """Something that is open for one segment."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses it now."""
        ...

    @property
    def is_current(self) -> bool:
        """Whether it is open, and its segment still is the one that it was opened for."""
        ...

    async def close(self) -> None:
        """End all use."""
        ...


Opened = TypeVar("Opened", bound=Openable)


@dataclass(slots=True, eq=False)
class _Slot(Generic[Opened]):
    """One open thing, or its place while it is opened; *users* are tasks that open or close it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    opened: Opened | None = None
    # when it was asked for last (monotonic)
    used: float = 0.0


class OpenByName(Generic[Opened]):
    """What is open, by the name of its segment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[str, _Slot[Opened]] = {}

    async def open(self, segment: str, make: Callable[[], Awaitable[Opened]]) -> Opened:
        """Return what is open for *segment*, made if nothing is; raises what *make* raises."""
        async with self._slot(segment) as slot:
            if slot.opened is None or not slot.opened.is_current:
                slot.opened = await make()
            slot.used = self._clock.monotonic()
            return slot.opened

    def get(self, segment: str) -> Opened | None:
        """Return what is open for *segment*."""
        slot = self._slots.get(segment)
        return slot.opened if slot is not None else None

    async def run(self) -> None:
        """Close what is idle, from time to time, until cancelled."""
        while True:
            await self._clock.sleep(_CHECK_SECONDS)
            await self.close_idle()

    async def close_idle(self) -> None:
        """Close what nobody has used for a minute."""
        before = self._clock.monotonic() - IDLE_SECONDS
        for segment in list(self._slots):
            async with self._slot(segment) as slot:
                if slot.opened is not None and slot.opened.is_idle and slot.used < before:
                    await _close(slot)

    @contextlib.asynccontextmanager
    async def closed(self, segment: str) -> AsyncIterator[None]:
        """Close what is open for *segment*, and open nothing for it during the context."""
        async with self._slot(segment) as slot:
            await _close(slot)
            yield

    async def close(self) -> None:
        """Close everything."""
        for segment in list(self._slots):
            async with self._slot(segment) as slot:
                await _close(slot)

    @contextlib.asynccontextmanager
    async def _slot(self, segment: str) -> AsyncIterator[_Slot[Opened]]:
        slot = self._slots.setdefault(segment, _Slot())
        slot.users += 1
        try:
            async with slot.lock:
                yield slot
        finally:
            slot.users -= 1
            if not slot.users and slot.opened is None:
                del self._slots[segment]


async def _close(slot: _Slot[Opened]) -> None:
    opened, slot.opened = slot.opened, None
    if opened is not None:
        await opened.close()
