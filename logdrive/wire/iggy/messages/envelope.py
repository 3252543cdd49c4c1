"""How a message is stored: as one event of the segment (docs/adr/0026).

The event's payload is the message's own, or an envelope of it where the message has user headers or
a chosen id, or where its payload begins with 0xff:

    ff 49 47 01     magic "\\xffIG", version 1
    id              u128, 0: derived from the offset
    origin          u64, µs since 1970 at the client, 0: none
    length          u32, of the user headers
    user headers    in R2C's form
    payload

Numbers are little-endian. What begins like an envelope and is none is a payload.
"""

from typing import NamedTuple

from logdrive.kernel import iggy_forms as forms
from logdrive.model.framing import Part, frame_event

ENVELOPE_HEAD: int = forms.ENVELOPE.size
"""Bytes of an envelope before the user headers."""


class StoredMessage(NamedTuple):
    """A message as it is stored: *id* 0 if it is derived, *origin* 0 if there is none (µs)."""

    payload: bytes
    headers: bytes = b""
    id: int = 0
    origin: int = 0


def encode_event(message: StoredMessage) -> bytes:
    """Return the event that stores *message*."""
    if not message.headers and not message.id and message.payload[:1] != forms.MAGIC[:1]:
        return frame_event(message.payload)
    return encode_enveloped(message)


def encode_enveloped(message: StoredMessage) -> bytes:
    """Return the event that stores *message* with an envelope, whether or not it needs one."""
    payload, headers, chosen, origin = message
    head = forms.ENVELOPE.pack(forms.MAGIC, chosen.to_bytes(16, "little"), origin, len(headers))
    return frame_event(b"".join((head, headers, payload)))


def decode_message(payload: Part) -> StoredMessage:
    """Return the message that is stored as an event's *payload*; one of other faces is plain."""
    opened = forms.open_envelope(payload, 0, len(payload))
    if opened is None:
        return StoredMessage(bytes(payload))
    chosen, origin, start = opened
    headers = bytes(payload[ENVELOPE_HEAD:start])
    return StoredMessage(bytes(payload[start:]), headers, int.from_bytes(chosen, "little"), origin)


def chosen_id(payload: Part) -> int:
    """Return the id that a client chose for the message stored as *payload*; 0 if none did."""
    if payload[:4] != forms.MAGIC:
        return 0
    opened = forms.open_envelope(payload, 0, len(payload))
    return int.from_bytes(opened[0], "little") if opened is not None else 0


def derived_id(seed: bytes, offset: int) -> int:
    """Return the id of the message at *offset* that has no chosen one; *seed* has 8 bytes."""
    return int.from_bytes(seed + offset.to_bytes(8, "little"), "little")
