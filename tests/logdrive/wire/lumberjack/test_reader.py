"""Streams cut into frames: any split, any dialect, garbage, and costs that stay linear."""

import random
import sys
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import ProtocolError
from logdrive.model.units import KIB, MIB
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    JsonFrame,
    JsonRun,
    KeyValueFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
    json_frames,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameDialect, FrameReader, Side
from tests.logdrive.wire.lumberjack.streams import (
    ORIGIN,
    consecutive,
    encoded,
    events,
    feed_in_steps,
    logdrive_streams,
    plain_streams,
    reader,
    reply_streams,
)

SOURCE = SourceFrame(0, ORIGIN, b"{}")
RUN = RunFrame(0, 0, 0, 1 << 16, 0, 0, 1, 1)


@settings(max_examples=150)
@given(plain_streams(), st.integers(1, 50))
def test_any_split_of_a_plain_stream_gives_the_same_frames(
    sent: tuple[bytes, list[Any]], step: int
) -> None:
    stream, expected = sent
    frames = reader()
    assert events(feed_in_steps(frames, stream, step)) == expected
    assert frames.offset == len(stream)


@settings(max_examples=150)
@given(logdrive_streams(), st.integers(1, 80), st.sampled_from(["logdrive/1", "detect"]))
def test_any_split_of_a_logdrive_stream_gives_the_same_frames(
    sent: tuple[bytes, list[Any]], step: int, dialect: FrameDialect
) -> None:
    stream, expected = sent
    frames = reader(dialect)
    assert events(feed_in_steps(frames, stream, step)) == expected
    assert (frames.dialect, frames.version, frames.offset) == ("logdrive/1", b"2", len(stream))


@given(reply_streams(), st.integers(1, 40))
def test_any_split_of_replies_gives_the_same_frames(
    sent: tuple[bytes, list[Any]], step: int
) -> None:
    stream, expected = sent
    assert feed_in_steps(reader("logdrive/1", "writer"), stream, step) == expected


@given(plain_streams())
def test_reading_in_steps_gives_the_same_frames_as_reading_at_once(
    sent: tuple[bytes, list[Any]],
) -> None:
    stream, expected = sent
    assert [
        frame for step in reader().receive_in_steps(stream) for frame in step
    ] == reader().receive_data(stream)
    assert events(reader().receive_data(stream)) == expected


def test_frames_before_an_envelope_are_returned_before_it_is_opened() -> None:
    content = [EnvelopeFrame(pack(JsonFrame(n, b"{}").encode())).encode() for n in (2, 5)]
    stream = (
        JsonFrame(1, b"{}").encode()
        + content[0]
        + JsonFrame(3, b"{}").encode()
        + content[1]
        + JsonFrame(8, b"{}").encode()
    )
    steps = [[e.sequence for e in events(step)] for step in reader().receive_in_steps(stream)]
    assert [step for step in steps if step] == [[1], [2], [3], [5], [8]]


kinds_and_readers = st.sampled_from(
    [
        ("lumberjack", "reader"),
        ("logdrive/1", "reader"),
        ("detect", "reader"),
        ("lumberjack", "writer"),
        ("logdrive/1", "writer"),
    ]
)


def offset_of_error(frames: FrameReader, stream: bytes, step: int) -> int:
    """Return the offset at which *stream* is refused, or its end; other errors fail the test."""
    try:
        feed_in_steps(frames, stream, step)
    except ProtocolError as error:
        return error.offset
    return frames.offset


@settings(max_examples=300)
@given(kinds_and_readers, st.binary(max_size=200), st.integers(1, 50))
def test_garbage_raises_only_protocol_errors(
    kind: tuple[FrameDialect, Side], garbage: bytes, step: int
) -> None:
    assert 0 <= offset_of_error(reader(*kind), garbage, step) <= len(garbage)


@settings(max_examples=300)
@given(st.sampled_from(["lumberjack", "logdrive/1", "detect"]), st.data(), st.integers(1, 200))
def test_a_damaged_stream_raises_only_protocol_errors(
    dialect: FrameDialect, data: st.DataObject, step: int
) -> None:
    stream = bytearray(
        data.draw(plain_streams() if dialect == "lumberjack" else logdrive_streams())[0]
    )
    for _ in range(data.draw(st.integers(1, 3)) if stream else 0):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    assert 0 <= offset_of_error(reader(dialect), bytes(stream), step) <= len(stream)


