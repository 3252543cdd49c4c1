"""Parses the journal's export format, as `journalctl -o export` writes it. Sans I/O.

An entry is fields, then an empty line. A field is `NAME=value` and a newline, or, where its value
has control characters, `NAME`, a newline, the value's length as little-endian u64, the value, and a
newline. (Journal Export Formats, systemd's documentation.)
"""

import struct
from typing import Final

from logdrive.errors import ProtocolError
from logdrive.model.units import KIB, MIB

FIELD_BYTES: Final = 64 * KIB
"""Limit on what is kept of a field: journals may hold whole core dumps."""
MESSAGE_BYTES: Final = 192 * KIB
"""The same for the message."""
ENTRY_BYTES: Final = 256 * KIB
"""Limit on what is kept of an entry's fields together, the message not counted."""
_FIELD_COST: Final = 16
"""Bytes that a field counts for besides its name and value: those without a value are no gift."""
_LONGEST_FIELD: Final = 1024 * MIB
"""Limit on the length that a field names: more than the journal itself takes."""
_NAME_BYTES: Final = 64
"""Limit on a field's name, which is the journal's own."""
_SIZE: Final = struct.Struct("<Q")

MESSAGE: Final = b"MESSAGE"
Fields = dict[bytes, list[bytes]]
"""Values by name; a field may be there several times."""


class ParsedEntry:
    """One entry as it was written."""

    __slots__ = ("_message", "cut", "fields", "size")

    def __init__(self) -> None:
        self.fields: Fields = {}
        self.size = 0  # bytes kept of its values, the message not counted
        self._message = 0  # bytes kept of the message
        self.cut = False  # whether not all of it was kept

    def add(self, name: bytes, value: bytes, length: int) -> None:
        """Add a field of *length* bytes, of which *value* has the first, if there is room."""
        is_message = name == MESSAGE  # of which an entry may have several
        limit, used = (MESSAGE_BYTES, self._message) if is_message else (ENTRY_BYTES, self.size)
        room = limit - used
        if room <= 0:
            self.cut = True
            return

        kept = value[: min(room, limit if is_message else FIELD_BYTES)]
        self.cut = self.cut or len(kept) < length
        self.fields.setdefault(name, []).append(kept)
        cost = len(kept) + _FIELD_COST
        if is_message:
            self._message += cost
        else:
            self.size += cost + len(name)


class ExportParser:
    """Cuts the format into entries, however its bytes are split; discard it after an error."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._offset = 0  # of the buffer's first byte in the stream
        self._entry = ParsedEntry()
        self._skip = 0  # bytes to drop: the rest of a long value, and its newline
        self._skip_line = False  # whether to drop the rest of a line

    def receive_data(self, data: bytes) -> list[ParsedEntry]:
        """Return the entries that *data* completes. Raises `ProtocolError`."""
        entries = list[ParsedEntry]()
        buffer, at = self._buffer, 0
        buffer += data
        while True:
            if self._skip:
                skipped = min(self._skip, len(buffer) - at)
                self._skip -= skipped
                at += skipped
            newline = buffer.find(b"\n", at)
            if self._skip_line and not self._skip:
                self._skip_line = newline < 0
                at = newline + 1 if newline >= 0 else len(buffer)
                if newline >= 0:
                    continue
            if newline < 0 or self._skip:
                break
            if newline == at:
                at += 1
                if self._entry.fields:
                    entries.append(self._entry)
                    self._entry = ParsedEntry()
                continue
            end = self._read_field(at, newline)
            if end is None:
                break
            at = end

        del buffer[:at]
        self._offset += at
        if len(buffer) > MESSAGE_BYTES + KIB and b"\n" not in buffer:
            self._cut_line()
        return entries

    def _cut_line(self) -> None:
        """Keep the beginning of a value that is too long, and drop its line as it comes."""
        name, equals, value = self._buffer.partition(b"=")
        if not equals or len(name) > _NAME_BYTES:
            raise ProtocolError("a field's name without end", offset=self._offset)
        self._entry.add(bytes(name), bytes(value), len(value) + 1)
        self._offset += len(self._buffer)
        self._buffer.clear()
        self._skip_line = True

    def _read_field(self, at: int, newline: int) -> int | None:
        """Add the field whose first line is [at, newline); return its end, None if more comes."""
        buffer = self._buffer
        equals = buffer.find(b"=", at, newline)
        if equals >= 0:
            value = bytes(buffer[equals + 1 : newline])
            self._entry.add(bytes(buffer[at:equals]), value, len(value))
            return newline + 1

        begin = newline + 1 + _SIZE.size
        if newline - at > _NAME_BYTES:
            raise ProtocolError("a field's name without end", offset=self._offset + at)
        if len(buffer) < begin:
            return None
        size = int(_SIZE.unpack_from(buffer, newline + 1)[0])
        if size > _LONGEST_FIELD:
            raise ProtocolError(f"a field of {size} bytes", offset=self._offset + at)
        kept = min(size, MESSAGE_BYTES)
        if len(buffer) < begin + kept:
            return None
        self._entry.add(bytes(buffer[at:newline]), bytes(buffer[begin : begin + kept]), size)
        self._skip = size - kept + 1  # and the newline
        return begin + kept
