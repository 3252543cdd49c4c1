"""The C library's heap: what is freed is kept for what comes next, and given back after a peak.

The calls are glibc's. With other C libraries nothing happens: musl gives memory back by itself.
"""

import asyncio
import ctypes
import gc
from collections.abc import Callable
from typing import Final

from logdrive.model.units import MIB

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)
_WORTH: Final = 16 * MIB
"""Less is not given back: it costs some milliseconds, and as much again to have the pages anew."""
_SECONDS: Final = 5.0
"""From there to giving it back, once: windows come and go meanwhile."""


def keep_freed_memory() -> None:
    """Let glibc reuse buffers of up to 32 MiB instead of giving each back to the kernel and getting
    it back zeroed, page by page.

    Windows come and go by the hundred a second: this takes a fifth off a receiver's CPU.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_TRIM_THRESHOLD, 128 * MIB)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 * MIB)


def give_back_freed_memory() -> None:
    """Give every free page of the heap back to the kernel, wherever it lies; takes milliseconds."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


class Heap:
    """Follows how many bytes connections hold, and has the heap trimmed some seconds after a peak.

    Without that, a crowd that came once would be seen in the process's size for ever. *collect*
    finds objects that refer to one another, as those of a connection do; it looks at all there are,
    and so is called after many connections only.
    """

    def __init__(
        self,
        trim: Callable[[], None] = give_back_freed_memory,
        collect: Callable[[], object] = gc.collect,
    ) -> None:
        self._trim, self._collect = trim, collect
        self._held = self._peak = 0
        self._left = 0  # bytes of connections, since the last collection
        self._timer: asyncio.TimerHandle | None = None

    def change(self, size: int) -> None:
        """Say that *size* bytes more are held than before; less, where it is negative."""
        self._held += size
        if self._held > self._peak:
            self._peak = self._held
        elif self._timer is None and self._peak - self._held >= _WORTH:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._give_back)

    def leaves(self, size: int) -> None:
        """Say that a connection has ended that was counted as *size* bytes."""
        self._left += size
        self.change(-size)

    def _give_back(self) -> None:
        self._timer = None
        self._peak = self._held
        if self._left >= _WORTH // 2:
            self._left = 0
            self._collect()
        self._trim()
