"""Payloads: how one S2 record is stored as one event of a segment (docs/adr/0024).

- *Plain*: the record's body. It has no headers, and its timestamp is the one that any event has:
  the time of its append, or that of the record before if that is later. What other faces wrote is
  plain, too.
- *Record* and *command*: 17 bytes of head and then headers and body, as fields 3 and 4 of S2's
  `SequencedRecord`. Commands are a kind of their own, so that they are found without decoding.
- *Encrypted*: the same head, then cipher, nonce and ciphertext of such fields.

Something that begins like one of these and is none is plain: another face may write any bytes.
"""

import struct
from typing import Final, NamedTuple

from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.protobuf import record_fragment, record_of
from logdrive.wire.s2.records import Fence, Headers, Record, SequencedRecord, Trim, command_of

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


class PayloadHead(NamedTuple):
    """The head of a payload that is not plain; *timestamp* in ms since 1970."""

    kind: int
    timestamp: int
    metered: int


def encode_payload(kind: int, timestamp: int, metered: int, fields: bytes) -> bytes:
    """Return a payload that is not plain."""
    return _HEAD.pack(MAGIC, kind, _VERSION, timestamp, metered) + fields


def encode_fields(headers: Headers, body: bytes) -> bytes:
    """Return headers and body as fields of a `SequencedRecord`."""
    return record_fragment(0, headers, body)


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


def decode_fields(fields: bytes) -> SequencedRecord | None:
    """Return the record, without number and time, that *fields* have; None if they are broken."""
    try:
        return record_of(0, fields)
    except S2Error:
        return None


def decode_command(fields: bytes) -> Fence | Trim | None:
    """Return the command that *fields* are; None if they are none."""
    record = decode_fields(fields)
    if record is None:
        return None
    try:
        return command_of(Record(record.body, record.headers))
    except S2Error:
        return None
