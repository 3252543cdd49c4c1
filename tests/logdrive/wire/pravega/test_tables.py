"""Messages about tables and for administrators, beside what holds for all messages (specification,
sections 1.4 and 9).
"""

import struct

import pytest

from logdrive.errors import ProtocolError
from logdrive.wire.pravega.administration import (
    FlushToStorage,
    ListStorageChunks,
    StorageChunk,
    StorageChunksListed,
    StorageFlushed,
)
from logdrive.wire.pravega.codec import MESSAGE_TYPES, MessageReader, encode
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.tables import (
    ANY_VERSION,
    NOT_THERE,
    CreateTableSegment,
    DeleteTableSegment,
    GetTableSegmentInfo,
    ReadTable,
    ReadTableEntries,
    ReadTableEntriesDelta,
    ReadTableKeys,
    RemoveTableKeys,
    TableEntriesDeltaRead,
    TableEntriesRead,
    TableEntriesUpdated,
    TableEntry,
    TableKey,
    TableKeysRead,
    TableKeysRemoved,
    TableRead,
    TableSegmentInfo,
    UpdateTableEntries,
)

T = "logs/g_kvtable/0.#epoch.0"
_T = "00196c6f67732f675f6b767461626c652f302e2365706f63682e30"
_ONE = "0000000000000001"
_KEY = "0000000f000000036b6579ffffffffffffffff"  # as section 9 has it
_VALUE = "000000070000000376616c"
_FIRST = "8000000000000000"
KEY, ENTRY = TableKey(b"key", NOT_THERE), TableEntry(TableKey(b"key", NOT_THERE), b"val")

PAYLOADS: list[tuple[Message, int, str]] = [
    (GetTableSegmentInfo(1, T), 68, f"{_ONE}{_T}0000"),
    (
        TableSegmentInfo(1, T, 2, 3, 4, 5),
        69,
        f"{_ONE}{_T}00000000000000020000000000000003000000000000000400000005",
    ),
    (CreateTableSegment(1, T, "", False, 16, 0), 70, f"{_ONE}{_T}000000000000100000000000000000"),
    (DeleteTableSegment(1, T, True), 71, f"{_ONE}{_T}010000"),
    (
        UpdateTableEntries(1, T, "", (ENTRY,)),
        74,
        f"{_ONE}{_T}000000000001{_KEY}{_VALUE}ffffffffffffffff",
    ),
    (TableEntriesUpdated(1, (7, 8)), 75, f"{_ONE}0000000200000000000000070000000000000008"),
    (RemoveTableKeys(1, T, "", (KEY,), 9), 76, f"{_ONE}{_T}000000000001{_KEY}0000000000000009"),
    (TableKeysRemoved(1, T), 77, f"{_ONE}{_T}"),
    (
        ReadTable(1, T, "", (TableKey(b"key"),)),
        78,
        f"{_ONE}{_T}0000000000010000000f000000036b6579{_FIRST}",
    ),
    (TableRead(1, T, (ENTRY,)), 79, f"{_ONE}{_T}00000001{_KEY}{_VALUE}"),
    (
        ReadTableKeys(1, T, "", 10, b"to"),
        83,
        f"{_ONE}{_T}00000000000a00000002746f000000000000000000000000",
    ),
    (TableKeysRead(1, T, (KEY,), b"to"), 84, f"{_ONE}{_T}00000001{_KEY}00000002746f"),
    (
        ReadTableEntries(1, T, "", 10, b"", b"", b"a", b"b"),
        85,
        f"{_ONE}{_T}00000000000a000000000000000000000001610000000162",
    ),
    (TableEntriesRead(1, T, (ENTRY,), b"to"), 86, f"{_ONE}{_T}00000001{_KEY}{_VALUE}00000002746f"),
    (ReadTableEntriesDelta(1, T, "", 5, 10), 88, f"{_ONE}{_T}000000000000000000050000000a"),
    (
        TableEntriesDeltaRead(1, T, (ENTRY,), False, True, 33),
        87,
        f"{_ONE}{_T}00000001{_KEY}{_VALUE}00010000000000000021",
    ),
    (FlushToStorage(2, "", 1), -3, f"000000020000{_ONE}"),
    (StorageFlushed(1), -4, _ONE),
    (ListStorageChunks(T, "", 1), -5, f"{_T}0000{_ONE}"),
    (
        StorageChunksListed(1, (StorageChunk(2, 3, 4, "c", True),)),
        -6,
        f"{_ONE}0000000100000000000000020000000000000003000000000000000400016301",
    ),
]


