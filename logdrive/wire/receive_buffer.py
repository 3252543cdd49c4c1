"""A queue of received bytes that are removed from the front."""

from collections import deque
from itertools import islice
from typing import Final

from logdrive.model.units import KIB

# Smaller pieces are joined, up to *_JOINED* bytes: a peer that sends single bytes must not cost an
# object for each.
_SMALL: Final = 4 * KIB
_JOINED: Final = 64 * KIB


class ReceiveBuffer:
    """Keeps pieces as they were received, and copies bytes only if they span several pieces.

    Joined small pieces are copied, too. A single buffer that grows with each piece would be moved
    in memory again and again, which costs ten times as much as one copy.
    """

    def __init__(self) -> None:
        self.size = 0
        """Bytes in the queue."""
        self._pieces: deque[bytes | bytearray] = deque()  # bytearrays are joined small pieces
        self._at = 0  # offset of the queue's front in the first piece

    def append_bytes(self, data: bytes) -> None:
        """Append *data* at the end."""
        if not data:
            return
        self.size += len(data)
        last = self._pieces[-1] if self._pieces else b""
        # large pieces are not copied, small ones are joined with the one before
        if len(data) >= _SMALL:
            self._pieces.append(data)
        elif isinstance(last, bytearray) and len(last) < _JOINED:
            last += data
        else:
            self._pieces.append(bytearray(data))

    def peek_front(self, size: int) -> bytes:
        """Return a copy of the first *size* bytes, which must exist; meant for a few bytes."""
        first = bytes(self._pieces[0][self._at : self._at + size])
        return (
            first
            if len(first) == size
            else (first + b"".join(islice(self._pieces, 1, 1 + size)))[:size]
        )

    def pop_front(self, size: int) -> memoryview:
        """Remove the first *size* bytes, which must exist, and return them."""
        self.size -= size
        parts: list[memoryview] = []
        while size:
            piece = self._pieces[0]
            part = memoryview(piece)[self._at : self._at + size]
            # a joined piece may still grow, which an exported view would forbid
            parts.append(memoryview(bytes(part)) if isinstance(piece, bytearray) else part)
            size -= len(part)
            self._at += len(part)
            if self._at == len(piece):
                self._pieces.popleft()
                self._at = 0
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
