"""Time as an argument: what may ask for it, and the real one."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The only source of time. A virtual one makes years of waiting take no time in tests."""

    def now_ms(self) -> int:
        """Return the wall clock in ms since 1970. It may jump; never measure with it."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait on the same time that `monotonic` tells."""
        ...


class SystemClock:
    """The machine's clocks; asyncio's own timeouts run on the same monotonic one."""

    def now_ms(self) -> int:
        """Return the wall clock in ms since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds since some start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