@settings(max_examples=200)
@given(st.sampled_from([b"2C", b"1C"]), st.binary(max_size=60), st.booleans())
def test_garbage_in_an_envelope_raises_only_protocol_errors(
    head: bytes, garbage: bytes, packed: bool
) -> None:
    payload = zlib.compress(garbage) if packed else garbage
    stream = head + len(payload).to_bytes(4, "big") + payload
    for dialect in ("lumberjack", "logdrive/1"):
        assert offset_of_error(reader(dialect), stream, len(stream)) in (0, len(stream))


@pytest.mark.parametrize(
    ("dialect", "side", "head"),
    [
        ("lumberjack", "reader", b"3W"),
        ("lumberjack", "reader", b"GE"),
        ("lumberjack", "reader", b"\x16\x03"),
        ("lumberjack", "reader", b"2A"),
        ("lumberjack", "reader", b"2S"),
        ("lumberjack", "reader", b"2B"),
        ("lumberjack", "reader", b"2P"),
        ("detect", "reader", b"1S"),
        ("detect", "reader", b"2B"),
        ("logdrive/1", "reader", b"1W"),
        ("logdrive/1", "reader", b"2D"),
        ("logdrive/1", "reader", b"2A"),
        ("lumberjack", "writer", b"2W"),
        ("lumberjack", "writer", b"2P"),
        ("logdrive/1", "writer", b"1A"),
        ("logdrive/1", "writer", b"2S"),
        ("logdrive/1", "writer", b"2C"),
    ],
)
def test_a_frame_that_is_not_the_peers_to_send_is_refused_from_its_two_bytes(
    dialect: FrameDialect, side: Side, head: bytes
) -> None:
    with pytest.raises(ProtocolError, match="can't stand here"):
        reader(dialect, side).receive_data(head)


def test_a_writer_has_no_dialect_to_find_out() -> None:
    with pytest.raises(ValueError, match="knows its dialect"):
        FrameReader(PLAIN_LUMBERJACK, side="writer", dialect="detect")


@pytest.mark.parametrize(
    "first", [WindowFrame(1), KeyValueFrame(0, ()), JsonFrame(1, b"{}"), EnvelopeFrame(b"")]
)
@pytest.mark.parametrize("version", [b"1", b"2"])
def test_a_plain_first_frame_makes_the_connection_plain_for_good(
    first: WindowFrame | KeyValueFrame | JsonFrame | EnvelopeFrame, version: bytes
) -> None:
    frames = reader("detect")
    frames.receive_data(first.encode(version))
    assert (frames.dialect, frames.version) == ("lumberjack", version)
    with pytest.raises(ProtocolError):
        frames.receive_data(SOURCE.encode())


def test_a_source_as_the_first_frame_makes_the_connection_logdrives_with_its_limits() -> None:
    frames = reader("detect")
    dialects: list[FrameDialect] = [frames.dialect]
    assert frames.receive_data(SOURCE.encode()) == [SOURCE]
    assert [*dialects, frames.dialect] == ["detect", "logdrive/1"]
    with pytest.raises(ProtocolError) as refused:
        frames.receive_data(WindowFrame(LOGDRIVE_1.window + 1).encode())
    assert refused.value.code == 2


def test_versions_may_be_mixed_and_the_first_is_the_connections() -> None:
    frames = reader()
    mixed = (
        WindowFrame(3).encode(b"1")
        + JsonFrame(1, b"{}").encode(b"1")
        + JsonFrame(2, b"{}").encode(b"2")
        + KeyValueFrame(3, ()).encode(b"2")
    )
    assert events(frames.receive_data(mixed)) == [
        WindowFrame(3),
        JsonFrame(1, b"{}"),
        JsonFrame(2, b"{}"),
        KeyValueFrame(3, ()),
    ]
    assert frames.version == b"1"


def test_frames_that_run_on_come_as_one_object() -> None:
    (run,) = reader().receive_data(b"".join(json_frames(1, [b"{}"] * 500)))
    assert isinstance(run, JsonRun)
    assert (run.first, run.last) == (1, 500)


def test_numbers_that_do_not_run_on_begin_another_run() -> None:
    stream = encoded(
        [
            *consecutive(0, [b"a", b"b"]),
            *consecutive(0, [b"c"]),
            *consecutive(0, [b"d"]),
            *consecutive(7, [b"e", b"f"]),
        ]
    )
    assert [
        (run.first, run.last) for run in reader().receive_data(stream) if isinstance(run, JsonRun)
    ] == [
        (0, 1),
        (0, 0),
        (0, 0),
        (7, 8),
    ]


