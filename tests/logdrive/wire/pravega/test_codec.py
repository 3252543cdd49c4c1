"""Frames to messages and back (specification, sections 1 and 9)."""

import contextlib
import struct
import time
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import ProtocolError
from logdrive.wire.pravega.appends import (
    AppendBlock,
    AppendBlockEnd,
    AppendSetup,
    ConditionalAppend,
    ConditionalBlockEnd,
    DataAppended,
    SetupAppend,
)
from logdrive.wire.pravega.codec import MessageReader, encode
from logdrive.wire.pravega.control import Hello, InvalidEventNumber, KeepAlive, NoSuchSegment
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.limits import PRAVEGA_FRAME_BYTES, PRAVEGA_LIST_ITEMS
from logdrive.wire.pravega.segments import ReadSegment, SegmentRead, StreamSegmentInfo
from tests.logdrive.wire.pravega.messages import MESSAGES

W = UUID("00112233-4455-6677-8899-aabbccddeeff")
S = "logs/app/0.#epoch.0"
HI = bytes.fromhex("00000000000000026869")
ABSENT = -(1 << 63)
_S = "00136c6f67732f6170702f302e2365706f63682e30"
_W = "00112233445566778899aabbccddeeff"

VECTORS: list[tuple[Message, str]] = [
    (Hello(17, 5), "ffffff81000000080000001100000005"),
    (KeepAlive(), "0000006400000000"),
    (SetupAppend(1, W, S), f"000000010000002f0000000000000001{_W}{_S}0000"),
    (AppendSetup(1, S, W, ABSENT), f"00000002000000350000000000000001{_S}{_W}8000000000000000"),
    (
        AppendBlockEnd(W, 10, HI, 1, 1, 1),
        "0000000400000036"
        + _W
        + "0000000a0000000a000000000000000268690000000100000000000000010000000000000001",
    ),
    (
        DataAppended(W, 1, ABSENT, 1, 10),
        f"0000000700000030{_W}000000000000000180000000000000000000000000000001000000000000000a",
    ),
    (
        ReadSegment(S, 0, 1024, "", 2),
        f"000000090000002b{_S}00000000000000000000040000000000000000000002",
    ),
    (
        SegmentRead(S, 0, True, False, HI, 2),
        f"0000000a00000035{_S}000000000000000001000000000a000000000000000268690000000000000002",
    ),
    (
        ConditionalAppend(W, 2, 10, b"hi", 3),
        "0000000500000032"
        + _W
        + "0000000000000002000000000000000a000000000000000268690000000000000003",
    ),
    (
        ConditionalBlockEnd(W, 2, 10, HI, 3),
        "0000005900000036"
        + _W
        + "0000000000000002000000000000000a0000000a000000000000000268690000000000000003",
    ),
    (
        AppendBlock(W, HI + bytes.fromhex("fffffffe000000080000000000000006")),
        "000000030000002a" + _W + "00000000000000026869fffffffe000000080000000000000006",
    ),
    (
        AppendBlockEnd(W, 10, b"worlds", 2, 2, 1),
        "0000000400000032"
        + _W
        + "0000000a00000006776f726c64730000000200000000000000020000000000000001",
    ),
    (
        AppendBlock(W, HI + bytes.fromhex("ffffffff000000080000000000000000")),
        "000000030000002a" + _W + "00000000000000026869ffffffff000000080000000000000000",
    ),
    (
        AppendBlockEnd(W, 10, b"", 1, 1, 1),
        f"000000040000002c{_W}0000000a000000000000000100000000000000010000000000000001",
    ),
]


def decoded(stream: bytes) -> list[Message]:
    return list(MessageReader().receive_data(stream))


@pytest.mark.parametrize(("message", "frame"), VECTORS)
def test_known_frames_both_ways(message: Message, frame: str) -> None:
    assert b"".join(encode(message)).hex() == frame
    assert decoded(bytes.fromhex(frame)) == [message]


@given(MESSAGES)
def test_every_message_comes_back_as_it_was(message: Message) -> None:
    assert decoded(b"".join(encode(message))) == [message]


@given(st.lists(MESSAGES, max_size=5), st.integers(1, 60))
@settings(max_examples=50)
def test_any_split_of_the_stream_gives_the_same_messages(sent: list[Message], step: int) -> None:
    stream, reader = b"".join(part for message in sent for part in encode(message)), MessageReader()
    assert [
        message
        for start in range(0, len(stream), step)
        for message in reader.receive_data(stream[start : start + step])
    ] == sent
    assert reader.buffered_bytes == 0


@given(MESSAGES, st.binary(max_size=16))
def test_surplus_bytes_are_ignored(message: Message, surplus: bytes) -> None:
    stream = b"".join(encode(message))
    code, size = struct.unpack_from("!ii", stream)
    longer = struct.pack("!ii", code, size + len(surplus)) + stream[8:] + surplus
    got = decoded(longer)
    assert [type(found) for found in got] == [type(message)]
    if type(message).__name__ not in ("AppendBlock", "Padding"):  # their data ends with the frame
        assert got == [message]


