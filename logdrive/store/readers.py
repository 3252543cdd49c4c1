"""Named readers: each reader's position in a segment is an attribute of that segment.

Retention cuts nothing off that a named reader has not read. A reader sets its position as any
attribute is set, over the network too, and also on sealed segments, whose other attributes can't
change.
"""

import hashlib
from typing import Final
from uuid import UUID

_TAG: Final = b"rdr:"


def reader_key(name: str) -> UUID:
    """Return the attribute for the position of the reader *name*: it has read up to this offset."""
    return UUID(bytes=_TAG + hashlib.sha256(name.encode()).digest()[: 16 - len(_TAG)])


def is_reader_key(key: bytes) -> bool:
    """Return whether *key* is the attribute of a reader's position."""
    return key.startswith(_TAG)
