"""The clock as an argument: the protocol, and the real clock."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The only source of time. In tests a virtual clock makes years of waiting take no time."""

    def now_ms(self) -> int:
        """Return the wall clock in ms since 1970. It may jump; never measure with it."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never decrease, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for *seconds* of the time that `monotonic` measures."""
        ...


class SystemClock:
    """The machine's clocks; asyncio's timeouts use the same monotonic clock."""

    def now_ms(self) -> int:
        """Return the wall clock in ms since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