def test_frames_of_another_kind_end_a_run_whatever_their_numbers() -> None:
    mixed: list[JsonFrame | KeyValueFrame] = [
        JsonFrame(1, b"{}"),
        KeyValueFrame(2, (("k", "v"),)),
        JsonFrame(3, b"{}"),
    ]
    assert events(reader().receive_data(encoded(mixed, b"1"))) == mixed
    versions = JsonFrame(1, b"{}").encode(b"1") + JsonFrame(2, b"{}").encode(b"2")
    assert [
        (run.first, run.last) for run in reader().receive_data(versions) if isinstance(run, JsonRun)
    ] == [(1, 1), (2, 2)]


def test_a_frame_names_the_envelope_that_held_it() -> None:
    content = encoded([RUN, JsonFrame(1, b"{}")])
    stream = (
        SOURCE.encode()
        + WindowFrame(3).encode()
        + EnvelopeFrame(pack(content)).encode() * 2
        + content
    )
    runs = [
        frame
        for frame in reader("detect").receive_data(stream)
        if isinstance(frame, RunFrame | JsonRun)
    ]
    assert [frame.envelope for frame in runs] == [1, 1, 2, 2, 0, 0]


def test_an_error_names_the_offset_of_its_frame_and_frames_before_it_come_first() -> None:
    good = WindowFrame(1).encode() + JsonFrame(1, b"{}").encode()
    steps = reader().receive_in_steps(good + b"HTTP/1.1")
    assert events(next(steps)) == [WindowFrame(1), JsonFrame(1, b"{}")]
    with pytest.raises(ProtocolError) as refused:
        next(steps)
    assert refused.value.offset == len(good)


def test_an_error_inside_an_envelope_names_the_envelopes_offset() -> None:
    good = WindowFrame(1).encode()
    with pytest.raises(ProtocolError) as refused:
        reader().receive_data(
            good + EnvelopeFrame(pack(JsonFrame(1, b"{}").encode() + b"2A\0\0\0\0")).encode()
        )
    assert refused.value.offset == len(good)


@pytest.mark.parametrize("kind", ["json", "data", "envelope"])
def test_a_frame_that_comes_byte_by_byte_is_copied_a_fixed_number_of_times(kind: str) -> None:
    """The bytes that buffering copies grow in proportion to the stream, not to its square."""
    noise = random.Random(1).randbytes(32 * KIB)
    if kind == "json":
        stream = JsonFrame(1, noise).encode()
    elif kind == "data":
        stream = KeyValueFrame(1, tuple((f"key{i}", "v" * 60) for i in range(500))).encode()
    else:
        stream = EnvelopeFrame(pack(JsonFrame(1, noise).encode())).encode()
    frames = reader()
    assert len(feed_in_steps(frames, stream, 1)) == 1
    assert frames.copied <= 3 * len(stream)


def lines_run(pairs: int) -> int:
    """Return how many lines of Python are run for a D frame of so many *pairs* that comes byte by
    byte.
    """
    stream, frames, count = KeyValueFrame(1, (("k", "v"),) * pairs).encode(), reader(), 0

    def tracer(frame: object, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        feed_in_steps(frames, stream, 1)
    finally:
        sys.settrace(before)
    return count


def test_a_data_frame_that_comes_byte_by_byte_is_looked_at_once() -> None:
    assert lines_run(400) < 2.2 * lines_run(200)


def test_many_small_frames_byte_by_byte_are_copied_a_fixed_number_of_times() -> None:
    stream = b"".join(json_frames(1, [b"{}"] * 3000))
    frames = reader()
    assert len(events(feed_in_steps(frames, stream, 1))) == 3000
    assert frames.copied <= 4 * len(stream)


def test_a_large_envelope_in_large_reads_is_copied_at_most_twice() -> None:
    stream = EnvelopeFrame(pack(JsonFrame(1, random.Random(2).randbytes(MIB)).encode())).encode()
    frames = reader()
    assert len(feed_in_steps(frames, stream, 256 * KIB)) == 1
    assert frames.copied <= 2 * len(stream)


def test_whole_frames_in_one_read_are_not_copied() -> None:
    frames = reader()
    frames.receive_data(b"".join(json_frames(1, [b"x" * 370] * 100)))
    assert frames.copied == 0


def test_acknowledgements_are_read_from_one_buffer() -> None:
    assert reader(side="writer").receive_data(AckFrame(0).encode() * 2 + AckFrame(7).encode()) == [
        AckFrame(0),
        AckFrame(0),
        AckFrame(7),
    ]
