"""`logdrive.wire.s2.names`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.s2.errors import bad_header, bad_json
from logdrive.wire.s2.names import (
    check_basin,
    check_request_token,
    check_stream,
    decode_segment,
    encode_segment,
)
from tests.logdrive.wire.s2.samples import refusal

BAD_PATH = (400, "bad_path")


@pytest.mark.parametrize("name", ["a" * 8, "a" * 48, "0-basin-9", "a------z"])
def test_names_of_basins(name: str) -> None:
    assert check_basin(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a" * 7,
        "a" * 49,
        "-basin-name",
        "basin-name-",
        "Basin-name",
        "basin_name",
        "basinname\n",
        "bäsin-name",
        "basin.name",
        "basin/name",
    ],
)
def test_other_names_of_basins_are_refused(name: str) -> None:
    assert refusal(check_basin, name) == BAD_PATH
    assert refusal(check_basin, name, bad_header) == (400, "bad_header")


@pytest.mark.parametrize("name", ["a", "...", "a" * 512, "ü" * 256, "logs/app one", "\n", "😀"])
def test_names_of_streams(name: str) -> None:
    assert check_stream(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 513, "ü" * 257, "a\0b"])
def test_other_names_of_streams_are_refused(name: str) -> None:
    assert refusal(check_stream, name) == BAD_PATH
    assert refusal(check_stream, name, bad_json) == (400, "bad_json")


@given(st.text(max_size=50))
def test_a_segment_of_a_path_means_the_name_that_it_was_made_of(name: str) -> None:
    segment = encode_segment(name)
    assert "/" not in segment
    assert segment.isascii()
    assert decode_segment(segment) == name


def test_a_segment_is_decoded_once() -> None:
    assert decode_segment("a%2Fb%20c%252F+") == "a/b c%2F+"
    assert decode_segment("100%") == "100%"
    assert refusal(decode_segment, "%ff") == BAD_PATH


def test_a_request_token_has_at_most_36_bytes() -> None:
    for token in (None, "", "x" * 36):
        assert check_request_token(token) == token
    for token in ("x" * 37, "ü" * 19):
        assert refusal(check_request_token, token) == (400, "bad_header")
