"""The partition that a message's key selects. See docs/protocols/iggy.md#partitioning."""

from mmh3 import mmh3_x64_128_uintdigest
from xxhash import xxh32_intdigest

from logdrive.wire.iggy.revision import Revision


def partition_of_key(revision: Revision, key: bytes, partitions: int) -> int:
    """Return the index, from 0, of the partition of *partitions* that *key* selects.

    R0 hashes with MurmurHash3, later revisions with XXH32. Where partitions are counted from 1 the
    remainder is a number, and that of 0 means the last one. Clients of R3 do this themselves.
    """
    if revision <= Revision.R0B:
        number = mmh3_x64_128_uintdigest(key, 0)
    else:
        number = xxh32_intdigest(key, 0)
    if revision <= Revision.R2A:
        return (number - 1) % partitions
    return number % partitions
