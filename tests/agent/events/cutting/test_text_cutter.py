"""Cutting text of any encoding and line end into events (rules R2, P3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.events.cutting.world import assert_tiles, cutter_for, read_events

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "gbk")
LINE_ENDS = ("\n", "\0", "||", "\r|", ";;\n")

# line ends, parts of them, and characters whose bytes look like one
texts = st.lists(
    st.sampled_from(["\n", "\r", "\r\n", "\0", "|", ";", "a", "é", "Ċ", "਀", "漢", "😀", " x"]),
    max_size=40,
).map("".join)


@given(
    data=st.data(),
    encoding=st.sampled_from(ENCODINGS),
    line_end=st.sampled_from(LINE_ENDS),
    longest=st.sampled_from([None, 1, 3, 8]),
    text=texts,
)
def test_r2_any_split_of_a_stream_gives_the_same_events_which_tile_it(
    data: st.DataObject, encoding: str, line_end: str, longest: int | None, text: str
) -> None:
    if longest is None and encoding != "utf-16" and data.draw(st.booleans()):
        stream = data.draw(st.binary(max_size=60))
    else:
        stream = text.encode(encoding, "replace")
    if line_end == "||" and encoding == "gbk":
        line_end = "\n"
    if encoding == "utf-16" and data.draw(st.booleans()):
        stream = b"\xfe\xff" + text.encode("utf-16-be")
    keys = {"encoding": encoding, "line_end": line_end, "longest_event_bytes": longest}

    whole = read_events(cutter_for(stream, **keys), stream, [])
    assert_tiles(whole, stream)
    sizes = data.draw(st.lists(st.integers(1, 5), max_size=30))
    assert read_events(cutter_for(stream, **keys), stream, sizes) == whole


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "shift_jis"])
def test_messages_are_text_whatever_the_encoding(encoding: str) -> None:
    stream = "one\r\nzwei漢\n".encode(encoding)
    first, second = read_events(cutter_for(stream, encoding=encoding), stream, [])
    assert (first.message, second.message) == ("one", "zwei漢")
    assert first.eol.encode() == "\r\n".encode(encoding)
    assert first.original is second.original is None


def test_a_byte_order_mark_says_which_utf16_and_is_in_no_message() -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        stream = "\ufeffone\ntwo\n".encode(encoding)
        events = read_events(cutter_for(stream, encoding="utf-16"), stream, [])
        assert [event.message for event in events] == ["one", "two"]
        assert_tiles(events, stream)


def test_what_looks_like_a_line_end_between_two_characters_of_utf16_is_none() -> None:
    # U+0A00 behind U+0100: the bytes 00 01 00 0a, or 01 00 0a 00 with the line end in the middle
    stream = "Āઊ\u0a00x\n".encode("utf-16-le") + "Ā\u0a00y\n".encode("utf-16-le")
    events = read_events(cutter_for(stream, encoding="utf-16-le"), stream, [])
    assert [event.message for event in events] == ["Āઊ\u0a00x", "Ā\u0a00y"]


def test_bytes_that_an_encoding_lacks_survive() -> None:
    stream = b"ok\n\x81bad\nwell\n"
    events = read_events(cutter_for(stream, encoding="cp1252"), stream, [])
    assert [event.original for event in events] == [None, b"\x81bad", None]
    assert_tiles(events, stream)


def test_a_long_line_is_kept_up_to_the_limit_and_the_rest_is_said_to_be_left_out() -> None:
    stream = b"short\n" + b"x" * 100 + b"\nshort\n"
    events = read_events(cutter_for(stream, longest_event_bytes=10), stream, [], limit=16)
    assert_tiles(events, stream)
    kept = [event for event in events if event.left_out < event.end - event.start]
    assert [(event.message, event.flags) for event in kept] == [
        ("short", ()),
        ("x" * 10, ("truncated",)),
        ("short", ()),
    ]
    assert sum(event.left_out for event in events) == 91
