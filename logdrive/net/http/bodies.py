"""Queue between a connection, which receives a body, and the handler, which takes it."""

import asyncio
from collections import deque
from collections.abc import Callable

from logdrive.errors import TransientError
from logdrive.net.http.errors import BodyTooLargeError
from logdrive.net.http.limits import TINY_CHUNK_BYTES


class BodyBudget:
    """Limit on the bytes of all bodies of a server that wait for their handlers.

    What was promised by a window can't be taken back. But above the limit no connection is read
    that has such bytes, until handlers have taken enough: others are not affected.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit  # bytes
        self._used = 0
        self._paused: dict[HeldBytes, None] = {}  # connections that are not read

    @property
    def exceeded(self) -> bool:
        """Whether the limit is exceeded."""
        return self._used > self._limit

    def add(self, size: int) -> None:
        """Add *size*, which may be negative, to the bytes that wait."""
        self._used += size
        if self._paused and not self.exceeded:
            for held in self._paused:
                held.wake()

    def pause(self, held: "HeldBytes") -> None:
        """Wake *held* once the limit is not exceeded."""
        self._paused[held] = None

    def resume(self, held: "HeldBytes") -> None:
        """Forget what `pause` noted."""
        self._paused.pop(held, None)


class HeldBytes:
    """One connection's part in a `BodyBudget`."""

    __slots__ = ("_budget", "_size", "_waiter")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None  # of the connection's reader

    def add(self, size: int) -> None:
        """Note that *size* bytes of a body have arrived."""
        self._size += size
        self._budget.add(size)

    def remove(self, size: int) -> None:
        """Note that *size* bytes were taken, or dropped; after `clear` it does nothing."""
        size = min(size, self._size)
        self._size -= size
        self._budget.add(-size)
        if not self._size:
            self.wake()

    def clear(self) -> None:
        """Give all back: the connection is over."""
        self.remove(self._size)

    async def wait_room(self) -> None:
        """Return when the connection may be read: it holds nothing, or the budget has room."""
        while self._size and self._budget.exceeded:
            self._waiter = asyncio.get_running_loop().create_future()
            self._budget.pause(self)
            try:
                await self._waiter
            finally:
                self._waiter = None
                self._budget.resume(self)

    def wake(self) -> None:
        """Let the connection's reader look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class BodyQueue:
    """Bytes of one body that have arrived and were not taken.

    *on_taken* is called with the number of bytes that the reader has taken: only then does the
    peer get their part of the window back. *on_wanted* is called before the reader first waits. At
    most one task reads.
    """

    __slots__ = (
        "_chunks",
        "_discarding",
        "_ended",
        "_failure",
        "_on_taken",
        "_on_wanted",
        "_reader",
        "_wanted",
        "size",
    )

    def __init__(self, on_taken: Callable[[int], None], on_wanted: Callable[[], None]) -> None:
        self.size = 0  # bytes that wait
        self._chunks: deque[bytes | bytearray] = deque()
        self._ended = False
        self._discarding = False  # the handler has ended without the rest
        self._failure: TransientError | None = None
        self._reader: asyncio.Future[None] | None = None
        self._wanted = False  # on_wanted was called
        self._on_taken = on_taken
        self._on_wanted = on_wanted

    @property
    def ended(self) -> bool:
        """Whether the whole body has arrived."""
        return self._ended

    def feed(self, data: bytes) -> None:
        """Add *data*, which is not empty."""
        if self._discarding:
            self._on_taken(len(data))
            return
        self.size += len(data)
        last = self._chunks[-1] if self._chunks else None
        if len(data) >= TINY_CHUNK_BYTES:
            self._chunks.append(data)
        elif isinstance(last, bytearray) and len(last) < TINY_CHUNK_BYTES:
            last += data
        else:
            self._chunks.append(bytearray(data))
        self._wake()

    def feed_end(self) -> None:
        """Note that the body is complete."""
        self._ended = True
        self._wake()

    def fail(self, failure: TransientError) -> None:
        """Let the reader get *failure* after what has arrived, unless the body is complete."""
        if not self._ended and self._failure is None:
            self._failure = failure
            self._wake()

    def discard(self) -> None:
        """Take, and drop, what waits and what still comes."""
        self._discarding = True
        if dropped := self.drop():
            self._on_taken(dropped)

    def drop(self) -> int:
        """Forget the bytes that wait; return how many, for which `on_taken` is not called."""
        dropped, self.size = self.size, 0
        self._chunks.clear()
        return dropped

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def next_chunk(self) -> bytes:
        """Return all bytes that wait, at least one, or b"" at the end of the body.

        Raises `TransientError` if the peer reset the stream, or the connection was lost.
        """
        if not self._wanted:
            self._wanted = True
            if not self._ended:
                self._on_wanted()
        while not self._chunks:
            if self._ended:
                return b""
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        first = self._chunks.popleft()
        data = first if isinstance(first, bytes) and not self._chunks else self._join(first)
        self.size = 0
        self._on_taken(len(data))
        return data

    def _join(self, first: bytes | bytearray) -> bytes:
        data = b"".join((first, *self._chunks))
        self._chunks.clear()
        return data

    async def read_all(self, limit: int) -> bytes:
        """Return the rest of the body.

        Raises `BodyTooLargeError` once more than *limit* bytes have come, and `TransientError`.
        """
        parts: list[bytes] = []
        size = 0
        while data := await self.next_chunk():
            size += len(data)
            if size > limit:
                raise BodyTooLargeError(limit)
            parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)
