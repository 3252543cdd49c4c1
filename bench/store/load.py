"""The loads of appends that every store gets, and how long each append takes."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.measure import Sample, Setting, percentile
from logdrive.model.numbers import ABSENT
from logdrive.model.units import KIB, MIB

_BYTES_A_LINE = 512
_POOL_BYTES = 64 * MIB  # more than the CPU's caches hold, as what comes from a network would be


@dataclass(frozen=True, slots=True)
class Load:
    """Writers that append side by side."""

    writers: int
    size: int  # bytes of one append
    in_flight: int  # appends of each writer that are not durable yet

    def appends(self, setting: Setting) -> int:
        """Return how many appends each writer makes: 512 MB all together for a million lines."""
        return max(1, setting.lines * _BYTES_A_LINE // self.size // self.writers)

    def bytes_in(self, setting: Setting) -> int:
        """Return how many bytes all writers append together."""
        return self.writers * self.appends(setting) * self.size

    def told(self) -> str:
        """The load in words."""
        times = (
            f", {self.in_flight} each in flight" if self.in_flight > 1 else ", one each at a time"
        )
        return (
            f"{self.writers:,} writer{'s' if self.writers > 1 else ''}, appends of "
            f"{self.size // KIB} KiB{times}"
        )


LOADS = (Load(1, 1024 * KIB, 16), Load(16, 256 * KIB, 4), Load(1000, 64 * KIB, 1))

Submit = Callable[[int, bytes, int, int], "asyncio.Future[object]"]
"""Takes (writer, data, number before, number); the future ends once the data is durable."""


def note(waits: list[float], began: float, _: "asyncio.Future[object]") -> None:
    """Add to *waits* how long it took since *began*: a callback of futures."""
    waits.append(time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class Appended:
    """What a load took, from the first submission to the last acknowledgement."""

    bytes: int
    seconds: float
    cpu: float  # seconds of this process
    waits: list[float]  # seconds of each append

    def samples(self) -> dict[str, Sample]:
        """The figures that every place has."""
        return {
            "throughput": Sample(self.bytes / self.seconds / 1e6, "MB/s"),
            "p50": Sample(percentile(self.waits, 0.5) * 1e3, "ms"),
            "p99": Sample(percentile(self.waits, 0.99) * 1e3, "ms"),
        }


async def append_all(load: Load, setting: Setting, submit: Submit) -> Appended:
    """Let all writers of *load* append what they have to, side by side."""
    seen = os.urandom(load.size)  # each buffer is one of its own in memory, which is what counts
    pool = [
        seen[at % load.size :] + seen[: at % load.size]
        for at in range(max(1, _POOL_BYTES // load.size))
    ]
    waits: list[float] = []
    appends = load.appends(setting)

    async def write(writer: int) -> None:
        flying: deque[asyncio.Future[object]] = deque()
        for number in range(1, appends + 1):
            if len(flying) == load.in_flight:
                await flying.popleft()
            began = time.monotonic()
            future = submit(
                writer,
                pool[(writer + number) % len(pool)],
                number - 1 if number > 1 else ABSENT,
                number,
            )
            future.add_done_callback(partial(note, waits, began))
            flying.append(future)
        for future in flying:
            await future

    began, used = time.monotonic(), time.process_time()
    await asyncio.gather(*(write(writer) for writer in range(load.writers)))
    return Appended(
        load.bytes_in(setting), time.monotonic() - began, time.process_time() - used, waits
    )
