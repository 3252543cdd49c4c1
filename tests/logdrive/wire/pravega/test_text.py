"""Strings travel in Java's modified UTF-8 (specification, section 1.2)."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.pravega.text import decode_text, encode_text


@pytest.mark.parametrize(
    ("text", "data"),
    [("a/é", "612fc3a9"), ("\0", "c080"), ("😀", "eda0bdedb880"), ("", ""), ("€", "e282ac")],
)
def test_known_strings_both_ways(text: str, data: str) -> None:
    assert encode_text(text).hex() == data
    assert decode_text(bytes.fromhex(data)) == text


@given(st.text())
def test_every_string_comes_back(text: str) -> None:
    assert decode_text(encode_text(text)) == text
    assert 0 not in encode_text(text)


@given(st.text())
def test_plain_utf8_is_read_too(text: str) -> None:
    assert decode_text(text.encode()) == text


@given(st.binary())
def test_bytes_that_are_no_utf8_raise_only_value_errors(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert decode_text(encode_text(decode_text(data))) == decode_text(data)
