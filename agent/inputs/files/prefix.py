"""CRCs of a file's first bytes, by which a copy of it is known when it is gone itself (rule G5).

They are kept at 1, 2, 4 … 64 KiB, four bytes each, one after the other in one `bytes`: at most 28
bytes a file, of which there are ten thousand.
"""

from collections.abc import Callable
from typing import Final
from zlib import crc32

from logdrive.model.units import KIB

BOUNDARIES: Final = tuple(KIB << power for power in range(7))
"""Bytes after which a CRC is kept."""
PREFIX_BYTES: Final = BOUNDARIES[-1]
"""Bytes that the CRCs cover at most."""
_CRC_BYTES: Final = 4


def extend_prefix(prefix: bytes, size: int, pread: Callable[[int, int], bytes]) -> bytes:
    """Return *prefix* with the CRCs of all boundaries within *size* bytes.

    *pread* returns so many bytes from an offset, fewer only at the file's end. Each byte is read
    once; what *prefix* covers is not read again.
    """
    known = len(prefix) // _CRC_BYTES
    crc = int.from_bytes(prefix[-_CRC_BYTES:])
    begin = BOUNDARIES[known - 1] if known else 0
    for end in BOUNDARIES[known:]:
        if end > size:
            break
        data = pread(end - begin, begin)
        if len(data) < end - begin:
            break
        crc, begin = crc32(data, crc), end
        prefix += crc.to_bytes(_CRC_BYTES)
    return prefix


def is_prefix_due(prefix: bytes, position: int) -> bool:
    """Return whether `extend_prefix` would add something to *prefix* for *position* bytes."""
    known = len(prefix) // _CRC_BYTES
    return known < len(BOUNDARIES) and position >= BOUNDARIES[known]


def prefixes_agree(one: bytes, other: bytes) -> bool:
    """Return whether all CRCs that both have are equal."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def compared_bytes(one: bytes, other: bytes) -> int:
    """Return how many bytes of two files `prefixes_agree` compares."""
    both = min(len(one), len(other)) // _CRC_BYTES
    return BOUNDARIES[both - 1] if both else 0
