"""Finds appends by their times."""

from logdrive.store.engine import Store


def appended_from(store: Store, segment: str, begin: int, end: int, time_ms: int) -> int:
    """Return where the first append of *time_ms* (ms since 1970) or later begins, at most *end*.

    Appends from the offset *begin* on are looked at, one for each doubling of their count. One
    whose time can't be read counts as later. Where a clock went back, the append before is older,
    and the one at the offset returned is not. Raises `SegmentTruncatedError`, `StorageError`.
    """
    low, high = begin, end
    while low < high:
        append = store.append_at(segment, (low + high) // 2)
        if append.time_ms is not None and append.time_ms < time_ms:
            low = append.offset + append.length
        else:
            high = max(low, append.offset)
    return min(low, end)
