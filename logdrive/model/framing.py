"""Events in a segment: an int32 of zero, an int32 length, and the payload, as Pravega's clients
write them.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

EVENT_HEAD_LAYOUT: Final = struct.Struct("!ii")
"""The head of an event: its type, which is 0, and the length of its payload."""
EVENT_HEAD: Final = EVENT_HEAD_LAYOUT.size
"""Bytes of a head."""
Part = bytes | memoryview
"""One of the pieces, written one after the other, that an append is handed over in: a view is of
what will not change.
"""


def event_head(length: int) -> bytes:
    """Return what stands before a payload of *length* bytes in a Pravega event."""
    return EVENT_HEAD_LAYOUT.pack(0, length)


def framed(payload: bytes) -> bytes:
    """Return *payload* as one Pravega event."""
    return event_head(len(payload)) + payload


def framed_all(payloads: Sequence[bytes]) -> bytes:
    """Return *payloads* as Pravega events, back to back; one join, so cheap for a thousand of
    them.
    """
    parts: list[bytes] = []
    for payload in payloads:
        parts += (EVENT_HEAD_LAYOUT.pack(0, len(payload)), payload)
    return b"".join(parts)


def event_size(events: Part, at: int) -> int:
    """Return how many bytes the Pravega event at *at* takes, its head included."""
    return EVENT_HEAD + int(EVENT_HEAD_LAYOUT.unpack_from(events, at)[1])


def split_events(events: bytes, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield the payloads of the Pravega events in *events* from *start* to *end*, in order.

    Raises ValueError if they do not fill the interval exactly.
    """
    at, end = start, len(events) if end is None else end
    while at < end:
        body = at + EVENT_HEAD
        if body > end:
            raise ValueError(f"an event's head is cut off at {at}")
        at = body + event_length(events[at:body])
        if at > end:
            raise ValueError(f"an event is cut off: {at - end} bytes of it are missing")
        yield events[body:at]


def payloads_of(events: bytes) -> list[bytes]:
    """Return the payloads of Pravega events back to back. Raises ValueError as `split_events`."""
    return list(split_events(events))


def event_length(head: bytes) -> int:
    """Return the payload length that the 8 bytes *head* announce.

    Raises ValueError where they are no event's.
    """
    kind, length = EVENT_HEAD_LAYOUT.unpack(head)
    if kind != 0 or length < 0:
        raise ValueError(f"no event: type {kind}, length {length}")
    return int(length)
