"""How a table's changes stand in its segment: back to back, each in 17 bytes of head, its key and
its value.

Offsets are those of the segment. An entry's version is its own offset, unless it says another: then
it was moved here from there.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

# layout 0, bytes of the key, bytes of the value or -1, version
_HEAD: Final = struct.Struct("!biiq")
HEAD: Final = _HEAD.size
_LAYOUT: Final = 0
_REMOVED: Final = -1
_OWN: Final = -(1 << 63)


class TableLogEntry(NamedTuple):
    """One change: *key* gets a value of *size* bytes at *version*, or is removed where that is -1.

    It begins at *offset*.
    """

    key: bytes
    version: int
    offset: int
    size: int

    @property
    def removes(self) -> bool:
        """Whether the key goes."""
        return self.size == _REMOVED

    @property
    def value_at(self) -> int:
        """Where the value begins."""
        return self.offset + HEAD + len(self.key)

    @property
    def length(self) -> int:
        """Bytes of the whole entry."""
        return HEAD + len(self.key) + max(self.size, 0)


class TableChange(NamedTuple):
    """What an entry is to say.

    *value* None removes the key; *version* None is the entry's own offset.
    """

    key: bytes
    value: bytes | None
    version: int | None = None


def encode_entries(
    changes: Sequence[TableChange], base: int
) -> tuple[list[bytes], list[TableLogEntry]]:
    """Return the bytes of *changes* as they stand from *base*, in parts, and what they say."""
    parts: list[bytes] = []
    entries: list[TableLogEntry] = []
    for key, value, version in changes:
        size = _REMOVED if value is None else len(value)
        entry = TableLogEntry(key, base if version is None else version, base, size)
        parts += (
            _HEAD.pack(_LAYOUT, len(key), size, _OWN if version is None else version),
            key,
            value or b"",
        )
        entries.append(entry)
        base += entry.length
    return parts, entries


def decode_entries(
    data: bytes, base: int, at: int = 0, *, longest: int, most: int
) -> list[TableLogEntry]:
    """Return up to *most* whole entries from *at* in *data*, which stands from *base*.

    Raises ValueError where there is something else.
    """
    entries: list[TableLogEntry] = []
    while len(data) - at >= HEAD and len(entries) < most:
        layout, key_size, size, version = _HEAD.unpack_from(data, at)
        if layout != _LAYOUT or key_size < 1 or size < _REMOVED or HEAD + key_size + size > longest:
            raise ValueError(f"no table entry at {base + at}")
        key_at = at + HEAD
        end = key_at + key_size + max(size, 0)
        if end > len(data):
            break
        entries.append(
            TableLogEntry(
                data[key_at : key_at + key_size],
                base + at if version == _OWN else version,
                base + at,
                size,
            )
        )
        at = end
    return entries
