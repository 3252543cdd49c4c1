"""Format of a table's log: entries back to back, each a head of 17 bytes, a key and a value.

| bytes | field |
|---|---|
| 1 | layout: 0 |
| 4 | length of the key, at least 1 |
| 4 | length of the value; -1 removes the key |
| 8 | version; -2^63 stands for the entry's own offset |

Integers are signed and big-endian. Offsets are those of the segment. An entry has a version other
than its own offset if compaction moved it: that is where it first was.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct("!biiq")
HEAD: Final = _HEAD.size
_LAYOUT: Final = 0
_REMOVED: Final = -1
_OWN_OFFSET: Final = -(1 << 63)


class TableLogEntry(NamedTuple):
    """An entry in the log, without its value."""

    key: bytes
    version: int
    # where it begins in the segment
    offset: int
    # bytes of the value; -1 removes the key
    size: int

    @property
    def removes(self) -> bool:
        """True if the entry removes its key."""
        return self.size == _REMOVED

    @property
    def value_at(self) -> int:
        """Offset of the value in the segment."""
        return self.offset + HEAD + len(self.key)

    @property
    def length(self) -> int:
        """Bytes of the whole entry: head, key and value."""
        return HEAD + len(self.key) + max(self.size, 0)


class TableChange(NamedTuple):
    """An entry to write: *value* None removes *key*; *version* None is the entry's own offset."""

    key: bytes
    value: bytes | None
    version: int | None = None


def encode_entries(
    changes: Sequence[TableChange], base: int
) -> tuple[list[bytes], list[TableLogEntry]]:
    """Return *changes* as bytes, in parts, and as entries; the first begins at offset *base*."""
    parts: list[bytes] = []
    entries: list[TableLogEntry] = []
    for key, value, version in changes:
        size = _REMOVED if value is None else len(value)
        entry = TableLogEntry(key, base if version is None else version, base, size)
        parts += (
            _HEAD.pack(_LAYOUT, len(key), size, _OWN_OFFSET if version is None else version),
            key,
            value or b"",
        )
        entries.append(entry)
        base += entry.length
    return parts, entries


def decode_entries(
    data: bytes, base: int, at: int = 0, *, longest: int, most: int
) -> list[TableLogEntry]:
    """Return up to *most* whole entries from index *at* of *data*, which begins at offset *base*.

    An entry that is cut off at the end is left out. Raises ValueError for anything else than an
    entry, and for one longer than *longest* bytes.
    """
    entries: list[TableLogEntry] = []
    while len(data) - at >= HEAD and len(entries) < most:
        layout, key_size, size, version = _HEAD.unpack_from(data, at)
        if layout != _LAYOUT or key_size < 1 or size < _REMOVED or HEAD + key_size + size > longest:
            raise ValueError(f"no table entry at offset {base + at}")
        key_at = at + HEAD
        end = key_at + key_size + max(size, 0)
        if end > len(data):
            break
        entries.append(
            TableLogEntry(
                data[key_at : key_at + key_size],
                base + at if version == _OWN_OFFSET else version,
                base + at,
                size,
            )
        )
        at = end
    return entries
