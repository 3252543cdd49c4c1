"""Known bytes of the messages about segments, and of refusals (specification, section 1.4)."""

import struct
from uuid import UUID

import pytest

from logdrive.wire.pravega.appends import ConditionalCheckFailed, Padding
from logdrive.wire.pravega.codec import MessageReader, encode
from logdrive.wire.pravega.control import (
    AuthTokenCheckFailed,
    ErrorMessage,
    NoSuchSegment,
    OperationUnsupported,
    SegmentAlreadyExists,
    SegmentIsSealed,
    SegmentIsTruncated,
    TableKeyBadVersion,
    TableKeyDoesNotExist,
    TableSegmentNotEmpty,
    WrongHost,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import (
    ACCUMULATE,
    BY_EVENTS,
    NO_VALUE,
    AttributeUpdate,
    CreateSegment,
    CreateTransientSegment,
    DeleteSegment,
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    LocateOffset,
    MergedSource,
    MergeSegments,
    MergeSegmentsBatch,
    OffsetLocated,
    SealSegment,
    SegmentAttribute,
    SegmentAttributeUpdated,
    SegmentCreated,
    SegmentDeleted,
    SegmentPolicyUpdated,
    SegmentsBatchMerged,
    SegmentSealed,
    SegmentsMerged,
    SegmentTruncated,
    StreamSegmentInfo,
    TruncateSegment,
    UpdateSegmentAttribute,
    UpdateSegmentPolicy,
)

W = UUID("00112233-4455-6677-8899-aabbccddeeff")
_W = "00112233445566778899aabbccddeeff"
_S, _T = "000173", "000174"  # the segments "s" and "t"
_1 = "0000000000000001"
_5 = "0000000000000005"
_NONE = "ffffffffffffffff"
_TOKEN = "0000"

PAYLOADS: list[tuple[Message, int, str]] = [
    (Padding(b"\0\0"), -1, "0000"),
    (ConditionalCheckFailed(W, 5, 1), 8, f"{_W}{_5}{_1}"),
    (GetStreamSegmentInfo(1, "s"), 11, f"{_1}{_S}{_TOKEN}"),
    (StreamSegmentInfo(1, "s", True, False, True, 5, 1, 5), 12, f"{_1}{_S}010001{_5}{_1}{_5}"),
    (CreateSegment(1, "s", 3, BY_EVENTS, "", 5), 20, f"{_1}{_S}0000000302{_TOKEN}{_5}"),
    (SegmentCreated(1, "s"), 21, f"{_1}{_S}"),
    (SealSegment(1, "s"), 28, f"{_1}{_S}{_TOKEN}"),
    (SegmentSealed(1, "s"), 29, f"{_1}{_S}"),
    (DeleteSegment(1, "s"), 30, f"{_1}{_S}{_TOKEN}"),
    (SegmentDeleted(1, "s"), 31, f"{_1}{_S}"),
    (UpdateSegmentPolicy(1, "s", 3, BY_EVENTS), 32, f"{_1}{_S}0000000302{_TOKEN}"),
    (SegmentPolicyUpdated(1, "s"), 33, f"{_1}{_S}"),
    (GetSegmentAttribute(1, "s", W), 34, f"{_1}{_S}{_W}{_TOKEN}"),
    (SegmentAttribute(1, NO_VALUE), 35, f"{_1}8000000000000000"),
    (UpdateSegmentAttribute(1, "s", W, 5, -1), 36, f"{_1}{_S}{_W}{_5}{_NONE}{_TOKEN}"),
    (SegmentAttributeUpdated(1, True), 37, f"{_1}01"),
    (TruncateSegment(1, "s", 5), 38, f"{_1}{_S}{_5}{_TOKEN}"),
    (SegmentTruncated(1, "s"), 39, f"{_1}{_S}"),
    (CreateTransientSegment(1, W, "s"), 40, f"{_1}{_W}{_S}{_TOKEN}"),
    (LocateOffset(1, "s", 5), 41, f"{_1}{_S}{_5}{_TOKEN}"),
    (OffsetLocated(1, "s", 5), 42, f"{_1}{_S}{_5}"),
    (WrongHost(1, "s", "t"), 50, f"{_1}{_S}{_T}0000"),
    (SegmentIsSealed(1, "s", "", 5), 51, f"{_1}{_S}0000{_5}"),
    (SegmentAlreadyExists(1, "s"), 52, f"{_1}{_S}0000"),
    (NoSuchSegment(1, "s"), 53, f"{_1}{_S}0000{_NONE}"),
    (SegmentIsTruncated(1, "s", 5, "", 1), 56, f"{_1}{_S}{_5}0000{_1}"),
    (OperationUnsupported(1, "t"), 57, f"{_1}{_T}0000"),
    (MergeSegments(1, "t", "s"), 58, f"{_1}{_T}{_S}{_TOKEN}00000000"),
    (
        MergeSegments(1, "t", "s", "", (AttributeUpdate(W, ACCUMULATE, 5, -1),)),
        58,
        f"{_1}{_T}{_S}{_TOKEN}00000001{_W}03{_5}{_NONE}",
    ),
    (SegmentsMerged(1, "t", "s", 5), 59, f"{_1}{_T}{_S}{_5}"),
    (AuthTokenCheckFailed(1, "", 1), 60, f"{_1}000000000001"),
    (ErrorMessage(1, "s", "t", -1), 61, f"{_1}{_S}{_T}ffffffff"),
    (TableSegmentNotEmpty(1, "s"), 80, f"{_1}{_S}0000"),
    (TableKeyDoesNotExist(1, "s"), 81, f"{_1}{_S}0000"),
    (TableKeyBadVersion(1, "s"), 82, f"{_1}{_S}0000"),
    (MergeSegmentsBatch(1, "t", ("s", "t")), 90, f"{_1}{_T}00000002{_S}{_T}{_TOKEN}"),
    (SegmentsBatchMerged(1, "t", (MergedSource("s", 5),)), 91, f"{_1}{_T}00000001{_S}{_5}"),
]


@pytest.mark.parametrize(("message", "code", "payload"), PAYLOADS)
def test_known_frames_both_ways(message: Message, code: int, payload: str) -> None:
    frame = struct.pack("!ii", code, len(payload) // 2) + bytes.fromhex(payload)
    assert b"".join(encode(message)).hex() == frame.hex()
    assert list(MessageReader().receive_data(frame)) == [message]


@pytest.mark.parametrize(
    ("message", "missing"),
    [
        (CreateSegment(1, "s", 3, BY_EVENTS), 8),
        (MergeSegments(1, "t", "s"), 4),
        (SegmentsMerged(1, "t", "s"), 8),
        (StreamSegmentInfo(1, "s", True, False, True, 5, 1), 8),
        (SegmentIsSealed(1, "s"), 10),
        (SegmentAlreadyExists(1, "s"), 2),
        (SegmentIsTruncated(1, "s", 5), 10),
        (OperationUnsupported(1, "t"), 2),
        (AuthTokenCheckFailed(1), 6),
        (WrongHost(1, "s"), 2),
        (ConditionalCheckFailed(W, 5), 8),
    ],
)
def test_fields_that_older_peers_leave_out_take_their_defaults(
    message: Message, missing: int
) -> None:
    payload = b"".join(encode(message))[8:-missing]
    assert list(
        MessageReader().receive_data(struct.pack("!ii", message.code, len(payload)) + payload)
    ) == [message]
