"""Limits of table segments."""

from dataclasses import dataclass

from logdrive.model.units import KIB, MIB


@dataclass(frozen=True, slots=True)
class TableLimits:
    """What one table segment takes on."""

    key: int = 8 * KIB  # bytes of a key
    fixed_key: int = 256  # bytes of a key in a table whose keys have one length
    entry: int = 1 * MIB  # bytes of an entry as the log has it: 17, key and value
    # keys of one table, and of all tables in memory together as far as they are not in use; about
    # 250 bytes each
    keys: int = 1 << 20
    # bytes of keys and values after which an iterator or a walk of the log stops
    page: int = 2 * MIB
    answer: int = 8 * MIB  # bytes of keys and values that one request may ask for
    compact_from: int = 1 * MIB  # bytes of log below which it is left as it is
