"""Heads of stored payloads: what tells a record, a command or ciphertext from plain bytes.

Docs/adr/0024 describes them. S2's face writes such payloads; what begins like one and is none is
plain, since other faces may write any bytes. The numbers of a segment need the heads of all events,
whichever face is served, so nothing here knows protobuf.
"""

import struct
from typing import Final, NamedTuple

from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.records import Fence, Headers, Record, Trim, command_of

MAGIC: Final = b"\xffS2"
"""The first bytes of all payloads that are not plain; a plain record's body never has them."""

RECORD: Final = ord("R")
COMMAND: Final = ord("C")
ENCRYPTED: Final = ord("E")
_KINDS: Final = frozenset((RECORD, COMMAND, ENCRYPTED))
_VERSION: Final = 1

_HEAD: Final = struct.Struct(">3sBBQI")
HEAD_BYTES: Final = _HEAD.size
"""Bytes of the head: magic, kind, version, timestamp, metered size."""
METERED_OVERHEAD: Final = 8
"""What S2 meters for a record beside its headers and body."""
COMMAND_BYTES: Final = 128
"""Limit on the bytes of a command's payload; a longer one is plain."""

# Keys of fields in what follows the head
_HEADERS: Final = 0x1A  # SequencedRecord.headers
_BODY: Final = 0x22
_NAME: Final = 0x0A  # Header.name
_VALUE: Final = 0x12
_LENGTH_BYTES: Final = 5
"""Limit on the bytes of a field's length; a payload is shorter than 2^35 bytes."""


class PayloadHead(NamedTuple):
    """The head of a payload that is not plain; *timestamp* in ms since 1970."""

    kind: int
    timestamp: int
    metered: int


def encode_payload(kind: int, timestamp: int, metered: int, fields: bytes) -> bytes:
    """Return a payload that is not plain."""
    return _HEAD.pack(MAGIC, kind, _VERSION, timestamp, metered) + fields


def decode_head(data: bytes | memoryview, at: int, length: int) -> PayloadHead | None:
    """Return the head of the payload of *length* bytes at *at* of *data*; None if it is plain."""
    if length < HEAD_BYTES or len(data) - at < HEAD_BYTES:
        return None
    magic, kind, version, timestamp, metered = _HEAD.unpack_from(data, at)
    if (
        magic != MAGIC
        or kind not in _KINDS
        or version != _VERSION
        # fields are never shorter than what is metered of them
        or not METERED_OVERHEAD <= metered <= METERED_OVERHEAD + length - HEAD_BYTES
        or (kind == COMMAND and length > COMMAND_BYTES)
    ):
        return None
    return PayloadHead(kind, timestamp, metered)


def decode_command(fields: bytes) -> Fence | Trim | None:
    """Return the command that *fields* are; None if they are none."""
    found = split_fields(fields)
    if found is None:
        return None
    headers, body = found
    try:
        return command_of(Record(body, headers))
    except S2Error:
        return None


def split_fields(fields: bytes) -> tuple[Headers, bytes] | None:
    """Return headers and body of what follows a record's head; None if it was not written here.

    The headers come first, then the body; either may be missing.
    """
    headers: list[tuple[bytes, bytes]] = []
    at = 0
    try:
        while at < len(fields) and fields[at] == _HEADERS:
            header, at = _field(fields, at)
            name, behind = _field(header, 0) if header[:1] == bytes((_NAME,)) else (b"", 0)
            value = b""
            if behind < len(header) and header[behind] == _VALUE:
                value, behind = _field(header, behind)
            if behind != len(header):
                return None
            headers.append((name, value))
        body = b""
        if at < len(fields) and fields[at] == _BODY:
            body, at = _field(fields, at)
    except IndexError:
        return None
    return (tuple(headers), body) if at == len(fields) else None


def _field(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the bytes of the field whose key is at *at*, and where it ends.

    Raises IndexError if it is cut off.
    """
    length = shift = 0
    for begin in range(at + 2, at + 2 + _LENGTH_BYTES):
        byte = data[begin - 1]
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            end = begin + length
            if end > len(data):
                break
            return data[begin:end], end
    raise IndexError(at)
