"""User headers: each type both ways, and what is none is refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.messages.headers import (
    HeaderEntry,
    HeaderKind,
    HeaderValue,
    TypedField,
    decode_headers,
    encode_headers,
    header,
)

SIGNED = [HeaderKind.INT8, HeaderKind.INT16, HeaderKind.INT32, HeaderKind.INT64, HeaderKind.INT128]
UNSIGNED = [
    HeaderKind.UINT8,
    HeaderKind.UINT16,
    HeaderKind.UINT32,
    HeaderKind.UINT64,
    HeaderKind.UINT128,
]


def fields_of(kind: HeaderKind) -> st.SearchStrategy[TypedField]:
    values: st.SearchStrategy[HeaderValue]
    if kind in SIGNED:
        bits = 8 * 2 ** SIGNED.index(kind) - 1
        values = st.integers(-(2**bits), 2**bits - 1)
    elif kind in UNSIGNED:
        values = st.integers(0, 2 ** (8 * 2 ** UNSIGNED.index(kind)) - 1)
    elif kind is HeaderKind.RAW:
        values = st.binary(min_size=1, max_size=255)
    elif kind is HeaderKind.STRING:
        values = st.text(min_size=1, max_size=60)
    elif kind is HeaderKind.BOOL:
        values = st.booleans()
    else:
        values = st.floats(allow_nan=False, width=32)
    return st.builds(TypedField.of, values, st.just(kind))


fields = st.sampled_from(list(HeaderKind)).flatmap(fields_of)


@given(st.lists(st.builds(HeaderEntry, fields, fields), max_size=5))
def test_headers_are_read_as_they_were_written(headers: list[HeaderEntry]) -> None:
    data = encode_headers(headers)
    assert decode_headers(data) == headers
    assert decode_headers(memoryview(data)) == headers
    for entry in headers:
        for field in entry:
            assert TypedField.of(field.value, field.kind) == field


def test_a_header_has_the_bytes_that_clients_send() -> None:
    entry = header("k1", -2, HeaderKind.INT32)
    assert encode_headers([entry]).hex() == "02020000006b310604000000feffffff"
    assert entry.value.value == -2


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"\0\1", HeaderKind.RAW),
        ("text", HeaderKind.STRING),
        (True, HeaderKind.BOOL),
        (5, HeaderKind.INT64),
        (0.5, HeaderKind.FLOAT64),
    ],
)
def test_a_value_has_the_kind_of_its_type(value: HeaderValue, kind: HeaderKind) -> None:
    field = TypedField.of(value)
    assert field.kind is kind
    assert field.value == value
    assert type(field.value) is type(value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (128, HeaderKind.INT8),
        (-1, HeaderKind.UINT64),
        (2**63, None),
        ("text", HeaderKind.RAW),
        (b"raw", HeaderKind.STRING),
        (1, HeaderKind.BOOL),
        (1e300, HeaderKind.FLOAT32),
        ("", None),
        (b"", None),
        ("x" * 256, None),
    ],
)
def test_a_value_that_is_not_of_its_kind_is_refused(
    value: HeaderValue, kind: HeaderKind | None
) -> None:
    with pytest.raises(ValueError, match=r"is no|bytes"):
        TypedField.of(value, kind)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (HeaderKind.INT32, b"\1\2\3"),
        (HeaderKind.FLOAT64, b"\0"),
        (HeaderKind.BOOL, b"\2"),
        (HeaderKind.BOOL, b"\0\0"),
        (HeaderKind.STRING, b"\xff"),
    ],
)
def test_a_value_with_other_bytes_is_told_when_it_is_read(kind: HeaderKind, data: bytes) -> None:
    with pytest.raises(IggyError) as caught:
        _ = TypedField(kind, data).value
    assert caught.value.reason is Reason.INVALID_HEADER_VALUE


def read_or_refused(data: bytes) -> list[HeaderEntry] | Reason:
    try:
        return decode_headers(data)
    except IggyError as error:
        return error.reason


@given(st.binary(max_size=60))
def test_any_bytes_are_headers_or_an_error(data: bytes) -> None:
    found = read_or_refused(data)
    if isinstance(found, Reason):
        assert found in {
            Reason.INVALID_HEADER_KEY,
            Reason.INVALID_HEADER_VALUE,
            Reason.INVALID_HEADER_KIND,
        }
    else:
        assert encode_headers(found) == data


def test_headers_that_are_cut_off_are_an_error() -> None:
    data = encode_headers([header("key", "value")])
    for end in range(1, len(data)):
        with pytest.raises(IggyError):
            decode_headers(data[:end])
    with pytest.raises(IggyError):
        decode_headers(data + struct.pack("<BI", 2, 9))
