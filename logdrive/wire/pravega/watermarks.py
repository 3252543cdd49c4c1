"""Encodes a watermark for a stream's mark segment, where Java's readers read it.

The format is version 0 of Pravega's serialization. An object begins with a byte 0, its version and
its number of revisions, one byte each; a revision begins with its number and its length. Here each
object has one revision.
"""

import struct
from collections.abc import Sequence
from typing import Final

WatermarkPart = tuple[int, float, float, int]
"""A segment's id, the bounds of its key range, and an offset in it."""

_REVISION: Final = struct.Struct(">BBBBi")  # 0, version, revisions; the revision, its length
_TIMES: Final = struct.Struct(">qq")  # the lowest and the highest time
_PART: Final = struct.Struct(">BBBBiqddq")  # the same head; the fields of a `WatermarkPart`
_SEGMENT_BYTES: Final = 24  # of a part's revision: its id and key range


def encode_watermark(low: int, high: int, cut: Sequence[WatermarkPart]) -> bytes:
    """Return the watermark for times from *low* to *high*, in the units of writers, up to *cut*."""
    parts = [_PART.pack(0, 0, 1, 0, _SEGMENT_BYTES, *part) for part in cut]
    body = b"".join((_TIMES.pack(low, high), _compact(len(parts)), *parts))
    return _REVISION.pack(0, 0, 1, 0, len(body)) + body


def _compact(number: int) -> bytes:
    """Encode a count in one, two or four bytes; the first bits tell how many."""
    if number < 1 << 7:
        return number.to_bytes(1, "big")
    if number < 1 << 14:
        return (number | 2 << 14).to_bytes(2, "big")
    return (number | 3 << 30).to_bytes(4, "big")
