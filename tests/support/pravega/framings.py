"""The ways in which Pravega clients frame one append (specification, section 2.5)."""

import struct
from collections.abc import Sequence
from uuid import UUID

from logdrive.model.framing import frame_event, frame_events
from logdrive.wire.pravega.appends import PADDING, PARTIAL_EVENT, AppendBlock, AppendBlockEnd

W = UUID("00112233-4455-6677-8899-aabbccddeeff")


def alone(
    events: Sequence[bytes], number: int, request: int, writer: UUID = W
) -> list[AppendBlock | AppendBlockEnd]:
    """Framing A: one AppendBlockEnd; its size of whole events is not looked at."""
    return [AppendBlockEnd(writer, 3, frame_events(events), len(events), number, request)]


def whole_block(
    events: Sequence[bytes], number: int, request: int, writer: UUID = W
) -> list[AppendBlock | AppendBlockEnd]:
    """Framing B: a block filled exactly."""
    data = frame_events(events)
    return [
        AppendBlock(writer, data),
        AppendBlockEnd(writer, len(data), b"", len(events), number, request),
    ]


def padded(
    events: Sequence[bytes], spare: int, number: int, request: int, writer: UUID = W
) -> list[AppendBlock | AppendBlockEnd]:
    """Framing C, given up early: *spare* bytes of the block's capacity are padding."""
    data = frame_events(events)
    block = data + struct.pack("!ii", PADDING, spare) + bytes(spare)
    return [
        AppendBlock(writer, block),
        AppendBlockEnd(writer, len(data), b"", len(events), number, request),
    ]


def overflowing(
    events: Sequence[bytes], cut: int, number: int, request: int, writer: UUID = W
) -> list[AppendBlock | AppendBlockEnd]:
    """Return framing C, overflowing: *cut* bytes of the last event in the block."""
    whole, last = frame_events(events[:-1]), frame_event(events[-1])
    block = whole + struct.pack("!ii", PARTIAL_EVENT, cut) + last[:cut]
    return [
        AppendBlock(writer, block),
        AppendBlockEnd(writer, len(whole), last[cut:], len(events), number, request),
    ]