def frame(code: int, payload: bytes) -> bytes:
    return struct.pack("!ii", code, len(payload)) + payload


def decoded(stream: bytes) -> list[Message]:
    return list(MessageReader().receive_data(stream))


@pytest.mark.parametrize(("message", "code", "payload"), PAYLOADS)
def test_known_frames_both_ways(message: Message, code: int, payload: str) -> None:
    assert b"".join(encode(message)).hex() == frame(code, bytes.fromhex(payload)).hex()
    assert decoded(frame(code, bytes.fromhex(payload))) == [message]


def test_the_message_types_are_those_of_wire_version_17() -> None:
    """Section 1.4; a partial event and an event never lead a frame, and retired codes are not used
    again.
    """
    control, failures, appends = (
        [-127, 100],
        [50, 51, 52, 53, 55, 56, 57, 60, 61, 80, 81, 82],
        [1, 2, 3, 4, 5, 7, 8, 89, -1],
    )
    segments = [
        9,
        10,
        41,
        42,
        11,
        12,
        *range(34, 38),
        20,
        21,
        40,
        *range(28, 34),
        38,
        39,
        58,
        59,
        90,
        91,
    ]
    tables, administration = [68, 69, 70, 71, *range(74, 80), *range(83, 89)], [-3, -4, -5, -6]
    own = [30_001, 30_002]  # which no Pravega knows
    assert sorted(MESSAGE_TYPES) == sorted(
        control + failures + appends + segments + tables + administration + own
    )


@pytest.mark.parametrize(
    ("whole", "missing", "expected"),
    [
        (CreateTableSegment(1, T, "", True, 16, 5), 8, CreateTableSegment(1, T, "", True, 16, 0)),
        (CreateTableSegment(1, T, "", True, 16, 5), 12, CreateTableSegment(1, T, "", True, 0, 0)),
        (CreateTableSegment(1, T, "", True, 16, 5), 13, CreateTableSegment(1, T)),
        (UpdateTableEntries(1, T, "", (ENTRY,), 4), 8, UpdateTableEntries(1, T, "", (ENTRY,))),
        (RemoveTableKeys(1, T, "", (KEY,), 4), 8, RemoveTableKeys(1, T, "", (KEY,))),
        (ReadTableKeys(1, T, "", 9, b"to", b"", b"", b"z"), 13, ReadTableKeys(1, T, "", 9, b"to")),
        (
            ReadTableEntries(1, T, "", 9, b"to", b"", b"a", b"z"),
            5,
            ReadTableEntries(1, T, "", 9, b"to", b"", b"a"),
        ),
    ],
)
def test_fields_that_older_peers_leave_out_take_their_defaults(
    whole: Message, missing: int, expected: Message
) -> None:
    payload = b"".join(encode(whole))[8:-missing]
    assert decoded(frame(whole.code, payload)) == [expected]


def test_an_empty_key_travels_without_a_version() -> None:
    sent = RemoveTableKeys(1, T, "", (TableKey(b"", 5), KEY))
    stream = b"".join(encode(sent))
    assert bytes.fromhex(f"000000020000000c00000000{_KEY}") in stream
    assert decoded(stream) == [RemoveTableKeys(1, T, "", (TableKey(b"", ANY_VERSION), KEY))]


@pytest.mark.parametrize(
    ("code", "items", "reason"),
    [
        (76, "00000001" + "00000010" + _KEY[8:], "a key of 3 bytes in 16"),
        (76, "00000001" + "0000000fffffffff", "keys: a field of -1 bytes"),
        (76, "00000001" + "7fffffff7ffffff0", "keys: a field of 2147483632 bytes"),
        (76, "00010001", "a list of 65537 items"),
        (74, "00000001" + _KEY + "00000006" + _VALUE[8:], "a value of 3 bytes in 6"),
        (
            74,
            "00000001" + _KEY + "0000000700000004" + "76616c",
            "entries: value: a field of 4 bytes",
        ),
    ],
)
def test_keys_and_values_that_contradict_their_lengths_are_refused(
    code: int, items: str, reason: str
) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decoded(frame(code, bytes.fromhex(f"{_ONE}{_T}0000{items}")))
