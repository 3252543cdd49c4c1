"""User headers of messages: typed keys and values. See docs/protocols/iggy.md#user-headers.

They are kept in the form of R2C and R3: `kind u8, length u32, key, kind u8, length u32, value`, one
after the other, numbers little-endian. Up to R2B keys are texts and have no kind.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from logdrive.kernel import iggy_forms as forms
from logdrive.model.framing import Part
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import HEADER_BYTES
from logdrive.wire.iggy.messages.layouts import fault_error
from logdrive.wire.iggy.revision import Revision

HeaderValue = bytes | str | bool | int | float


class HeaderKind(IntEnum):
    """The type of a key or of a value."""

    RAW = 1
    STRING = 2
    BOOL = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    INT128 = 8
    UINT8 = 9
    UINT16 = 10
    UINT32 = 11
    UINT64 = 12
    UINT128 = 13
    FLOAT32 = 14
    FLOAT64 = 15


_INTEGERS: Final = {  # bytes, signed
    HeaderKind.INT8: (1, True),
    HeaderKind.INT16: (2, True),
    HeaderKind.INT32: (4, True),
    HeaderKind.INT64: (8, True),
    HeaderKind.INT128: (16, True),
    HeaderKind.UINT8: (1, False),
    HeaderKind.UINT16: (2, False),
    HeaderKind.UINT32: (4, False),
    HeaderKind.UINT64: (8, False),
    HeaderKind.UINT128: (16, False),
}
_FLOATS: Final = {
    HeaderKind.FLOAT32: struct.Struct("<f"),
    HeaderKind.FLOAT64: struct.Struct("<d"),
}
_LENGTH: Final = struct.Struct("<I")


class TypedField(NamedTuple):
    """A key or a value: its *kind*, and its bytes as they travel."""

    kind: HeaderKind
    data: bytes

    @classmethod
    def of(cls, value: HeaderValue, kind: HeaderKind | None = None) -> "TypedField":
        """Return *value* as a field; without a *kind*, integers are INT64 and floats FLOAT64.

        Raises ValueError where the value is not of that kind, or has not 1 to 255 bytes.
        """
        chosen = _kind_of(value) if kind is None else kind
        try:
            data = _encode_value(chosen, value)
        except (OverflowError, struct.error, TypeError, AttributeError):
            raise ValueError(f"{value!r} is no {chosen.name.lower()}") from None
        if not 1 <= len(data) <= HEADER_BYTES:
            raise ValueError(f"a header's key or value of {len(data)} bytes: 1 to {HEADER_BYTES}")
        return cls(chosen, data)

    @property
    def value(self) -> HeaderValue:
        """The value in Python. Raises `IggyError`, INVALID_HEADER_VALUE, if it is not of its kind.

        Servers do not check that.
        """
        kind, data = self
        if kind in _INTEGERS and len(data) == _INTEGERS[kind][0]:
            return int.from_bytes(data, "little", signed=_INTEGERS[kind][1])
        if kind in _FLOATS and len(data) == _FLOATS[kind].size:
            return float(_FLOATS[kind].unpack(data)[0])
        if kind is HeaderKind.BOOL and data in (b"\0", b"\1"):
            return data == b"\1"
        if kind is HeaderKind.RAW:
            return data
        if kind is HeaderKind.STRING:
            try:
                return data.decode()
            except UnicodeDecodeError:
                pass
        raise IggyError(Reason.INVALID_HEADER_VALUE, f"{data!r} is no {kind.name.lower()}")


class HeaderEntry(NamedTuple):
    """One user header."""

    key: TypedField
    value: TypedField


def header(key: str, value: HeaderValue, kind: HeaderKind | None = None) -> HeaderEntry:
    """Return a header whose key is a text. Raises ValueError as `TypedField.of` does."""
    return HeaderEntry(TypedField.of(key), TypedField.of(value, kind))


def encode_headers(headers: Iterable[HeaderEntry]) -> bytes:
    """Return *headers* in R2C's form. Keys have to differ; that is not checked here."""
    pieces: list[bytes] = []
    for entry in headers:
        for kind, data in entry:
            pieces += (bytes((kind,)), _LENGTH.pack(len(data)), data)
    return b"".join(pieces)


def decode_headers(data: Part) -> list[HeaderEntry]:
    """Return the headers that *data* is, in R2C's form.

    Raises `IggyError`: INVALID_HEADER_KEY, INVALID_HEADER_VALUE, INVALID_HEADER_KIND.
    """
    fault = forms.headers_fault(data, 0, len(data), typed=True)
    if fault:
        raise fault_error(Revision.R2C, fault)
    fields = list(_fields(data))
    return [HeaderEntry(*pair) for pair in zip(fields[::2], fields[1::2], strict=True)]


def _fields(data: Part) -> Iterator[TypedField]:
    at = 0
    while at < len(data):
        start = at + 1 + _LENGTH.size
        end = start + _LENGTH.unpack_from(data, at + 1)[0]
        yield TypedField(HeaderKind(data[at]), bytes(data[start:end]))
        at = end


def _kind_of(value: HeaderValue) -> HeaderKind:
    match value:
        case bytes():
            return HeaderKind.RAW
        case str():
            return HeaderKind.STRING
        case bool():
            return HeaderKind.BOOL
        case int():
            return HeaderKind.INT64
        case float():
            return HeaderKind.FLOAT64


def _encode_value(kind: HeaderKind, value: HeaderValue) -> bytes:
    if kind in _INTEGERS and isinstance(value, int):
        size, signed = _INTEGERS[kind]
        return value.to_bytes(size, "little", signed=signed)
    if kind in _FLOATS and isinstance(value, float | int):
        return _FLOATS[kind].pack(value)
    if kind is HeaderKind.BOOL and isinstance(value, bool):
        return bytes((value,))
    if kind is HeaderKind.STRING and isinstance(value, str):
        return value.encode()
    if kind is HeaderKind.RAW and isinstance(value, bytes):
        return value
    raise TypeError
