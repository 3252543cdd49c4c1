"""Blocks come to the same rows, whether they are scanned or parsed (rule R1)."""

from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdrive.model import records as record
from logdrive.model.limits import MAX_POSITION
from logdrive.pipeline.decode.blocks import parse_block, scan_block

LINES = 'one "two"\\\n\u00e4\r\nthree \U0001f98c\x00\n'


def block(text: str = LINES, start: int = 7, **others: Any) -> bytes:
    end = start + len(text.encode())
    return record.block_record(start, others.pop("end", end), text.count("\n"), text, **others)


def parsed(payload: bytes) -> Any:
    """Return what the parser makes of *payload*, or that it is no block."""
    try:
        value = orjson.loads(payload)
        return parse_block(value, value["log"])
    except (ValueError, KeyError, TypeError):
        return None


def test_r1_what_agents_write_is_scanned() -> None:
    assert (
        scan_block(block()) == parsed(block()) == (LINES.encode(), 7, 7 + len(LINES.encode()), None)
    )


@given(st.text(min_size=1), st.integers(0, MAX_POSITION))
def test_r1_a_scanned_block_is_the_parsed_one(text: str, start: int) -> None:
    payload = block(text, start)
    assert scan_block(payload) == parsed(payload)


@given(st.data())
@example(None)
def test_r1_nothing_is_scanned_that_is_parsed_otherwise(draw: Any) -> None:
    """Any byte is replaced, removed or doubled."""
    payload = block()
    places = range(len(payload)) if draw is None else [draw.draw(st.integers(0, len(payload) - 1))]
    for at in places:
        byte = b"0" if draw is None else draw.draw(st.binary(max_size=3))
        changed = payload[:at] + byte + payload[at + 1 :]
        scanned = scan_block(changed)
        assert scanned is None or scanned == parsed(changed)


@pytest.mark.parametrize(
    "payload",
    [
        block(lengths=[len(LINES.encode())]),
        block(end=8),
        block("x", start=MAX_POSITION),
        block("x", start=9, end=9),
        block().replace(b'"offset":7', b'"offset":07'),
        block().replace(b'"offset":7', b'"offset":-7'),
        block().replace(b'"offset"', b'"start":1,"offset"'),
        block()[:-1] + b',"message":"x"}',
        block().replace(b'"message":', b'"message": '),
        block() + b" ",
        block().replace(b"one", b"on\xff"),
        block().replace(b"one", b"\\ud8"),
        b'{"log":{"offset":1,"end":3,"lines":1},"message":"}',
        b"",
    ],
)
def test_r1_all_else_is_left_to_the_parser(payload: bytes) -> None:
    assert scan_block(payload) is None
