"""Named readers: how far each has read a segment is an attribute of that segment, which retention
does not overtake.

A reader sets it as any attribute is set, over the network too, and on sealed segments, where
attributes otherwise stay as they are.
"""

import hashlib
from typing import Final
from uuid import UUID

_TAG: Final = b"rdr:"


def reader_key(name: str) -> UUID:
    """Return the attribute in which the reader of that *name* keeps the offset up to which it needs
    a segment no more.
    """
    return UUID(bytes=_TAG + hashlib.sha256(name.encode()).digest()[: 16 - len(_TAG)])


def is_reader_key(key: bytes) -> bool:
    """Tell whether *key* is such an attribute's."""
    return key.startswith(_TAG)
