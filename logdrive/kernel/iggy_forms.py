"""Forms of Iggy's messages that its loops share: layouts, why a loop has stopped, user headers, and
the envelope of a stored message.

Numbers are little-endian. See docs/protocols/iggy.md#messages.
"""

import struct
from collections.abc import Iterator
from typing import Final

MessageBytes = bytes | memoryview

# Layouts of messages
CLASSIC: Final = 0
"""R0 to R1: a message's fields one after the other."""
HEAD_56: Final = 1
"""R2A and R2B: an index, and heads of 56 bytes."""
HEAD_64: Final = 2
"""R2C: an index, heads of 64 bytes, typed keys of user headers."""
RECORDS: Final = 3
"""R3: records of 256 bytes and frames; typed keys."""

# Why `encode_messages` has stopped
OVER: Final = 0
"""No whole event is left."""
FULL: Final = 1
"""The next message is beyond a limit."""
BROKEN: Final = 2
"""What follows is no event."""
OTHER: Final = 3
"""The next event begins with 0xff, and is no envelope of this version."""

# What is wrong with messages
NONE: Final = 0
COUNT: Final = 1
"""None, or not as many as announced."""
CUT: Final = 2
"""A message is not whole."""
INDEX: Final = 3
"""A message does not end where the index says."""
LEFT: Final = 4
"""Bytes are left behind the last."""
OFFSET: Final = 5
"""A client has set an offset."""
TIMESTAMP: Final = 6
"""A client has set the time of the append."""
RESERVED: Final = 7
"""A reserved byte is not zero."""
DELTA: Final = 8
"""The offsets of a record's messages do not rise by one."""
LENGTH: Final = 9
"""A record's length is not that of its bytes."""
MESSAGE_SUM: Final = 10
"""A message's checksum is wrong."""
BATCH_SUM: Final = 11
"""A record's checksum is wrong."""
HEADERS_LONG: Final = 12
"""User headers are longer than allowed."""
HEADER_KEY: Final = 13
"""A user header's key is cut off, empty, longer than 255 bytes, or no text."""
HEADER_VALUE: Final = 14
"""A user header's value is cut off, empty, or longer than 255 bytes."""
HEADER_KIND: Final = 15
"""A user header's key or value is of an unknown kind."""
PAYLOAD_LONG: Final = 16
"""A payload, or all of them, are longer than allowed."""
PAYLOAD_EMPTY: Final = 17
"""A payload is empty where it must not be."""

# User headers
STRING: Final = 2
"""The kind of a text."""
KINDS: Final = 15
"""The last kind; the first is 1."""
_LENGTH: Final = struct.Struct("<I")
_MOST: Final = 255  # bytes of a key, and of a value

# Envelopes
MAGIC: Final = b"\xffIG\x01"
ENVELOPE: Final = struct.Struct("<4s16sQI")
"""Layout of an envelope's head: magic, id, origin timestamp, length of the user headers."""
NO_ID: Final = bytes(16)

# Heads
INDEX_ENTRY: Final = struct.Struct("<IIQ")
HEAD: Final = struct.Struct("<Q16sQQQII")
"""Checksum, id, offset, timestamp, origin, length of the user headers, and of the payload."""
HEAD_BYTES: Final = {HEAD_56: HEAD.size, HEAD_64: HEAD.size + 8}
"""Bytes of a head, by layout; those of HEAD_64 end with 8 reserved ones."""
FRAME: Final = struct.Struct("<Q16sIIIIQ")
"""Checksum, id, offset and time behind the record's, lengths as in HEAD, reserved."""
RECORD: Final = struct.Struct("<QQQQQQI")
"""Partition, offset, timestamp, origin, length, checksum, messages; then reserved."""
RECORD_BYTES: Final = 256
SUMMED: Final = struct.Struct("<QQQQQI")
"""What a record's checksum covers before the checksums of its frames: RECORD without itself."""
CLASSIC_HEAD: Final = struct.Struct("<QBQ16sII")
"""Offset, state, timestamp, id, checksum, length of the user headers."""
CLASSIC_SENT: Final = struct.Struct("<16sI")
"""Id, length of the user headers."""


def headers_fault(data: MessageBytes, at: int, end: int, typed: bool) -> int:
    """Return what is wrong with the user headers from *at* to *end*, or NONE.

    *typed*: a byte before each key says its kind (R2C); else keys are texts.
    """
    while at < end:
        kind = STRING
        if typed:
            kind = data[at]
            at += 1
            if not 1 <= kind <= KINDS:
                return HEADER_KIND
        after = _field_end(data, at, end)
        if after is None or (kind == STRING and not _is_text(data[at + 4 : after])):
            return HEADER_KEY
        at = after
        if at == end:
            return HEADER_VALUE
        if not 1 <= data[at] <= KINDS:
            return HEADER_KIND
        after = _field_end(data, at + 1, end)
        if after is None:
            return HEADER_VALUE
        at = after
    return NONE


def _field_end(data: MessageBytes, at: int, end: int) -> int | None:
    """Return where the field at *at* ends: its length, 1 to 255, and its bytes."""
    if end - at < 4:
        return None
    length = _LENGTH.unpack_from(data, at)[0]
    return at + 4 + length if 1 <= length <= min(_MOST, end - at - 4) else None


def _is_text(key: MessageBytes) -> bool:
    try:
        str(key, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def entries(data: MessageBytes, typed: bool) -> Iterator[tuple[int, int]]:
    """Yield where each entry of valid user headers begins, and where it ends."""
    at = 0
    while at < len(data):
        start = at
        at += typed
        at += 4 + _LENGTH.unpack_from(data, at)[0]
        at += 1
        at += 4 + _LENGTH.unpack_from(data, at)[0]
        yield start, at


def add_key_kinds(headers: MessageBytes) -> bytes:
    """Return *headers* with a byte before each key that says that it is a text."""
    pieces: list[MessageBytes] = []
    for start, end in entries(headers, typed=False):
        pieces += (b"\x02", headers[start:end])
    return b"".join(pieces)


def drop_key_kinds(headers: MessageBytes) -> bytes:
    """Return *headers* without the kinds of keys, and without those whose key is no text."""
    return b"".join(
        [
            headers[start + 1 : end]
            for start, end in entries(headers, typed=True)
            if headers[start] == STRING
        ]
    )


def open_envelope(data: MessageBytes, at: int, end: int) -> tuple[bytes, int, int] | None:
    """Return id, origin and where the user headers end, of the envelope from *at* to *end*.

    None if that is no envelope.
    """
    if end - at < ENVELOPE.size or data[at : at + 4] != MAGIC:
        return None
    _, chosen, origin, length = ENVELOPE.unpack_from(data, at)
    start = at + ENVELOPE.size
    if length > end - start or headers_fault(data, start, start + length, typed=True):
        return None
    return chosen, origin, start + length
