"""Pravega events in a segment: an int32 of zero, an int32 length, and the payload."""

import struct
from collections.abc import Sequence
from typing import Final

_EVENT = struct.Struct("!ii")
EVENT_HEAD: Final = _EVENT.size
Part = bytes | memoryview
"""One of the buffers of an append, which are written one after the other.

A memoryview's bytes must not change.
"""


def event_head(length: int) -> bytes:
    """Return the bytes that precede a payload of *length* bytes."""
    return _EVENT.pack(0, length)


def frame_event(payload: bytes) -> bytes:
    """Return *payload* as one Pravega event."""
    return event_head(len(payload)) + payload


def frame_events(payloads: Sequence[bytes]) -> bytes:
    """Return *payloads* as Pravega events back to back; one join, cheap for a thousand of them."""
    parts: list[bytes] = []
    for payload in payloads:
        parts += (_EVENT.pack(0, len(payload)), payload)
    return b"".join(parts)


def event_size(events: Part, at: int) -> int:
    """Return the size in bytes of the Pravega event at *at*, its head included."""
    return EVENT_HEAD + int(_EVENT.unpack_from(events, at)[1])


def unframe_events(events: bytes) -> list[bytes]:
    """Return the payloads of *events*, whole Pravega events back to back."""
    payloads, at = [], 0
    while at < len(events):
        end = at + event_size(events, at)
        payloads.append(events[at + EVENT_HEAD : end])
        at = end
    return payloads


def event_length(head: bytes) -> int:
    """Return the payload length that an event's *head*, 8 bytes, announces.

    Raises ValueError if it is not the head of an event.
    """
    kind, length = _EVENT.unpack(head)
    if kind != 0 or length < 0:
        raise ValueError(f"not an event: type {kind}, length {length}")
    return int(length)
