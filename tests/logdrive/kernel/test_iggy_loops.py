"""The compiled loops of Iggy's protocol return what the Python ones return, byte for byte, for any
arguments; so do their checksums.
"""

import struct
from types import ModuleType
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from logdrive.kernel import iggy_forms as forms
from logdrive.kernel import iggy_plain
from tests.logdrive.kernel.compiled import compiled_module

U64 = 2**64 - 1
MOST = 2**60
LAYOUTS = [forms.CLASSIC, forms.HEAD_56, forms.HEAD_64, forms.RECORDS]


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    return compiled_module("logdrive.kernel._iggy_loops")


def event(payload: bytes, more: int = 0, kind: int = 0) -> bytes:
    return struct.pack(">iI", kind, max(0, len(payload) + more)) + payload


def field(kind: int, data: bytes, more: int = 0) -> bytes:
    return bytes((kind,)) + struct.pack("<I", len(data) + more) + data


def envelope(chosen: int, origin: int, headers: bytes, payload: bytes, more: int = 0) -> bytes:
    head = (forms.MAGIC, chosen.to_bytes(16, "little"), origin, len(headers) + more)
    return forms.ENVELOPE.pack(*head) + headers + payload


kinds = st.sampled_from([2, 2, 2, 2, 1, 12, 15, 0, 16])
keys = st.sampled_from(
    [b"k", b"source", "schl\u00fcssel".encode(), b"\xff", b"\xed\xa0\x80", b"x" * 255]
)
entries = st.builds(
    lambda kind, key, value_kind, value, more: field(kind, key) + field(value_kind, value, more),
    kinds,
    keys,
    st.sampled_from([1, 2, 15, 15, 1, 2, 0, 16]),
    st.sampled_from([b"v", b"value" * 9, b"x" * 255, b"x" * 256, b""]),
    st.sampled_from([0] * 9 + [1]),
)
headers = st.lists(entries, max_size=3).map(b"".join)
good_entries = st.builds(
    lambda kind, key, value: field(kind, key) + field(1, value),
    st.sampled_from([2, 2, 1, 12]),
    st.sampled_from([b"k", b"source", "schl\u00fcssel".encode()]),
    st.sampled_from([b"v", b"value" * 9]),
)
good_headers = st.lists(good_entries, max_size=3).map(b"".join)
bodies = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"\xffIG\x01", b"\xff", b"\xffS2R\x01" * 9, b"x" * 300, b"y" * 3000]),
)
ids = st.sampled_from([0, 0, 1, 2**64, 2**128 - 1])
times = st.sampled_from([0, 1, 1_700_000_000_000_000, 1_700_000_000_000_000 + 2**32, U64])
envelopes = st.builds(
    envelope, ids, times, good_headers | headers, bodies, st.sampled_from([0] * 9 + [1, -1, 2**31])
)
stored = st.builds(envelope, ids, times, good_headers, bodies) | bodies
good_events = st.lists(stored.map(event), max_size=6).map(b"".join)
events = st.lists(
    st.builds(
        event,
        envelopes | bodies,
        st.sampled_from([0] * 9 + [1, -1, 2**31 - 40_000, 2**32 - 40_000]),
        st.sampled_from([0] * 9 + [1]),
    )
    | st.binary(max_size=9),
    max_size=6,
).map(b"".join)
small = st.sampled_from([0, 1, 2, 2**32, 2**63, U64])
sizes = st.sampled_from([-1, 0, 20, 60, 300, 400, 3000, MOST])


@given(
    st.sampled_from(LAYOUTS),
    st.booleans(),
    good_events | events,
    st.integers(0, 30),
    small,
    times,
    times,
    small,
    small,
    st.sampled_from([-1, 0, 1, 2, 3, MOST]),
    sizes,
)
def test_the_same_events_become_messages(
    compiled: ModuleType,
    layout: int,
    sent: bool,
    data: bytes,
    at: int,
    offset: int,
    time: int,
    origin: int,
    seed: int,
    partition: int,
    most: int,
    limit: int,
) -> None:
    numbers = (offset, time, origin, seed, partition, most, limit)
    for place in (0, min(at, len(data))):
        encoded = compiled.encode_messages(layout, sent, data, place, *numbers)
        assert encoded == iggy_plain.encode_messages(layout, sent, data, place, *numbers)
        view = memoryview(data)
        assert encoded == compiled.encode_messages(layout, sent, view, place, *numbers)
        assert encoded == iggy_plain.encode_messages(layout, sent, view, place, *numbers)


def altered(data: bytes, draw: st.DataObject) -> bytes:
    """Return *data* with a few bytes that are different, or cut off, or longer."""
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(0, 2))):
        if changed:
            at = draw.draw(st.integers(0, len(changed) - 1))
            changed[at] = draw.draw(st.sampled_from([0, 1, 2, 16, 255]))
    cut = draw.draw(st.sampled_from([0] * 5 + [1, 8, 40]))
    return bytes(changed[: max(0, len(changed) - cut)]) + draw.draw(
        st.sampled_from([b""] * 5 + [b"\0", b"x" * 60])
    )


