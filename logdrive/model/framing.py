"""Events in a segment: an int32 of zero, an int32 length, and the payload, as Pravega's clients
write them.
"""

import struct
from collections.abc import Sequence
from typing import Final

_EVENT = struct.Struct("!ii")
EVENT_HEAD: Final = _EVENT.size
Part = bytes | memoryview
"""One of the pieces, written one after the other, that an append is handed over in: a view is of
what will not change.
"""


def event_head(length: int) -> bytes:
    """Return what stands before a payload of *length* bytes in a Pravega event."""
    return _EVENT.pack(0, length)


def framed(payload: bytes) -> bytes:
    """Return *payload* as one Pravega event."""
    return event_head(len(payload)) + payload


def framed_all(payloads: Sequence[bytes]) -> bytes:
    """Return *payloads* as Pravega events, back to back; one join, so cheap for a thousand of
    them.
    """
    parts: list[bytes] = []
    for payload in payloads:
        parts += (_EVENT.pack(0, len(payload)), payload)
    return b"".join(parts)


def event_size(events: Part, at: int) -> int:
    """Return how many bytes the Pravega event at *at* takes, its head included."""
    return EVENT_HEAD + int(_EVENT.unpack_from(events, at)[1])


def payloads_of(events: bytes) -> list[bytes]:
    """Return the payloads of Pravega events that stand back to back and are whole."""
    payloads, at = [], 0
    while at < len(events):
        end = at + event_size(events, at)
        payloads.append(events[at + EVENT_HEAD : end])
        at = end
    return payloads


def event_length(head: bytes) -> int:
    """Return the payload length that the 8 bytes *head* announce.

    Raises ValueError where they are no event's.
    """
    kind, length = _EVENT.unpack(head)
    if kind != 0 or length < 0:
        raise ValueError(f"no event: type {kind}, length {length}")
    return int(length)