@pytest.mark.parametrize(
    ("whole", "missing", "expected"),
    [
        (
            StreamSegmentInfo(1, S, True, False, False, 7, 10, 3),
            8,
            StreamSegmentInfo(1, S, True, False, False, 7, 10, 0),
        ),
        (DataAppended(W, 4, 3, 2, 99), 8, DataAppended(W, 4, 3, 2, -1)),
        (DataAppended(W, 4, 3, 2, 99), 24, DataAppended(W, 4, -1, -1, -1)),
        (NoSuchSegment(1, S, "", 5), 10, NoSuchSegment(1, S, "", -1)),
        (AppendBlockEnd(W, 10, HI, 1, 1, 1), 8, AppendBlockEnd(W, 10, HI, 1, 1, -1)),
    ],
)
def test_missing_tails_take_their_defaults(whole: Message, missing: int, expected: Message) -> None:
    stream = b"".join(encode(whole))
    code, size = struct.unpack_from("!ii", stream)
    assert decoded(struct.pack("!ii", code, size - missing) + stream[8:-missing]) == [expected]


@given(MESSAGES, st.data())
def test_a_payload_that_ends_inside_a_field_is_refused_or_only_lacks_its_tail(
    message: Message, data: st.DataObject
) -> None:
    stream = b"".join(encode(message))
    code, size = struct.unpack_from("!ii", stream)
    kept = data.draw(st.integers(0, size))
    with contextlib.suppress(ProtocolError):
        assert [
            type(found) for found in decoded(struct.pack("!ii", code, kept) + stream[8 : 8 + kept])
        ] == [type(message)]


def test_invalid_event_number_is_laid_out_for_the_peer() -> None:
    message = InvalidEventNumber(W, 9, "t", 4)
    new, old = b"".join(encode(message, 16)), b"".join(encode(message, 15))
    assert new[8:].hex() == f"{_W}00000000000000090001740000000000000004"
    assert old[8:].hex() == f"{_W}0000000000000004000174"
    assert list(MessageReader().receive_data(b"".join(encode(Hello(15, 5))) + old))[
        1
    ] == InvalidEventNumber(W, -1, "t", 4)
    assert list(MessageReader().receive_data(b"".join(encode(Hello(17, 5))) + new))[1] == message


@given(st.binary(max_size=300), st.booleans())
@settings(max_examples=200)
def test_garbage_raises_only_protocol_errors(data: bytes, plausible: bool) -> None:
    start = struct.pack("!ii", data[0] if data else 1, len(data)) if plausible else b""
    with contextlib.suppress(ProtocolError):
        decoded(start + data)


@pytest.mark.parametrize("size", [-1, PRAVEGA_FRAME_BYTES - 7, (1 << 31) - 1])
def test_a_frame_too_long_is_refused_from_its_header(size: int) -> None:
    with pytest.raises(ProtocolError, match="a frame holds 16777207"):
        decoded(struct.pack("!ii", 4, size))


def test_the_longest_frame_is_taken() -> None:
    longest = AppendBlock(W, bytes(PRAVEGA_FRAME_BYTES - 24))
    assert decoded(b"".join(encode(longest))) == [longest]
    with pytest.raises(ValueError, match="a frame holds"):
        encode(AppendBlock(W, bytes(PRAVEGA_FRAME_BYTES - 23)))


@pytest.mark.parametrize("code", [0, -2, 13, 22, 54, 72, 73, 1 << 30])
def test_codes_that_never_lead_a_frame_are_refused_from_the_header(code: int) -> None:
    with pytest.raises(ProtocolError, match=f"unknown message code {code} at stream offset 16"):
        decoded(b"".join(encode(Hello())) + struct.pack("!ii", code, 100))


def test_a_list_too_long_is_refused_before_it_is_read() -> None:
    payload = struct.pack("!qHi", 1, 0, PRAVEGA_LIST_ITEMS + 1) + bytes(200_000)
    with pytest.raises(ProtocolError, match="a list of 65537 items"):
        decoded(struct.pack("!ii", 90, len(payload)) + payload)


def test_a_byte_at_a_time_is_linear() -> None:
    def seconds(size: int) -> float:
        stream, reader = b"".join(encode(AppendBlock(W, bytes(size)))), MessageReader()
        start = time.process_time()
        for place in range(len(stream)):
            for _ in reader.receive_data(stream[place : place + 1]):
                pass
        return time.process_time() - start

    small, large = min(seconds(20_000) for _ in range(3)), min(seconds(200_000) for _ in range(3))
    assert large < 30 * small  # ten times the bytes; squared it would be a hundred


def test_long_data_is_not_copied_on_its_way_out() -> None:
    data = bytes(1 << 20)
    assert any(part is data for part in encode(SegmentRead(S, 0, True, False, data, 2)))


def test_data_is_not_copied_if_it_is_most_of_a_message_and_is_copied_otherwise() -> None:
    stream = b"".join(encode(AppendBlockEnd(W, 0, bytes(200_000), 1, 1, 2)))
    [message] = MessageReader().receive_data(stream)
    assert isinstance(message, AppendBlockEnd)
    assert isinstance(message.data, memoryview)
    assert message.data.obj is stream
    for message in MessageReader().receive_data(
        b"".join(encode(AppendBlockEnd(W, 0, bytes(90_000), 1, 1, 2))) * 3
    ):
        assert isinstance(message, AppendBlockEnd)
        assert isinstance(message.data, bytes)


def test_a_segment_read_may_be_sent_in_parts_and_arrives_whole() -> None:
    parts = (bytes(300_000), memoryview(b"between"), b"", b"x" * 200_000)
    sent = encode(SegmentRead(S, 0, True, False, parts, 2))
    assert any(part is parts[0] for part in sent)
    [message] = MessageReader().receive_data(b"".join(sent))
    assert message == SegmentRead(S, 0, True, False, b"".join(parts), 2)
    assert isinstance(message, SegmentRead)
    assert message.whole == b"".join(parts)
