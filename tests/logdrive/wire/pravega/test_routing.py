"""A routing key belongs to the segment to which all other Pravega clients send it (specification,
section 4).
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.pravega.routing import key_fraction, segment_number

KNOWN = {
    "hello": 0.658716230571337,
    "": 0.24117842791623523,
    "k0": 0.586503421853011,
    "k1": 0.43630594707939774,
    "k2": 0.796284136494039,
    "k3": 0.5964185220050633,
    "host-01": 0.3488729437360558,
    "é": 0.6688272069632242,
}


@pytest.mark.parametrize(("key", "expected"), KNOWN.items())
def test_known_keys_fall_where_other_clients_put_them(key: str, expected: float) -> None:
    assert key_fraction(key) == expected


@pytest.mark.parametrize(
    ("key", "segments", "expected"),
    [("é", 16, 10), ("😀", 16, 12), ("k0", 2, 1), ("k1", 2, 0), ("", 1, 0)],
)
def test_known_keys_go_to_the_segment_other_clients_choose(
    key: str, segments: int, expected: int
) -> None:
    assert segment_number(key, segments) == expected


@given(st.text(), st.integers(1, 64))
def test_every_key_has_a_segment_whose_range_holds_it(key: str, segments: int) -> None:
    number, place = segment_number(key, segments), key_fraction(key)
    assert 0.0 <= place < 1.0
    assert 0 <= number < segments
    assert number == 0 or number / segments < place
    assert place <= (number + 1) / segments
