"""`logdrive.wire.iggy.frames`: any split, limits from the head, garbage."""

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.errors import ProtocolError
from logdrive.wire.iggy.frames import (
    ReplyFrames,
    RequestFrame,
    RequestFrames,
    encode_reply_frame,
    encode_reply_head,
    encode_request_frame,
)
from logdrive.wire.iggy.limits import COMMAND_BYTES, FRAME_BYTES
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.wire.iggy.exchanges import exchanges

SEND = 101
GET_STREAM = 200

codes = st.integers(0, 2**32 - 1)
payloads = st.binary(max_size=60) | st.binary(min_size=1, max_size=20).map(lambda b: b * 100)


def requests_of(frames: RequestFrames, data: bytes) -> list[tuple[int, bytes]]:
    frames.receive(data)
    got = []
    while (frame := frames.next_frame()) is not None:
        got.append((frame.code, bytes(frame.payload)))
    return got


def replies_of(frames: ReplyFrames, data: bytes) -> list[tuple[int, bytes]]:
    frames.receive(data)
    got = []
    while (frame := frames.next_frame()) is not None:
        got.append((frame.status, bytes(frame.payload)))
    return got


@given(st.lists(st.tuples(codes, payloads), max_size=8), st.integers(1, 300))
def test_any_split_of_a_clients_stream_gives_the_same_requests(
    sent: list[tuple[int, bytes]], step: int
) -> None:
    stream = b"".join(encode_request_frame(code, payload) for code, payload in sent)
    frames = RequestFrames()
    got = [
        request
        for at in range(0, len(stream), step)
        for request in requests_of(frames, stream[at : at + step])
    ]
    assert got == sent
    assert frames.buffered == 0


@given(st.lists(st.tuples(codes, payloads), max_size=8), st.integers(1, 300))
def test_any_split_of_a_servers_stream_gives_the_same_replies(
    sent: list[tuple[int, bytes]], step: int
) -> None:
    stream = b"".join(encode_reply_frame(status, payload) for status, payload in sent)
    frames = ReplyFrames()
    got = [
        reply
        for at in range(0, len(stream), step)
        for reply in replies_of(frames, stream[at : at + step])
    ]
    assert got == sent


@given(st.binary(max_size=200))
def test_garbage_is_a_protocol_error_or_frames(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        requests_of(RequestFrames(), data)
    with contextlib.suppress(ProtocolError):
        replies_of(ReplyFrames(), data)


def test_frames_have_the_layout_of_the_protocol() -> None:
    assert encode_request_frame(200, b"ab", b"c").hex() == "07000000c8000000616263"
    assert encode_reply_frame(0).hex() == "0000000000000000"
    assert encode_reply_frame(1009).hex() == "f103000000000000"
    assert encode_reply_frame(0, b"ab", memoryview(b"c")) == encode_reply_head(0, 3) + b"abc"


@pytest.mark.parametrize(
    ("code", "limit"), [(SEND, FRAME_BYTES), (GET_STREAM, COMMAND_BYTES), (9999, COMMAND_BYTES)]
)
def test_a_request_over_its_limit_is_refused_from_its_head(code: int, limit: int) -> None:
    def head(size: int) -> bytes:
        return (4 + size).to_bytes(4, "little") + code.to_bytes(4, "little")

    allowed = RequestFrames()
    allowed.receive(head(limit))
    tracemalloc.start()
    try:
        assert allowed.next_frame() is None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert allowed.expected == limit
    with pytest.raises(ProtocolError, match="its payload may have"):
        requests_of(RequestFrames(), head(limit + 1))


def test_a_server_may_allow_less() -> None:
    frame = encode_request_frame(SEND, bytes(100))
    assert requests_of(RequestFrames(send_bytes=100), frame) == [(SEND, bytes(100))]
    with pytest.raises(ProtocolError):
        requests_of(RequestFrames(send_bytes=99), frame)


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_request_too_short_for_its_code_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        requests_of(RequestFrames(), length.to_bytes(4, "little") + bytes(4))


def test_the_error_says_where_in_the_stream_the_frame_began() -> None:
    frames = RequestFrames()
    first = encode_request_frame(1) + encode_request_frame(GET_STREAM, b"abc")
    with pytest.raises(ProtocolError) as caught:
        requests_of(frames, first + bytes(8))
    assert caught.value.offset == len(first)


def test_a_reply_over_its_limit_is_refused_from_its_head() -> None:
    with pytest.raises(ProtocolError, match="a reply of 11 bytes"):
        replies_of(ReplyFrames(limit_bytes=10), encode_reply_head(0, 11))
    assert replies_of(ReplyFrames(limit_bytes=10), encode_reply_head(0, 10)) == []


def test_a_request_is_not_made_longer_than_a_server_takes() -> None:
    with pytest.raises(ValueError, match="over"):
        encode_request_frame(SEND, memoryview(bytearray(FRAME_BYTES + 1)))


def test_a_payload_keeps_its_bytes_when_more_comes() -> None:
    frames = RequestFrames()
    frames.receive(encode_request_frame(GET_STREAM, b"first"))
    first = frames.next_frame()
    frames.receive(encode_request_frame(GET_STREAM, b"second"))
    assert first == RequestFrame(GET_STREAM, memoryview(b"first"))
    assert frames.next_frame() == RequestFrame(GET_STREAM, memoryview(b"second"))


def test_no_classic_request_begins_as_r3s_frames_do() -> None:
    classic = [one for one in exchanges() if one.revision is not Revision.R3]
    assert classic
    for one in classic:
        assert encode_request_frame(one.code, one.request)[:4] != bytes(4)
