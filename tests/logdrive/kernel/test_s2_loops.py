"""The compiled loops of S2's protocol return what the Python ones return, byte for byte, for any
arguments.
"""

import struct
from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdrive.kernel import s2_plain
from logdrive.kernel.varints import encode_varint
from tests.logdrive.kernel.compiled import compiled_module

U64 = 2**64 - 1


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    return compiled_module("logdrive.kernel._s2_loops")


bodies = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"\xffS2", b"\xffS2R\x01", b"\xffS", b"x" * 127, b"x" * 128, b"x" * 17_000]),
)


def field(key: int, value: bytes) -> bytes:
    return bytes((key,)) + encode_varint(len(value)) + value


plain_records = st.builds(lambda body: field(0x0A, field(0x1A, body)), bodies)
other_records = st.sampled_from(
    [
        b"\x0a\x00",  # an empty record
        b"\x0a\x02\x1a\x00",  # an empty body that is written out
        b"\x0a\x03\x1a\x80\x00",  # a length that is longer than need be
        b"\x0a\x85\x00\x1a\x03abc",
        b"\x0a\x85\x80\x80\x00\x1a\x03abc",
        b"\x0a\x05\x1a\x04abc",  # a body that is longer than its record
        b"\x0a\x06\x1a\x02abc",
        b"\x0a\x07\x08\x01\x1a\x03abc",  # a timestamp
        b"\x0a\x08\x12\x04\x0a\x00\x12\x00\x1a\x00",  # a header
        b"\x0a\x7f",
        b"\x10\x05",
    ]
)


@given(
    st.lists(plain_records | other_records | st.binary(max_size=4), max_size=6).map(b"".join),
    st.integers(-1, 8),
)
def test_the_same_bodies_become_events(compiled: ModuleType, data: bytes, most: int) -> None:
    for end in range(max(0, len(data) - 10), len(data) + 1):
        framed = compiled.frame_bodies(data[:end], most)
        assert framed == s2_plain.frame_bodies(data[:end], most)


def test_lengths_of_each_number_of_bytes_are_read(compiled: ModuleType) -> None:
    for size in (0, 1, 125, 126, 127, 128, 16_380, 16_384, 16_385, 2_000_000, 2**21):
        data = field(0x0A, field(0x1A, b"b" * size))
        framed = compiled.frame_bodies(data, 9)
        assert framed == s2_plain.frame_bodies(data, 9)
        assert framed[1] == (size < 2**21 - 4)


def payload(kind: int, version: int, timestamp: int, metered: int, fields: bytes) -> bytes:
    return struct.pack(">3sBBQI", b"\xffS2", kind, version, timestamp, metered) + fields


payloads = st.builds(
    payload,
    st.sampled_from(b"RRRCEX"),
    st.sampled_from([1, 1, 1, 1, 0, 2]),
    st.sampled_from([0, 5, 1_000, 2_000_000_000_000, U64]),
    st.sampled_from([8, 9, 10, 7, 30, 2**32 - 1]),
    bodies,
)
events = st.builds(
    lambda kind, body, more: struct.pack(">iI", kind, max(0, len(body) + more)) + body,
    st.sampled_from([0] * 9 + [1]),
    payloads | bodies,
    st.sampled_from([0] * 9 + [1, -1, 2**31 - 30_000, 2**32 - 30_000]),
)
small = st.sampled_from([0, 1, 100, 127, 128, 16_383, 2**35, 2**63 - 1])
limits = st.sampled_from([0, 8, 9, 20, 300, U64])


@given(
    st.lists(events | st.binary(max_size=9), max_size=6).map(b"".join),
    st.integers(0, 30),
    small,
    small,
    st.sampled_from([0, 1_000, 1_700_000_000_000]),
    st.sampled_from([0, 1, 2, 2**40]),
    small,
    limits,
    limits,
    st.sampled_from([0, 1_000, 1_700_000_000_000, U64]),
    st.booleans(),
)
@example(payload(ord("R"), 1, U64, 8, b""), 0, 0, 0, 0, 5, 0, U64, U64, U64, True)
def test_the_same_events_become_records(
    compiled: ModuleType,
    data: bytes,
    at: int,
    seq_num: int,
    timestamp: int,
    time_ms: int,
    count: int,
    metered: int,
    nominal: int,
    hard: int,
    latest: int,
    splice: bool,
) -> None:
    numbers = (seq_num, timestamp, time_ms, seq_num + count, metered, nominal, hard, latest)
    for place in (0, min(at, len(data))):
        encoded = compiled.encode_records(data, place, *numbers, splice)
        assert encoded == s2_plain.encode_records(data, place, *numbers, splice)
        assert encoded == compiled.encode_records(memoryview(data), place, *numbers, splice)


def test_a_place_outside_of_the_data_is_refused(compiled: ModuleType) -> None:
    for at in (-1, 1):
        with pytest.raises(ValueError, match="no event"):
            compiled.encode_records(b"", at, 0, 0, 0, 0, 0, 0, 0, 0, True)
