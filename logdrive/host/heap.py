"""The C library's heap: keeps freed memory for reuse, and returns it to the kernel after a peak.

The calls are glibc's. With other C libraries nothing happens; musl returns memory by itself.
"""

import asyncio
import contextlib
import ctypes
import gc
from collections.abc import Callable, Iterator
from typing import Final

from logdrive.model.units import MIB

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)
_WORTH: Final = 16 * MIB
"""Least number of bytes worth returning.

A trim takes milliseconds, and getting the pages back costs as much again.
"""
_SECONDS: Final = 5.0
"""Seconds from a drop in held memory to the trim; windows come and go meanwhile."""


def keep_freed_memory() -> None:
    """Make glibc reuse buffers of up to 32 MiB instead of returning each to the kernel.

    The kernel would zero the pages again for each new buffer. Windows come and go by the hundred
    per second: this saves a fifth of a receiver's CPU time.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_TRIM_THRESHOLD, 128 * MIB)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 * MIB)


def settle_heap() -> None:
    """Keep freed memory for reuse, and what is imported by now from the collector's scans.

    Modules live as long as the process, and a scan of them takes 0.1 s each time, also at exit.
    """
    keep_freed_memory()
    gc.freeze()


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Let the collector rest in this block, which makes many objects that all stay.

    It would look at them again and again: that is a tenth of the time of a start with many files.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def give_back_freed_memory() -> None:
    """Return all free pages of the heap to the kernel; takes milliseconds."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


class Heap:
    """Counts the bytes that connections hold, and trims the heap some seconds after a peak.

    Without it, the process would keep the size of its largest crowd of connections for ever.
    *collect* finds cyclic garbage, such as a connection's objects. It looks at all objects of the
    process, so it is called only after many connections have closed.
    """

    def __init__(
        self,
        trim: Callable[[], None] = give_back_freed_memory,
        collect: Callable[[], object] = gc.collect,
    ) -> None:
        self._trim = trim  # returns free pages to the kernel
        self._collect = collect  # frees cyclic garbage
        self._held = 0  # bytes that connections hold now
        self._peak = 0  # most bytes held since the last trim
        self._left = 0  # bytes of connections closed since the last collection
        self._timer: asyncio.TimerHandle | None = None  # of the next trim

    def add_held(self, size: int) -> None:
        """Add *size* to the number of bytes held; negative for bytes that were freed."""
        self._held += size
        if self._held > self._peak:
            self._peak = self._held
        elif self._timer is None and self._peak - self._held >= _WORTH:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._give_back)

    def on_connection_closed(self, size: int) -> None:
        """Count a connection, which was counted with *size* bytes, out again."""
        self._left += size
        self.add_held(-size)

    def _give_back(self) -> None:
        self._timer = None
        self._peak = self._held
        # few closed connections leave little garbage
        if self._left >= _WORTH // 2:
            self._left = 0
            self._collect()
        self._trim()
