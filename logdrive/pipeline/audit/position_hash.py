"""Hashes of positions in files, which the path cover of `verify_rows` sums up.

This is XXH64 of a 64-bit number with the seed 42, as Spark's function `xxhash64` has it, cut to 40
bits: sums over the rows of a batch then stay within 64 bits.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

HASH_BITS: Final = (1 << 40) - 1
_SEED = 42
_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME_4, _PRIME_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_BEGIN = _SEED + _PRIME_5 + 8  # 8: the bytes of what is hashed


def hash_positions(positions: Integers) -> Integers:
    """Return the hash of each of *positions*, in [0, 2^40)."""
    value = mix_number(positions.view(np.uint64))
    return (value & np.uint64(HASH_BITS)).view(np.int64)


def mix_number(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return XXH64 of each of *numbers*, with the seed 42."""
    value = numbers * np.uint64(_PRIME_2)
    value = _rotate(value, 31) * np.uint64(_PRIME_1)
    value ^= np.uint64(_BEGIN)
    value = _rotate(value, 27) * np.uint64(_PRIME_1)
    value += np.uint64(_PRIME_4)
    value ^= value >> np.uint64(33)
    value *= np.uint64(_PRIME_2)
    value ^= value >> np.uint64(29)
    value *= np.uint64(_PRIME_3)
    value ^= value >> np.uint64(32)
    return value


def _rotate(value: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint64]:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))
