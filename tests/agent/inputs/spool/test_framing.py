"""Messages of syslog over one connection, however it is split."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.inputs.spool.framing import FramedText, Framing, LineFraming, SyslogFraming

LIMIT = 20


def framed(framing: Framing, *received: bytes) -> list[tuple[bytes, bool]]:
    """Return the messages in what was *received*, and whether each was cut off."""
    found = list[tuple[bytes, bool]]()
    for piece in (*(framing.receive_data(data) for data in received), framing.receive_end()):
        found += messages(piece)
    return found


def messages(framed: FramedText) -> list[tuple[bytes, bool]]:
    found, at = list[tuple[bytes, bool]](), 0
    for length in framed.lengths or []:
        end = at + abs(length)
        assert framed.text[end - 1 : end] == b"\n"
        found.append((framed.text[at : end - 1], length < 0))
        at = end
    assert at == len(framed.text)
    return found


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (b"<13>one\n<13>two\n", [b"<13>one", b"<13>two"]),
        (b"7 <13>one7 <13>two", [b"<13>one", b"<13>two"]),
        (b"7 <13>one<13>two\n7 <13>thr", [b"<13>one", b"<13>two", b"<13>thr"]),
        (b"8 <13>o\ne\n<13>two\n", [b"<13>o\ne\n", b"<13>two"]),
        (b"8 <13>one\n\n\n8 <13>two\n", [b"<13>one\n", b"<13>two\n"]),
        (b"12-12 x\n", [b"12-12 x"]),
        (b"1234567890 x\n", [b"1234567890 x"]),
        (b"42\n<13>x\n", [b"42", b"<13>x"]),
        (b"<13>no newline", [b"<13>no newline"]),
        (b"0 <13>x\n", [b"<13>x"]),
    ],
)
def test_both_ways_are_told_apart_message_by_message(
    received: bytes, expected: list[bytes]
) -> None:
    assert framed(SyslogFraming(LIMIT), received) == [(message, False) for message in expected]
    assert framed(SyslogFraming(LIMIT), *(received[n : n + 1] for n in range(len(received)))) == [
        (message, False) for message in expected
    ]


@pytest.mark.parametrize("rest", [1, 5, 100])
def test_the_rest_of_a_message_over_the_limit_is_cut_off_and_the_next_one_is_whole(
    rest: int,
) -> None:
    long = b"<" + b"x" * (LIMIT - 1 + rest)
    expected = [(long[:LIMIT], True), (b"<next>", False)]
    assert framed(SyslogFraming(LIMIT), long + b"\n<next>\n") == expected
    assert framed(SyslogFraming(LIMIT), b"%d %b<next>\n" % (len(long), long)) == expected


def test_a_counted_message_that_the_end_cuts_off_says_so() -> None:
    assert framed(SyslogFraming(LIMIT), b"12 <13>one") == [(b"<13>one", True)]


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=30), st.booleans()), max_size=6),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_any_split_gives_the_same_messages(sent: list[tuple[bytes, bool]], cuts: list[int]) -> None:
    stream = b"".join(
        b"%d %b" % (len(data), data) if counted else b"<" + data.replace(b"\n", b"") + b"\n"
        for data, counted in sent
    )
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(places)]
    expected = [
        (whole[:LIMIT], len(whole) > LIMIT)
        for whole in (
            data if counted else b"<" + data.replace(b"\n", b"") for data, counted in sent
        )
    ]
    assert framed(SyslogFraming(LIMIT), *pieces) == expected


def test_what_is_kept_of_a_connection_is_bounded() -> None:
    framing = SyslogFraming(LIMIT)
    for _ in range(1000):
        framing.receive_data(b"<" + b"x" * 1000)
        framing.receive_data(b"9" * 9)
    assert len(framing._buffer) <= LIMIT + 1000


def test_lines_of_a_connection_are_handed_over_whole() -> None:
    framing = LineFraming(LIMIT)
    assert framing.receive_data(b"one\ntwo\nthr").text == b"one\ntwo\n"
    assert framing.receive_data(b"ee").text == b""
    assert framing.receive_data(b"\nfour").text == b"three\n"
    assert framing.receive_end().text == b"four\n"
    assert framing.receive_data(b"x" * LIMIT + b"y").text == b"x" * LIMIT + b"y\n"
    assert framing.receive_end().text == b""


def test_the_newline_of_a_line_that_was_cut_is_no_line_of_its_own() -> None:
    framing = LineFraming(LIMIT)
    assert framing.receive_data(b"x" * LIMIT).text == b"x" * LIMIT + b"\n"
    assert framing.receive_data(b"\n\nnext\n").text == b"\nnext\n"
    assert framing.receive_data(b"y" * LIMIT).text == b"y" * LIMIT + b"\n"
    assert framing.receive_data(b"rest\n").text == b"rest\n"
    assert framing.receive_end().text == b""
