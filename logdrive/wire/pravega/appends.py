"""Messages of the append path (docs/protocols/pravega.md#messages)."""

from typing import Final

from logdrive.wire.pravega.fields import I32, I64, Block, Bytes, Event, Rest, TailI64, Text, Uuid
from logdrive.wire.pravega.layout import Message, message

PARTIAL_EVENT: Final = -2
"""Type of the sub-frame that ends an overflowing block: the first bytes of its last event."""
PADDING: Final = -1
"""Type of the sub-frame that ends a block early; the same as message `Padding`."""


@message(1)
class SetupAppend(Message):
    """Asks for a writer's last event number, and lets it append on this connection."""

    request_id: I64
    writer: Uuid
    segment: Text
    token: Text = ""


@message(2)
class AppendSetup(Message):
    """Everything up to *last_event_number* is durable; the least i64 stands for a writer never
    seen.
    """

    request_id: I64
    segment: Text
    writer: Uuid
    last_event_number: I64


@message(3)
class AppendBlock(Message):
    """The first part of an append, which an AppendBlockEnd completes."""

    writer: Uuid
    data: Rest


@message(4)
class AppendBlockEnd(Message):
    """An append, or the end of one that an AppendBlock began."""

    writer: Uuid
    size_of_whole_events: I32
    data: Block
    num_events: I32
    last_event_number: I64
    request_id: TailI64 = -1


@message(5)
class ConditionalAppend(Message):
    """One event, to be appended only where the segment is *expected_offset* bytes long."""

    writer: Uuid
    event_number: I64
    expected_offset: I64
    event: Event
    request_id: TailI64 = -1


@message(89)
class ConditionalBlockEnd(Message):
    """Bytes as they are, to be appended only where the segment is *expected_offset* bytes long."""

    writer: Uuid
    event_number: I64
    expected_offset: I64
    data: Bytes
    request_id: I64


@message(7)
class DataAppended(Message):
    """Everything up to *event_number* is durable; *previous_event_number* is what the last such
    message said.
    """

    writer: Uuid
    event_number: I64
    previous_event_number: TailI64 = -1
    request_id: TailI64 = -1
    current_segment_write_offset: TailI64 = -1


@message(8)
class ConditionalCheckFailed(Message):
    """The segment was not as long as a conditional append expected."""

    writer: Uuid
    event_number: I64
    request_id: TailI64 = -1


@message(PADDING)
class Padding(Message):
    """Bytes that mean nothing."""

    data: Rest = b""
