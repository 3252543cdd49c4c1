"""`logdrive.wire.s2.frames`: any split, limits from the head, compression, garbage."""

import gzip
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.s2.compression import Compression
from logdrive.wire.s2.errors import (
    FencingTokenMismatchError,
    RangeNotSatisfiableError,
    S2Error,
    SeqNumMismatchError,
    bad_frame,
    stream_not_found,
    unavailable,
)
from logdrive.wire.s2.frames import S2Frame, S2FrameReader, encode_frame, encode_terminal
from logdrive.wire.s2.limits import FRAME_BYTES, MESSAGE_BYTES
from logdrive.wire.s2.records import StreamPosition
from tests.logdrive.wire.s2.samples import refusal

BAD_FRAME = (400, "bad_frame")

compressions = st.sampled_from(Compression)
messages = st.binary(max_size=60) | st.binary(min_size=1, max_size=60).map(lambda b: b * 100)
sent_frames = st.lists(st.tuples(messages, compressions, st.booleans()), max_size=8)


def frames_of(reader: S2FrameReader, data: bytes) -> list[S2Frame]:
    reader.receive(data)
    frames = []
    while (frame := reader.next_frame()) is not None:
        frames.append(frame)
    return frames


def read_to_end(data: bytes, *, terminals: bool = False) -> list[S2Frame]:
    reader = S2FrameReader(terminals=terminals)
    frames = frames_of(reader, data)
    reader.finish()
    return frames


@given(sent_frames, st.integers(1, 300))
def test_any_split_of_the_stream_gives_the_same_frames(
    sent: list[tuple[bytes, Compression, bool]], step: int
) -> None:
    stream = b"".join(
        encode_frame(message, compression=compression, reconnect_advised=advised)
        for message, compression, advised in sent
    )
    reader = S2FrameReader(terminals=False)
    got = [
        frame
        for at in range(0, len(stream), step)
        for frame in frames_of(reader, stream[at : at + step])
    ]
    reader.finish()
    assert got == [S2Frame(message, advised) for message, _, advised in sent]


@given(st.binary(max_size=200), st.booleans())
def test_garbage_is_refused_as_bad_frame_or_read(data: bytes, terminals: bool) -> None:
    assert refusal(lambda: read_to_end(data, terminals=terminals)) in (None, BAD_FRAME)


@given(messages, compressions, st.data())
def test_a_damaged_frame_is_refused_as_bad_frame_or_read(
    message: bytes, compression: Compression, data: st.DataObject
) -> None:
    frame = bytearray(encode_frame(message, compression=compression))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] ^= data.draw(st.integers(1, 255))
    assert refusal(lambda: read_to_end(bytes(frame), terminals=True)) in (None, BAD_FRAME)


@pytest.mark.parametrize(
    "head",
    [
        b"\0\0\0",  # no flag byte
        (FRAME_BYTES + 1).to_bytes(3),
        b"\xff\xff\xff",
        b"\0\0\x05\x60",  # compression 3
        b"\0\0\x05\x80",  # terminal, from a client
    ],
)
def test_a_hopeless_frame_is_refused_from_its_head(head: bytes) -> None:
    reader = S2FrameReader(terminals=False)
    assert refusal(lambda: frames_of(reader, head)) == BAD_FRAME


def test_a_terminal_frame_without_a_status_is_refused() -> None:
    reader = S2FrameReader(terminals=True)
    assert refusal(lambda: frames_of(reader, b"\0\0\x02\x80")) == BAD_FRAME


def test_the_longest_frame_is_read() -> None:
    message = b"x" * MESSAGE_BYTES
    assert frames_of(S2FrameReader(terminals=False), encode_frame(message)) == [S2Frame(message)]


def test_a_message_that_no_peer_would_take_is_not_encoded() -> None:
    with pytest.raises(ValueError, match="over"):
        encode_frame(b"x" * (MESSAGE_BYTES + 1))


def test_reserved_bits_are_ignored_and_a_terminal_frame_has_no_compression() -> None:
    assert frames_of(S2FrameReader(terminals=False), b"\0\0\x02\x0fx") == [S2Frame(b"x")]
    error = frames_of(S2FrameReader(terminals=True), b"\0\0\x05\xf0\x01\xf4{}")[0].error
    assert error is not None
    assert error.status == 500


@pytest.mark.parametrize("compression", [Compression.ZSTD, Compression.GZIP])
def test_messages_are_compressed_from_1024_bytes_on(compression: Compression) -> None:
    assert encode_frame(b"x" * 1023, compression=compression)[3] == 0
    long = encode_frame(b"x" * 1024, compression=compression)
    assert long[3] == compression << 5
    assert len(long) < 200


def test_a_zstd_frame_without_its_size_is_read() -> None:
    message = b"x" * 5000
    body = zstandard.ZstdCompressor(write_content_size=False).compress(message)
    frame = (len(body) + 1).to_bytes(3) + b"\x20" + body
    assert frames_of(S2FrameReader(terminals=False), frame) == [S2Frame(message)]


def bombs() -> list[bytes]:
    zeros = bytes(200 * FRAME_BYTES)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(zeros)
    return [
        (len(body) + 1).to_bytes(3) + bytes((compression << 5,)) + body
        for body, compression in (
            (gzip.compress(zeros), Compression.GZIP),
            (zstandard.compress(zeros), Compression.ZSTD),
            (unsized, Compression.ZSTD),
        )
    ]


def test_what_decompresses_to_too_much_is_refused_without_taking_the_memory() -> None:
    for bomb in bombs():
        tracemalloc.start()
        try:
            assert refusal(read_to_end, bomb) == BAD_FRAME
            assert tracemalloc.get_traced_memory()[1] < 5 * FRAME_BYTES
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("step", [1, 2, 3, 4, 7, 1000])
def test_a_stream_that_ends_within_a_frame_is_refused(step: int) -> None:
    frame = encode_frame(b"x" * 2000)
    reader = S2FrameReader(terminals=False)
    assert frames_of(reader, frame + frame[:step]) == [S2Frame(b"x" * 2000)]
    assert reader.held == step
    assert refusal(reader.finish) == BAD_FRAME


@pytest.mark.parametrize(
    "error",
    [
        bad_frame("no"),
        stream_not_found("s"),
        unavailable("gone"),
        FencingTokenMismatchError("t"),
        SeqNumMismatchError(2**64 - 1),
        RangeNotSatisfiableError(StreamPosition(3, 4)),
    ],
)
def test_the_error_of_a_terminal_frame_arrives(error: S2Error) -> None:
    got = frames_of(S2FrameReader(terminals=True), encode_terminal(error))[0].error
    assert got is not None
    assert type(got) is type(error)
    assert (got.status, got.code, got.body()) == (error.status, error.code, error.body())
