"""Numbers: positions with 16 check bits, as P and B frames carry and stores keep them (rule P1)."""

from typing import Final
from zlib import crc32

from logdrive.model.limits import MAX_POSITION, TAIL_BYTES

ABSENT: Final = -(1 << 63)
"""The stored number of a source that was never seen.

Pravega's lastEventNumber of a new writer has the same value.
"""
NOT_KEPT: Final = ABSENT + 1
"""In a P frame: this receiver keeps no numbers, so go on from your checkpoint."""
LOST: Final = ABSENT + 2
"""In a P frame: the number was lost here (rule S3); go on as with another store."""
CLOSED: Final = 1 << 62
"""Added to a number once its generation has ended (rule P1)."""


def check_of(tail: bytes) -> int:
    """Return 16 check bits of the (up to) 256 bytes before a position; never 0 (rule P1)."""
    return _check_from(crc32(tail[-TAIL_BYTES:]))


def _check_from(crc: int) -> int:
    return crc & 0xFFFF or 1


def number_of(position: int, tail: bytes | None) -> int:
    """Return the number of *position*; *tail* ends with the bytes before it, None if unknown."""
    return number_with_crc(position, None if tail is None else crc32(tail[-TAIL_BYTES:]))


def number_with_crc(position: int, crc: int | None) -> int:
    """Return the number of *position*; *crc* is the CRC-32 of the up to 256 bytes before it."""
    if not 0 <= position < MAX_POSITION:
        raise ValueError(f"position {position} is not in [0, 2^46)")
    # nothing lies before it that could be checked
    if position == 0:
        return 0
    return position << 16 | (0 if crc is None else _check_from(crc))


def position_of(number: int) -> int:
    """Return the position in *number*, open or closed; 0 for numbers that have none."""
    return 0 if number < 0 else (number & (CLOSED - 1)) >> 16


def check_in(number: int) -> int:
    """Return the check bits in *number*; 0 means that it can't be checked."""
    return number & 0xFFFF


def is_closed(number: int) -> bool:
    """Return whether *number* belongs to a generation that has ended."""
    return number >= CLOSED
