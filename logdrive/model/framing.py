"""Pravega events in a segment: an int32 of zero, an int32 length, and the payload."""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

EVENT_HEAD_LAYOUT: Final = struct.Struct("!ii")
"""Layout of an event's head: its type, which is 0, and the length of its payload."""
EVENT_HEAD: Final = EVENT_HEAD_LAYOUT.size
"""Bytes of an event's head."""
Part = bytes | memoryview
"""One of the buffers of an append, which are written one after the other.

A memoryview's bytes must not change.
"""


def event_head(length: int) -> bytes:
    """Return the bytes that precede a payload of *length* bytes."""
    return EVENT_HEAD_LAYOUT.pack(0, length)


def frame_event(payload: bytes) -> bytes:
    """Return *payload* as one Pravega event."""
    return event_head(len(payload)) + payload


def frame_events(payloads: Sequence[bytes]) -> bytes:
    """Return *payloads* as Pravega events back to back; one join, cheap for a thousand of them."""
    parts: list[bytes] = []
    for payload in payloads:
        parts += (EVENT_HEAD_LAYOUT.pack(0, len(payload)), payload)
    return b"".join(parts)


def event_size(events: Part, at: int) -> int:
    """Return the size in bytes of the Pravega event at *at*, its head included."""
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
        # its payload would reach behind the interval
        if at > end:
            raise ValueError(f"an event is cut off: {at - end} bytes of it are missing")
        yield events[body:at]


def unframe_events(events: bytes) -> list[bytes]:
    """Return the payloads of *events*, whole Pravega events back to back.

    Raises ValueError as `split_events` does.
    """
    return list(split_events(events))


def event_length(head: bytes) -> int:
    """Return the payload length that an event's *head*, 8 bytes, announces.

    Raises ValueError if it is not the head of an event.
    """
    kind, length = EVENT_HEAD_LAYOUT.unpack(head)
    if kind != 0 or length < 0:
        raise ValueError(f"not an event: type {kind}, length {length}")
    return int(length)
