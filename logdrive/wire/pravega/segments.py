"""Messages that read segments, describe, create, change and delete them
(docs/protocols/pravega.md#messages).
"""

from dataclasses import dataclass
from typing import Annotated, Final

from logdrive.model.framing import Part
from logdrive.wire.pravega.fields import (
    I8,
    I32,
    I64,
    BlockParts,
    Bool,
    TailI64,
    Text,
    Texts,
    Uuid,
    many,
)
from logdrive.wire.pravega.layout import Message, message, record_kind

NO_SCALING, BY_KILOBYTES, BY_EVENTS = 0, 1, 2
"""Values of `scale_type`."""
SET_IF_ABSENT, REPLACE, REPLACE_IF_GREATER, ACCUMULATE, REPLACE_IF_EQUALS = range(5)
"""Values of `AttributeUpdate.update_type`."""
NO_VALUE: Final = -(1 << 63)
"""The value of an attribute that is not set."""


@message(9)
class ReadSegment(Message):
    """Requests bytes from *offset*; at the end of an open segment the answer waits for some."""

    segment: Text
    offset: I64
    suggested_length: I32
    token: Text = ""
    request_id: TailI64 = -1


@message(10)
class SegmentRead(Message):
    """Answers ReadSegment with bytes from *offset*, at most as many as requested."""

    segment: Text
    offset: I64
    at_tail: Bool
    end_of_segment: Bool
    data: BlockParts
    request_id: TailI64 = -1

    @property
    def whole(self) -> Part:
        """The bytes in one part; free of cost in a received message."""
        return b"".join(self.data) if isinstance(self.data, tuple) else self.data


@message(41)
class LocateOffset(Message):
    """Requests an event boundary at or shortly after *target_offset*."""

    request_id: I64
    segment: Text
    target_offset: I64
    token: Text = ""


@message(42)
class OffsetLocated(Message):
    """Answers LocateOffset."""

    request_id: I64
    segment: Text
    offset: I64


@message(11)
class GetStreamSegmentInfo(Message):
    """Requests the state of a segment."""

    request_id: I64
    segment: Text
    token: Text = ""


@message(12)
class StreamSegmentInfo(Message):
    """Answers GetStreamSegmentInfo: *write_offset* is the length, *last_modified* ms since 1970."""

    request_id: I64
    segment: Text
    exists: Bool
    is_sealed: Bool
    is_deleted: Bool
    last_modified: I64
    write_offset: I64
    start_offset: TailI64 = 0


@message(34)
class GetSegmentAttribute(Message):
    """Requests one attribute of a segment."""

    request_id: I64
    segment: Text
    attribute: Uuid
    token: Text = ""


@message(35)
class SegmentAttribute(Message):
    """Answers GetSegmentAttribute; the value is NO_VALUE if the attribute is not set."""

    request_id: I64
    value: I64


@message(36)
class UpdateSegmentAttribute(Message):
    """Sets an attribute if it is *expected_value* now; NO_VALUE: if it is not there."""

    request_id: I64
    segment: Text
    attribute: Uuid
    new_value: I64
    expected_value: I64
    token: Text = ""


@message(37)
class SegmentAttributeUpdated(Message):
    """Answers UpdateSegmentAttribute, and a merge whose conditions failed."""

    request_id: I64
    success: Bool


@message(20)
class CreateSegment(Message):
    """Creates a segment; the rate comes before the kind of scaling."""

    request_id: I64
    segment: Text
    target_rate: I32 = 0
    scale_type: I8 = NO_SCALING
    token: Text = ""
    rollover_size: TailI64 = 0


@message(21)
class SegmentCreated(Message):
    """Answers the messages that create segments, with the name."""

    request_id: I64
    segment: Text


@message(40)
class CreateTransientSegment(Message):
    """Creates a segment for one large event, to be merged into *parent*."""

    request_id: I64
    writer: Uuid
    parent: Text
    token: Text = ""


@message(28)
class SealSegment(Message):
    """Seals a segment: nothing can be appended to it any more."""

    request_id: I64
    segment: Text
    token: Text = ""


@message(29)
class SegmentSealed(Message):
    """Answers SealSegment."""

    request_id: I64
    segment: Text


@message(30)
class DeleteSegment(Message):
    """Deletes a segment."""

    request_id: I64
    segment: Text
    token: Text = ""


@message(31)
class SegmentDeleted(Message):
    """Answers DeleteSegment."""

    request_id: I64
    segment: Text


@message(32)
class UpdateSegmentPolicy(Message):
    """Changes the scaling policy of a segment."""

    request_id: I64
    segment: Text
    target_rate: I32
    scale_type: I8
    token: Text = ""


@message(33)
class SegmentPolicyUpdated(Message):
    """Answers UpdateSegmentPolicy."""

    request_id: I64
    segment: Text


@message(38)
class TruncateSegment(Message):
    """Removes all bytes before *truncation_offset*; offsets of the others stay the same."""

    request_id: I64
    segment: Text
    truncation_offset: I64
    token: Text = ""


@message(39)
class SegmentTruncated(Message):
    """Answers TruncateSegment."""

    request_id: I64
    segment: Text


@dataclass(frozen=True, slots=True)
class AttributeUpdate:
    """One change of an attribute, or condition on it, in a merge."""

    attribute: Uuid  # its id, see `attributes`
    update_type: I8  # how *new_value* is applied
    new_value: I64
    old_value: I64  # what it must be now, with REPLACE_IF_EQUALS


_TailUpdates = Annotated[tuple[AttributeUpdate, ...], many(record_kind(AttributeUpdate)).as_tail()]


@message(58)
class MergeSegments(Message):
    """Appends *source* to *target* and removes it."""

    request_id: I64
    target: Text
    source: Text
    token: Text = ""
    updates: _TailUpdates = ()


@message(59)
class SegmentsMerged(Message):
    """Answers MergeSegments with the target's length."""

    request_id: I64
    target: Text
    source: Text
    new_target_write_offset: TailI64 = -1


@message(90)
class MergeSegmentsBatch(Message):
    """Merges several sources, in order."""

    request_id: I64
    target: Text
    sources: Texts
    token: Text = ""


@dataclass(frozen=True, slots=True)
class MergedSource:
    """One source of a MergeSegmentsBatch and the target's length after it."""

    source: Text  # full name of the segment
    new_target_write_offset: I64  # the target's length in bytes


_Merged = Annotated[tuple[MergedSource, ...], many(record_kind(MergedSource))]


@message(91)
class SegmentsBatchMerged(Message):
    """Answers MergeSegmentsBatch."""

    request_id: I64
    target: Text
    merged: _Merged
