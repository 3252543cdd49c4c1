"""The compiled loops return what the Python ones return, byte for byte, for any text."""

import json
import time
from array import array
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from types import ModuleType
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdrive.kernel import text_plain
from tests.logdrive.kernel.compiled import compiled_module


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    return compiled_module("logdrive.kernel._text_loops")


@pytest.fixture(params=["plain", "compiled"])
def loops(request: pytest.FixtureRequest) -> ModuleType:
    """Each of the two implementations."""
    return text_plain if request.param == "plain" else request.getfixturevalue("compiled")


def places(*cuts: int) -> bytes:
    return array("q", cuts).tobytes()


def split(module: ModuleType, *arguments: Any) -> Any:
    """Return what `split_texts` returns, or that it refused its arguments."""
    try:
        return module.split_texts(*arguments)
    except ValueError:
        return ValueError


# characters of each length, and bytes next to those that begin or continue one
ODD = [
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"plain text",
    b"x" * 130,
    "äŸ€🦫".encode(),
    *(char.encode() for char in "\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"),
    *(b"\xc1\xbf", b"\xc2", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xe1\x80", b"\xf0\x8f\xbf\xbf"),
    *(b"\xf4\x90\x80\x80", b"\xf5", b"\x80", b"\xbf", b"\xff", b"\xf1\x80\x80", b"\xc2\n"),
]
parts = st.lists(st.sampled_from(ODD) | st.binary(max_size=9), max_size=40)


@given(parts, st.booleans(), st.booleans(), st.integers(0, 2**50), st.data())
@example([b"\n" * 70_000], True, True, 7, None)
@example([b"a" * 63 + b"\r\n"] * 300, True, True, 2**46, None)
def test_any_text_is_split_alike(
    compiled: ModuleType, pieces: list[bytes], lines: bool, aligned: bool, start: int, draw: Any
) -> None:
    text = b"".join(pieces)
    inner = set(accumulate(map(len, pieces[:-1]))) - {0, len(text)}
    if not aligned and len(text) > 1:
        inner = draw.draw(st.sets(st.integers(1, len(text) - 1)))
    cuts = [*sorted(inner), *([len(text)] if text else [])]
    starts = places(*(start ^ 31 * cut for cut in cuts))
    arguments = (places(*cuts), starts, lines)
    expected = text_plain.split_texts(text, *arguments)
    assert compiled.split_texts(text, *arguments) == expected
    assert compiled.split_texts(memoryview(text), *arguments) == expected


@given(
    st.binary(max_size=9),
    st.lists(st.integers(-1, 10), max_size=4),
    st.lists(st.sampled_from([0, 5, -1, 2**62, 2**62 + 1]), max_size=4),
    st.booleans(),
)
def test_the_same_cuts_and_starts_are_refused(
    compiled: ModuleType, text: bytes, cuts: list[int], starts: list[int], lines: bool
) -> None:
    for more in (b"", b"\0"):
        arguments = (text, places(*cuts) + more, places(*starts) + more, lines)
        assert split(compiled, *arguments) == split(text_plain, *arguments)


def test_lines_lose_their_ends_and_are_told_apart_by_them(loops: ModuleType) -> None:
    text = b"one\ntwo\r\n\r\n\nthree\rx\r\r\nlast"
    messages, offsets, begins, stops, ends, flawed, counts = loops.split_texts(
        text, places(len(text)), places(100), True
    )
    assert messages == b"onetwothree\rx\rlast"
    assert [*array("i", offsets)] == [0, 3, 6, 6, 6, 14, 18]
    assert [*array("q", begins)] == [100, 104, 109, 111, 112, 122]
    assert [*array("q", stops)] == [104, 109, 111, 112, 122, 126]
    assert [*ends] == [0, 1, 1, 0, 1, 3]
    assert flawed is None
    assert counts == places(6)


def test_events_end_where_they_are_cut(loops: ModuleType) -> None:
    text = b"two\nlines\r\n\xc3\xa4\r\n"
    messages, offsets, begins, stops, ends, flawed, counts = loops.split_texts(
        text, places(5, 12, 14, 15), places(0, 9, 16, 20), False
    )
    assert messages == b"two\nlines\r\n\xc3\xa4\r"
    assert [*array("i", offsets)] == [0, 5, 12, 14, 14]
    assert [*array("q", begins)] == [0, 9, 16, 20]
    assert [*array("q", stops)] == [5, 16, 18, 21]
    assert [*ends] == [3, 3, 3, 0]
    assert [*flawed] == [0, 1, 1, 0]
    assert counts == places(1, 1, 1, 1)


def test_each_text_has_its_own_lines_and_place(loops: ModuleType) -> None:
    text = b"a\nb\nopen" + b"\n" + b"c\r\n"
    messages, _, begins, stops, ends, _, counts = loops.split_texts(
        text, places(8, 9, 12), places(1000, 50, 7), True
    )
    assert messages == b"abopenc"
    assert [*array("q", begins)] == [1000, 1002, 1004, 50, 7]
    assert [*array("q", stops)] == [1002, 1004, 1008, 51, 10]
    assert [*ends] == [0, 0, 3, 0, 1]
    assert counts == places(3, 1, 1)


def test_plain_lines_have_neither_codes_nor_flaws(loops: ModuleType) -> None:
    assert loops.split_texts(b"a\nb\n", places(4), places(0), True)[4:6] == (None, None)
    empty = (b"", bytes(4), b"", b"", None, None, b"")
    assert loops.split_texts(b"", b"", b"", True) == empty


def test_other_threads_run_while_a_text_is_split(compiled: ModuleType) -> None:
    text = b"a line of some length, and one more\n" * 4_000_000
    cuts, starts = places(len(text)), places(0)

    def timed_split() -> tuple[float, float]:
        began = time.perf_counter()
        compiled.split_texts(text, cuts, starts, True)
        return began, time.perf_counter()

    with ThreadPoolExecutor(1) as threads:
        for _ in range(20):  # a busy machine may not let this thread run amid a split
            split, looked = threads.submit(timed_split), list[float]()
            while not split.done():
                looked.append(time.perf_counter())
            began, ended = split.result()
            margin = (ended - began) / 4  # at the edges this thread may run anyway
            if any(began + margin < at < ended - margin for at in looked):
                return
    pytest.fail("each split kept all other threads from running")


def test_what_could_change_meanwhile_is_not_split(compiled: ModuleType) -> None:
    whole = (b"a\nb\n", places(4), places(0))
    for number in range(3):
        arguments = [bytearray(one) if i == number else one for i, one in enumerate(whole)]
        with pytest.raises(TypeError, match="could change"):
            compiled.split_texts(*arguments, True)


def text_of(module: ModuleType, *arguments: Any) -> Any:
    """Return what `json_text` returns, or that it refused its arguments."""
    try:
        return module.json_text(*arguments)
    except ValueError:
        return ValueError


ESCAPES = [
    *(b"\\" + bytes([char]) for char in b'"\\/bfnrtuxB0\n'),
    *(b"\\u0000", b"\\u001f", b"\\u007F", b"\\u0080", b"\\u07ff", b"\\u0800", b"\\uFfFf"),
    *(b"\\ud83d", b"\\uDE00", b"\\ud83d\\ude00", b"\\udbff\\udfff", b"\\ud800\\u0041"),
    *(b"\\u12", b"\\u00g0", b"\\u 041", b"\\u-041", b"\\", b'"', b"\x1f", b"\x7f", b" "),
]
strings = st.lists(st.sampled_from([*ODD, *ESCAPES]) | st.binary(max_size=9), max_size=30)
whole = st.lists(
    st.sampled_from([b"plain text", b"x" * 33, b"\\n", b'\\"', b"\\ud83e\\udd8c", "ä€".encode()])
)


@given(strings | whole)
def test_any_string_has_the_same_text(compiled: ModuleType, pieces: list[bytes]) -> None:
    data = b'x"' + b"".join(pieces) + b'"y'
    for begin, end in ((1, len(data) - 1), (0, len(data)), (1, len(data)), (2, len(data) - 2)):
        expected = text_of(text_plain, data, begin, end)
        assert text_of(compiled, data, begin, end) == expected
        assert text_of(compiled, memoryview(data), begin, end) == expected


@given(st.text())
def test_text_written_as_json_is_read_back(compiled: ModuleType, text: str) -> None:
    for written in (orjson.dumps(text), json.dumps(text).encode()):
        for loops in (compiled, text_plain):
            assert loops.json_text(written, 0, len(written)) == text.encode()


@pytest.mark.parametrize(("begin", "end"), [(-1, 3), (0, 1), (0, 5), (2, 1), (3, 3), (-5, -1)])
def test_a_string_lies_within_its_bytes(loops: ModuleType, begin: int, end: int) -> None:
    assert text_of(loops, b'"a""', begin, end) is ValueError


def test_spaces_around_a_string_are_not_part_of_it(loops: ModuleType) -> None:
    assert text_of(loops, b' "a" ', 0, 5) is ValueError
