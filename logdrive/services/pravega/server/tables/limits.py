"""Limits of table segments."""

from dataclasses import dataclass

from logdrive.model.units import KIB, MIB


@dataclass(frozen=True, slots=True)
class TableLimits:
    """Limits of one table segment."""

    key: int = 8 * KIB  # bytes of a key
    fixed_key: int = 256  # bytes of a key in a table whose keys have one length
    entry: int = 1 * MIB  # bytes of an entry in the log: head, key and value
    # keys of one table, and of all cached tables that are not in use; about 250 bytes each
    keys: int = 1 << 20
    # bytes of keys and values after which a page of results, or one read of the log, ends
    page: int = 2 * MIB
    answer: int = 8 * MIB  # bytes of keys and values that one request may ask for
    compact_from: int = 1 * MIB  # bytes of a log below which it is not compacted
