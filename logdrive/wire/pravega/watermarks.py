"""A watermark as Java's readers take it from a stream's mark: version 0 of Pravega's serialisation.

Each thing begins with its version and its number of revisions, one byte each after a byte 0; each
revision with its number, then its length. Here there is one revision of everything.
"""

import struct
from collections.abc import Sequence
from typing import Final

WatermarkPart = tuple[int, float, float, int]
"""A segment's id, the bounds of its keys, and a place in it."""

_REVISION: Final = struct.Struct(">BBBBi")
_TIMES: Final = struct.Struct(">qq")
_PART: Final = struct.Struct(">BBBBiqddq")
_SEGMENT_BYTES: Final = 24


def encode_watermark(low: int, high: int, cut: Sequence[WatermarkPart]) -> bytes:
    """Return what the mark gets: times from *low* to *high*, up to *cut*."""
    parts = [_PART.pack(0, 0, 1, 0, _SEGMENT_BYTES, *part) for part in cut]
    body = b"".join((_TIMES.pack(low, high), _compact(len(parts)), *parts))
    return _REVISION.pack(0, 0, 1, 0, len(body)) + body


def _compact(number: int) -> bytes:
    """Return a count in one, two or four bytes, of which the first bits say how many."""
    if number < 1 << 7:
        return number.to_bytes(1, "big")
    if number < 1 << 14:
        return (number | 2 << 14).to_bytes(2, "big")
    return (number | 3 << 30).to_bytes(4, "big")
