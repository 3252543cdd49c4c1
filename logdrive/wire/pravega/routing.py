"""The segment that a routing key belongs to, by Pravega's hash, which never changes.

A key is hashed as UTF-16 with MurmurHash3 (x64, 128 bits); 52 bits of the first half become a
fraction in [0, 1), and the key belongs to the segment whose upper bound is the smallest one not
below it.
"""

import struct
from bisect import bisect_left
from typing import Final

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_SEED: Final = 1741865571  # Java's hash of the string "EventRouter"
_FRACTION_BITS: Final = 52
_BLOCK: Final = struct.Struct("<QQ")  # 16 bytes of the key


def key_fraction(key: str) -> float:
    """Return the fraction in [0, 1) that *key* is hashed to.

    Keep keys ASCII: some clients hash the others differently.
    """
    return (_murmur3_first_half(key.encode("utf-16-le", "surrogatepass")) >> 12) / (
        1 << _FRACTION_BITS
    )


def segment_number(key: str, segments: int) -> int:
    """Return which of *segments* equal key ranges *key* belongs to, from 0 on."""
    return bisect_left([(n + 1) / segments for n in range(segments)], key_fraction(key))


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mixed_low(k1: int) -> int:
    return _rotated(k1 * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_high(k2: int) -> int:
    return _rotated(k2 * _C2 & _MASK, 33) * _C1 & _MASK


def _final(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33


def _murmur3_first_half(data: bytes) -> int:
    """Return the first 64 bits of MurmurHash3_x64_128; both halves have the same seed."""
    h1 = h2 = _SEED
    whole = len(data) & ~15
    for k1, k2 in _BLOCK.iter_unpack(data[:whole]):
        h1 = (_rotated(h1 ^ _mixed_low(k1), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotated(h2 ^ _mixed_high(k2), 31) + h1) * 5 + 0x38495AB5 & _MASK

    # the bytes after the last whole block
    tail = data[whole:]
    h2 ^= _mixed_high(int.from_bytes(tail[8:], "little")) ^ len(data)
    h1 ^= _mixed_low(int.from_bytes(tail[:8], "little")) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _final(h1) + _final(h2) & _MASK
