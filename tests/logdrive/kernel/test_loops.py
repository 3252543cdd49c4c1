"""The compiled loops return what the Python ones return, byte for byte, for any arguments."""

import struct
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdrive.kernel import plain
from logdrive.model.framing import frame_events
from logdrive.wire.lumberjack.frames import JsonFrame
from tests.logdrive.kernel.compiled import compiled_module


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    return compiled_module("logdrive.kernel._loops")


@pytest.fixture(params=["plain", "compiled"])
def loops(request: pytest.FixtureRequest) -> ModuleType:
    """Each of the two implementations."""
    return plain if request.param == "plain" else request.getfixturevalue("compiled")


def given_by(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what *function* returns, or that it refused its arguments."""
    try:
        return function(*arguments)
    except ValueError:
        return ValueError


frames = st.builds(
    lambda head, number, payload, more: (
        head + struct.pack("!II", number, max(0, len(payload) + more)) + payload
    ),
    st.sampled_from([b"2J", b"2J", b"2J", b"1J", b"2D"]),
    st.integers(0, 5) | st.sampled_from([2**32 - 1]),
    st.binary(max_size=6),
    st.sampled_from([0, 0, 0, 0, -1, 1, 2**31, 2**32 - 7]),
).filter(lambda frame: len(frame) >= 10)
runs = st.builds(
    lambda first, payloads: b"".join(
        JsonFrame(first + number, payload).encode() for number, payload in enumerate(payloads)
    ),
    st.integers(0, 5) | st.just(2**32 - 9),
    st.lists(st.binary(min_size=1, max_size=9), max_size=9),
)


@given(st.binary(max_size=1200), st.integers(0, 300), st.integers(1, 2**16 - 16))
@example(b"\xff" * 400_001, 0, 0xFFF0_FFF0)
@example(b"\xff" * 512, 0, 1)
def test_the_check_of_a_stream_is_that_of_zlib(
    compiled: ModuleType, data: bytes, at: int, adler: int
) -> None:
    view = memoryview(data)[at:]
    assert compiled.adler32(view, adler) == zlib.adler32(view, adler)
    assert plain.adler32(view, adler) == zlib.adler32(view, adler)


@given(st.lists(runs | frames | st.binary(max_size=12), max_size=5).map(b"".join), st.data())
def test_the_same_frames_are_cut_out_of_any_bytes(
    compiled: ModuleType, data: bytes, draw: st.DataObject
) -> None:
    at, end = (
        draw.draw(st.integers(-1, len(data) + 1)),
        draw.draw(st.integers(-1, len(data) + 1) | st.just(len(data))),
    )
    limit, most = (
        draw.draw(st.sampled_from([0, 1, 6, 100])),
        draw.draw(st.sampled_from([0, 1, 3, 100])),
    )
    cut = given_by(compiled.cut_events, data, at, end, limit, most)
    assert cut == given_by(plain.cut_events, data, at, end, limit, most)
    for place in range(len(data)):
        assert given_by(compiled.cut_events, data, place, len(data), 100, 9) == given_by(
            plain.cut_events, data, place, len(data), 100, 9
        )


@given(
    st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r", b"x" * 300]), max_size=30).map(b"".join),
    st.integers(0, 2**46),
    st.integers(0, 9),
)
@example(b"a\n" * 12, 2**46 - 5, 12)
def test_lines_are_placed_at_the_same_positions(
    compiled: ModuleType, data: bytes, start: int, most: int
) -> None:
    assert given_by(compiled.place_lines, data, start, most) == given_by(
        plain.place_lines, data, start, most
    )


characters = st.sampled_from(
    [
        *(bytes([number]) for number in range(128)),
        *(text.encode() for text in ("é", "€", "😀")),
        *(b"\n", b"\n", b"a" * 40, b"b" * 300),
    ]
)
texts = st.lists(
    characters | st.sampled_from([b"\r\n", b"\xff", b"\xed\xa0\x80"]), max_size=40
).map(b"".join)
starts = st.integers(0, 2**46) | st.sampled_from([9, 95, 9_999_999_970])


@given(
    texts,
    st.integers(-1, 30),
    st.integers(-1, 3000),
    starts,
    st.integers(-1, 9),
    st.integers(0, 400),
)
@example(b"a\n" * 12, 0, 24, 2**46 - 5, 12, 2)
def test_lines_are_measured_alike(
    compiled: ModuleType, data: bytes, at: int, end: int, start: int, most: int, longest: int
) -> None:
    for place, stop in ((at, end), (0, len(data))):
        assert given_by(compiled.scan_lines, data, place, stop, start, most, longest) == given_by(
            plain.scan_lines, data, place, stop, start, most, longest
        )


@given(
    st.lists(characters, max_size=60).map(b"".join), starts, st.integers(0, 2**32 - 1), st.data()
)
def test_the_same_records_are_written(
    compiled: ModuleType, data: bytes, start: int, first: int, draw: st.DataObject
) -> None:
    at = draw.draw(st.integers(0, len(data)))
    count, length, written = plain.scan_lines(data, at, len(data), start, 999, 999)
    lines = [data, at, at + length, start, written]
    wrong = draw.draw(st.sampled_from([0, 1, 2, 4]))
    lines[wrong] = draw.draw(
        st.binary(max_size=40) if wrong == 0 else st.integers(-1, len(data) + 2)
    )
    for given_lines in ((data, at, at + length, start, written), tuple(lines)):
        for number in (count, count + 1, count - 1):
            same = (number, b"<", b"|", b">", *given_lines)
            events = given_by(compiled.line_events, *same)
            assert events == given_by(plain.line_events, *same)
            frames = given_by(compiled.line_frames, first, *same)
            if first + count <= 2**32:
                assert frames == given_by(plain.line_frames, first, *same)


@given(st.lists(characters, min_size=100, max_size=300).map(b"".join), starts)
def test_the_same_records_are_written_of_long_lines(
    compiled: ModuleType, data: bytes, start: int
) -> None:
    """Long enough for many bytes at a time, which need room for whatever these may become."""
    data += b"\n"
    count, length, written = plain.scan_lines(data, 0, len(data), start, 999, len(data))
    same = (count, b"<", b"|", b">", data, 0, length, start, written)
    assert given_by(compiled.line_events, *same) == given_by(plain.line_events, *same)


def test_each_byte_is_escaped_wherever_it_stands(compiled: ModuleType) -> None:
    for byte in range(128):
        lines = [b"x" * before + bytes([byte]) + b"y" * 1000 + b"\n" for before in range(70)]
        data = b"".join(lines)
        count, length, written = plain.scan_lines(data, 0, len(data), 7, 999, len(data))
        same = (count, b"<", b"|", b">", data, 0, length, 7, written)
        assert compiled.line_events(*same) == plain.line_events(*same)


def test_records_written_are_those_of_the_codecs(loops: ModuleType) -> None:
    data = b"not\na\n" + bytes(range(32)).replace(b"\n", b"") + b'\\ "\x7f\n' + b"d" * 3000 + b"\n"
    end = len(data)
    count, length, written = loops.scan_lines(data, 4, end, 96, 9, 9999)
    assert (count, length) == (3, end - 4)
    lines = (3, b'{"o":', b',"m":"', b'"}', data, 4, end, 96, written)

    messages = [line.decode() for line in data[4:].split(b"\n")[:-1]]
    places = [96, 98, 98 + len(messages[1]) + 1]
    payloads = [
        b'{"o":%d,"m":%b}' % (place, orjson.dumps(message))
        for place, message in zip(places, messages, strict=True)
    ]
    assert loops.line_frames(2047, *lines) == b"".join(
        JsonFrame(2047 + number, payload).encode() for number, payload in enumerate(payloads)
    )
    assert loops.line_events(*lines) == frame_events(payloads)


def test_lines_that_are_not_plain_are_not_measured(loops: ModuleType) -> None:
    for line in (b"a\r\n", b"\xff\n", "é".encode()[:1] + b"\n", b"\xed\xa0\x80\n"):
        assert loops.scan_lines(b"a\n" + line, 0, 2 + len(line), 0, 9, 9) == (2, 2 + len(line), -1)
    assert loops.scan_lines(b"a\r\r\n", 0, 4, 0, 1, 9) == (1, 4, -1)
    assert loops.scan_lines("é\r \n".encode(), 0, 5, 0, 1, 9) == (1, 5, 1 + 5)


def test_a_line_over_the_limit_ends_the_lines(loops: ModuleType) -> None:
    assert loops.scan_lines(b"a\nbbb\nc\n", 0, 8, 0, 9, 4) == (3, 8, 3 + 5)
    assert loops.scan_lines(b"a\nbbb\nc\n", 0, 8, 0, 9, 3) == (1, 2, 1 + 1)
    assert loops.scan_lines(b"bbb\nc\n", 0, 6, 0, 9, 3) == (0, 0, 0)


def test_a_frame_that_is_not_whole_is_none(loops: ModuleType) -> None:
    frame = JsonFrame(7, b"{}").encode()
    for short in range(len(frame)):
        with pytest.raises(ValueError, match="frame there"):
            loops.cut_events(frame, 0, short, 100, 9)
        assert loops.cut_events(frame + frame[:short], 0, len(frame) + short, 100, 9) == (
            b"\0\0\0\0\0\0\0\2{}",
            1,
            len(frame),
        )


def test_the_last_number_is_followed_by_none(loops: ModuleType) -> None:
    data = JsonFrame(2**32 - 1, b"a").encode() + JsonFrame(0, b"b").encode()
    assert loops.cut_events(data, 0, len(data), 100, 9)[1] == 1


events = st.builds(
    lambda kind, body, more: struct.pack(">iI", kind, max(0, len(body) + more)) + body,
    st.sampled_from([0] * 9 + [1]),
    st.sampled_from([b"", b"a", b"x" * 300, b"\xff", b"\xffS2"]) | st.binary(max_size=9),
    st.sampled_from([0] * 9 + [1, -1, 2**31, 2**32 - 400]),
)


@given(
    st.lists(events | st.binary(max_size=9), max_size=8).map(b"".join),
    st.integers(-2, 40),
    st.sampled_from([-1, 0, 1, 2, 2**40]),
)
def test_the_same_plain_events_are_walked_over(
    compiled: ModuleType, data: bytes, at: int, most: int
) -> None:
    for place in (0, at):
        walked = compiled.walk_plain(data, place, most)
        assert walked == plain.walk_plain(memoryview(data), place, most)


def test_a_walk_ends_before_an_event_with_more_than_a_payload(loops: ModuleType) -> None:
    whole = b"".join(struct.pack(">ii", 0, len(body)) + body for body in (b"one", b"", b"three"))
    for rest in (b"", whole[:5], whole[:9], b"\0\0\0\1" + bytes(4), b"\0\0\0\0\0\0\0\1\xff"):
        assert loops.walk_plain(whole + rest, 0, 9) == (len(whole), 3)
    assert loops.walk_plain(whole, 11, 9) == (len(whole), 2)
    assert loops.walk_plain(whole, 0, 2) == (19, 2)
