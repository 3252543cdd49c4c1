"""Bytes of a stream as they arrived, taken from the front."""

from collections import deque
from itertools import islice
from typing import Final

from logdrive.model.units import KIB

# pieces below it are put together, so that a peer that sends single bytes costs no object for each
_SMALL: Final = 4 * KIB
_TOGETHER: Final = 64 * KIB


class Arrived:
    """Keeps pieces as they came: what is taken is copied only where it spans several, or came in
    small ones.

    One buffer that grew with every piece would be moved in memory time and again, which costs ten
    times what one copy does.
    """

    def __init__(self) -> None:
        self.size = 0
        """How many bytes can be taken."""
        self._pieces: deque[bytes | bytearray] = deque()
        self._at = 0  # in the first piece

    def add(self, data: bytes) -> None:
        """Put *data* at the end."""
        if not data:
            return
        self.size += len(data)
        last = self._pieces[-1] if self._pieces else b""
        if len(data) >= _SMALL:
            self._pieces.append(data)
        elif isinstance(last, bytearray) and len(last) < _TOGETHER:
            last += data
        else:
            self._pieces.append(bytearray(data))

    def peek(self, size: int) -> bytes:
        """Return the first *size* bytes, at most a few, and leave them; there must be as many."""
        first = bytes(self._pieces[0][self._at : self._at + size])
        return (
            first
            if len(first) == size
            else (first + b"".join(islice(self._pieces, 1, 1 + size)))[:size]
        )

    def take(self, size: int) -> memoryview:
        """Return the first *size* bytes and let go of them; there must be as many."""
        self.size -= size
        parts: list[memoryview] = []
        while size:
            piece = self._pieces[0]
            part = memoryview(piece)[self._at : self._at + size]
            # which may grow once this was returned
            parts.append(memoryview(bytes(part)) if isinstance(piece, bytearray) else part)
            size -= len(part)
            self._at += len(part)
            if self._at == len(piece):
                self._pieces.popleft()
                self._at = 0
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