@given(st.sampled_from(LAYOUTS), good_events, st.data())
def test_the_same_messages_of_a_send_become_events(
    compiled: ModuleType, layout: int, data: bytes, draw: st.DataObject
) -> None:
    sent, _, count, _ = iggy_plain.encode_messages(layout, True, data, 0, 0, 0, 5, 0, 0, MOST, MOST)
    batch = altered(sent, draw)
    count += draw.draw(st.sampled_from([0] * 5 + [1, -1, -2, 2**31, 2**40]))
    limits = (
        draw.draw(st.sampled_from([MOST, MOST, 3000, 6, 0])),
        draw.draw(st.sampled_from([MOST, MOST, 3000, 6])),
        draw.draw(st.sampled_from([MOST, 100_000, 20])),
        draw.draw(st.booleans()),
    )
    for batch_form in (batch, memoryview(batch)):
        framed = compiled.frame_messages(layout, batch_form, count, *limits)
        assert framed == iggy_plain.frame_messages(layout, batch_form, count, *limits)


@given(st.sampled_from(LAYOUTS), headers, bodies, ids)
def test_the_same_user_headers_are_refused(
    compiled: ModuleType, layout: int, typed: bytes, body: bytes, chosen: int
) -> None:
    named = chosen.to_bytes(16, "little")
    if layout == forms.CLASSIC:
        batch = named + struct.pack("<I", len(typed)) + typed
        batch += struct.pack("<I", len(body)) + body
    elif layout == forms.RECORDS:
        rest = struct.pack("<16sIIIIQ", named, 0, 9, len(typed), len(body), 0) + body + typed
        frame = struct.pack("<Q", xxh3_64_intdigest(rest)) + rest
        fields = (0, 0, 0, 5, 256 + len(frame), 1)
        total = xxh3_64_intdigest(struct.pack("<QQQQQI", *fields) + frame[:8])
        batch = struct.pack("<QQQQQQI", *fields[:5], total, 1).ljust(256, b"\0") + frame
    else:
        head = forms.HEAD.pack(0, named, 0, 0, 7, len(typed), len(body))
        message = head + bytes(8 * (layout == forms.HEAD_64)) + body + typed
        batch = forms.INDEX_ENTRY.pack(0, len(message), 0) + message
    framed = compiled.frame_messages(layout, batch, 1, MOST, MOST, MOST, True)
    assert framed == iggy_plain.frame_messages(layout, batch, 1, MOST, MOST, MOST, True)


@given(st.sampled_from(LAYOUTS), good_events, good_events, small, st.data())
@example(forms.CLASSIC, event(b""), b"", U64, None)
def test_the_same_messages_of_a_poll_become_events(
    compiled: ModuleType,
    layout: int,
    first: bytes,
    second: bytes,
    gap: int,
    draw: st.DataObject | None,
) -> None:
    one = iggy_plain.encode_messages(layout, False, first, 0, 5, 6, 7, 8, 9, MOST, MOST)
    offset = 5 + one[2] + gap & U64
    other = iggy_plain.encode_messages(layout, False, second, 0, offset, 6, 7, 8, 9, MOST, MOST)
    polled = one[0] + other[0]
    if draw is not None:
        polled = altered(polled, draw)
    for at in (0, len(one[0]), len(polled)):
        if at <= len(polled):
            cut = compiled.cut_messages(layout, polled, at)
            assert cut == iggy_plain.cut_messages(layout, memoryview(polled), at)


@given(st.sampled_from(LAYOUTS), st.binary(max_size=400), st.integers(0, 5))
def test_any_bytes_are_read_alike(
    compiled: ModuleType, layout: int, data: bytes, count: int
) -> None:
    limits = (count, MOST, MOST, MOST, True)
    framed = compiled.frame_messages(layout, data, *limits)
    assert framed == iggy_plain.frame_messages(layout, data, *limits)
    assert compiled.cut_messages(layout, data, 0) == iggy_plain.cut_messages(layout, data, 0)


@pytest.mark.parametrize("size", [*range(420), 1000, 1023, 1024, 1025, 1088, 2049, 70_000])
def test_checksums_are_those_of_the_packages(compiled: ModuleType, size: int) -> None:
    payload = bytes(number * 37 % 251 for number in range(size))
    numbers = (0, 0, 0, 1, 0, MOST, MOST)
    classic = compiled.encode_messages(forms.CLASSIC, False, event(payload), 0, *numbers)[0]
    assert struct.unpack_from("<I", classic, 33)[0] == crc32(payload)
    headed = compiled.encode_messages(forms.HEAD_56, False, event(payload), 0, *numbers)[0]
    assert struct.unpack_from("<Q", headed)[0] == xxh3_64_intdigest(headed[8:])
    assert compiled.cut_messages(forms.HEAD_56, headed, 0)[4] == forms.NONE


def test_a_record_of_many_messages_has_its_own_checksum(compiled: ModuleType) -> None:
    # its checksum covers 8 bytes a message: one of each of the hash's ways
    for count in (1, 2, 9, 11, 24, 25, 30, 200):
        numbers = (7, 8, 9, 1, 3, MOST, MOST)
        record = compiled.encode_messages(forms.RECORDS, False, event(b"x") * count, 0, *numbers)
        assert record == iggy_plain.encode_messages(
            forms.RECORDS, False, event(b"x") * count, 0, *numbers
        )
        assert record[2] == count


@pytest.mark.parametrize("at", [-1, 1])
def test_a_place_outside_of_the_data_is_refused(compiled: ModuleType, at: int) -> None:
    for loops in (compiled, iggy_plain):
        with pytest.raises(ValueError, match="no event"):
            loops.encode_messages(forms.CLASSIC, False, b"", at, 0, 0, 0, 0, 0, 0, 0)
        with pytest.raises(ValueError, match="no message"):
            loops.cut_messages(forms.CLASSIC, b"", at)
