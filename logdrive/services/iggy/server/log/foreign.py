"""What other faces wrote, as Iggy's messages: records of S2, and events that are too long."""

from typing import Final

from logdrive.services.numbering.heads import HEAD_BYTES, RECORD, decode_head, split_fields
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.limits import USER_HEADERS_BYTES
from logdrive.wire.iggy.messages.envelope import StoredMessage, encode_enveloped
from logdrive.wire.iggy.messages.headers import (
    HeaderEntry,
    HeaderKind,
    TypedField,
    decode_headers,
    encode_headers,
    header,
)
from logdrive.wire.iggy.messages.polled import ForeignMessage

OMITTED: Final = "logdrive-omitted"
"""User header of a message that no client could take: the length of the event it stands for."""


def show_foreign(payload: bytes) -> ForeignMessage | None:
    """Return the message that a stored record of S2 is: its headers as user headers, and its body.

    None for anything else, which is shown as it is stored: plain bytes, commands, ciphertext, and
    records whose headers Iggy does not allow.
    """
    head = decode_head(payload, 0, len(payload))
    if head is None or head.kind != RECORD:
        return None
    found = split_fields(payload[HEAD_BYTES:])
    if found is None:
        return None
    headers, body = found
    if len({name for name, _ in headers}) < len(headers):
        return None
    encoded = encode_headers(
        HeaderEntry(TypedField(HeaderKind.STRING, name), TypedField(HeaderKind.RAW, value))
        for name, value in headers
    )
    if len(encoded) > USER_HEADERS_BYTES:
        return None
    try:
        decode_headers(encoded)
    except IggyError:  # an empty name or value, or a long one, or a name that is no text
        return None
    return ForeignMessage(encoded, body)


def omitted(length: int) -> bytes:
    """Return an event that stands for one of *length* bytes."""
    return encode_enveloped(StoredMessage(b"", encode_headers((header(OMITTED, str(length)),))))
