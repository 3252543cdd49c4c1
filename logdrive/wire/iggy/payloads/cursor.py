"""Reading and writing of a payload's fields, one after the other, little-endian."""

import struct
from typing import Final

from logdrive.model.framing import Part
from logdrive.wire.iggy.revision import Revision

_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_F32: Final = struct.Struct("<f")


class PayloadReader:
    """A payload of one *revision* and the place in it up to which it is read.

    Every method raises ValueError where the payload ends too early, or holds what can't be.
    """

    __slots__ = ("_at", "_data", "revision")

    def __init__(self, revision: Revision, payload: Part) -> None:
        self.revision = revision
        self._data = memoryview(payload)
        self._at = 0

    @property
    def at(self) -> int:
        """Bytes read."""
        return self._at

    @property
    def left(self) -> int:
        """Bytes that are not yet read."""
        return len(self._data) - self._at

    def view(self, size: int) -> memoryview:
        """Read *size* bytes, as a view that keeps the payload in memory."""
        at = self._at
        if size > len(self._data) - at:
            raise ValueError(f"{size} bytes at {at}, where {len(self._data) - at} are left")
        self._at = at + size
        return self._data[at : at + size]

    def take(self, size: int) -> bytes:
        """Read *size* bytes, as a copy."""
        return bytes(self.view(size))

    def u8(self) -> int:
        """Read one byte."""
        return self.view(1)[0]

    def u32(self) -> int:
        """Read a number of four bytes."""
        return int(_U32.unpack(self.view(4))[0])

    def u64(self) -> int:
        """Read a number of eight bytes."""
        return int(_U64.unpack(self.view(8))[0])

    def f32(self) -> float:
        """Read a floating-point number of four bytes."""
        return float(_F32.unpack(self.view(4))[0])

    def text(self, size: int) -> str:
        """Read *size* bytes of UTF-8."""
        return str(self.view(size), "utf-8")


class PayloadWriter:
    """The payload of one *revision* that is being written, in parts.

    Every method raises ValueError for a value that its field can't hold.
    """

    __slots__ = ("parts", "revision")

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        self.parts: list[Part] = []
        """What is written; long values are in it as they are, without a copy."""

    def put(self, data: Part) -> None:
        """Write bytes."""
        self.parts.append(data)

    def u8(self, value: int) -> None:
        """Write one byte."""
        self.parts.append(bytes((value,)))

    def u32(self, value: int) -> None:
        """Write a number of four bytes."""
        try:
            self.parts.append(_U32.pack(value))
        except struct.error as error:
            raise ValueError(f"{value} in a field of 4 bytes") from error

    def u64(self, value: int) -> None:
        """Write a number of eight bytes."""
        try:
            self.parts.append(_U64.pack(value))
        except struct.error as error:
            raise ValueError(f"{value} in a field of 8 bytes") from error

    def f32(self, value: float) -> None:
        """Write a floating-point number of four bytes."""
        try:
            self.parts.append(_F32.pack(value))
        except OverflowError as error:
            raise ValueError(f"{value} in a field of 4 bytes") from error

    def nested(self) -> "PayloadWriter":
        """Return a writer for a part whose length is written before it."""
        return PayloadWriter(self.revision)

    def joined(self) -> bytes:
        """Return all that is written."""
        return b"".join(self.parts)
