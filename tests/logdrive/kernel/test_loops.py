"""The compiled loops return what the Python ones return, byte for byte, for any arguments."""

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdrive.kernel import plain
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


texts = st.lists(st.sampled_from([b"", b"a", b"b" * 200, b"c" * 3000]), max_size=6)


@given(
    st.integers(0, 3000),
    st.integers(-1, 6),
    texts,
    texts,
    st.binary(max_size=3),
    st.binary(max_size=3),
    st.binary(max_size=3),
)
def test_the_same_frames_are_written(
    compiled: ModuleType,
    first: int,
    count: int,
    offsets: list[bytes],
    messages: list[bytes],
    prefix: bytes,
    middle: bytes,
    tail: bytes,
) -> None:
    for number in (count, len(messages)):
        fields = (
            first,
            number,
            prefix,
            b",".join(offsets),
            middle,
            b"\x7f".join(messages),
            b"\x7f",
            tail,
        )
        assert given_by(compiled.full_frames, *fields) == given_by(plain.full_frames, *fields)


def test_frames_written_are_those_of_the_codec(loops: ModuleType) -> None:
    written = loops.full_frames(
        2047, 3, b'{"o":', b"0,17,300", b',"m":"', b"a|bc|" + b"d" * 3000, b"|", b'"}'
    )
    payloads = [b'{"o":0,"m":"a"}', b'{"o":17,"m":"bc"}', b'{"o":300,"m":"' + b"d" * 3000 + b'"}']
    assert written == b"".join(
        JsonFrame(2047 + number, payload).encode() for number, payload in enumerate(payloads)
    )


@given(
    st.lists(st.sampled_from([b"\n", b"a", b"\n" * 700, b"b\n" * 9000]), max_size=9).map(b"".join),
    st.integers(-1, 300),
    st.integers(-1, 300),
)
@example(b"\n" * (64 * 255 * 2 + 7), 0, 0)
def test_the_same_lines_are_counted(
    compiled: ModuleType, data: bytes, begin: int, less: int
) -> None:
    for end in (len(data) - less, begin + less):
        counted = given_by(compiled.count_lines, data, begin, end)
        assert counted == given_by(plain.count_lines, memoryview(data), begin, end)
        within = 0 <= begin <= end <= len(data)
        assert counted == (data.count(b"\n", begin, end) if within else ValueError)


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
