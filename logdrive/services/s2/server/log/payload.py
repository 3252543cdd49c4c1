"""Payloads: how one S2 record is stored as one event of a segment (docs/adr/0024).

- *Plain*: the record's body. It has no headers, and its timestamp is the one that any event has:
  the time of its append, or that of the record before if that is later. What other faces wrote is
  plain, too.
- *Record* and *command*: a head (`logdrive.services.numbering.heads`), and then headers and body,
  as fields 3 and 4 of S2's `SequencedRecord`. Commands are a kind of their own, so that they are
  found without decoding.
- *Encrypted*: the same head, then cipher, nonce and ciphertext of such fields.
"""

from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.protobuf import record_fragment, record_of
from logdrive.wire.s2.records import Headers, SequencedRecord


def encode_fields(headers: Headers, body: bytes) -> bytes:
    """Return headers and body as fields of a `SequencedRecord`."""
    return record_fragment(0, headers, body)


def decode_fields(fields: bytes) -> SequencedRecord | None:
    """Return the record, without number and time, that *fields* have; None if they are broken."""
    try:
        return record_of(0, fields)
    except S2Error:
        return None
