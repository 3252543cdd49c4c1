"""Thrift's compact protocol, as far as Parquet's metadata is written in it.

A struct is a dictionary of its fields by number, each with its type, so that fields that we know
nothing of are written as they were read. Source: thrift-compact-protocol.md of Apache Thrift.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from logdrive.errors import StorageError
from logdrive.kernel.varints import encode_varint

TRUE: Final = 1
FALSE: Final = 2
I8: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
STRUCT: Final = 12

_INTEGERS: Final = (I16, I32, I64)
_LONG_LIST = 15  # stands for a number of items that follows
_LONG_STEP = 15  # from one field's number to the next: what does not fit a byte's half
_DEEPEST = 32  # structs and lists in each other
_DOUBLE = struct.Struct("<d")

Field = tuple[int, Any]
"""Type and value. Those of a list are `(type of its items, items)`."""
Struct = dict[int, Field]
"""Fields by number."""


class CompactReader:
    """Reads a struct from bytes; they are compared with nothing but their own lengths."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._readers: dict[int, Callable[[int], Any]] = {
            TRUE: lambda _: True,
            FALSE: lambda _: False,
            I8: lambda _: self._take(1),
            **dict.fromkeys(_INTEGERS, lambda _: self._integer()),
            DOUBLE: lambda _: self._take(_DOUBLE.size),
            BINARY: lambda _: self._take(self._varint()),
            LIST: self._list,
            SET: self._list,
            STRUCT: self._struct,
        }

    def read_struct(self) -> Struct:
        """Return the struct that the bytes are. Raises `StorageError` if they are none."""
        fields = self._struct(0)
        if self._at != len(self._data):
            raise StorageError(f"{len(self._data) - self._at} bytes behind a struct of Thrift")
        return fields

    def _struct(self, depth: int) -> Struct:
        fields: Struct = {}
        number = 0
        while head := self._take(1)[0]:
            step, kind = head >> 4, head & 0x0F
            number = number + step if step else self._integer()
            fields[number] = (kind, self._value(kind, depth))
        return fields

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._take(1)[0]
        count, kind = head >> 4, head & 0x0F
        if count == _LONG_LIST:
            count = self._varint()
        if kind in (TRUE, FALSE):  # a byte for each item, other than in a struct
            return kind, [self._take(1)[0] == TRUE for _ in range(count)]
        return kind, [self._value(kind, depth) for _ in range(count)]

    def _value(self, kind: int, depth: int) -> Any:
        if kind not in self._readers or depth > _DEEPEST:
            raise StorageError(f"type {kind} of Thrift, {depth} levels deep, at byte {self._at}")
        return self._readers[kind](depth + 1)

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise StorageError(f"a struct of Thrift ends within {size} bytes at {self._at}")
        self._at += size
        return taken


def encode_struct(fields: Struct) -> bytes:
    """Return *fields* as they are written, in the order of their numbers."""
    parts: list[bytes] = []
    before = 0
    for number in sorted(fields):
        kind, value = fields[number]
        if isinstance(value, bool):
            kind = TRUE if value else FALSE
        step = number - before
        if 0 < step <= _LONG_STEP:
            parts.append(bytes([step << 4 | kind]))
        else:
            parts += [bytes([kind]), _integer(number)]
        if kind not in (TRUE, FALSE):
            parts.append(_encode_value(kind, value))
        before = number
    parts.append(b"\0")
    return b"".join(parts)


def _encode_value(kind: int, value: Any) -> bytes:
    if kind in _INTEGERS:
        return _integer(value)
    if kind == BINARY:
        return encode_varint(len(value)) + bytes(value)
    if kind in (LIST, SET):
        return _encode_list(*value)
    if kind == STRUCT:
        return encode_struct(value)
    return bytes(value)  # as it was read


def _encode_list(kind: int, items: list[Any]) -> bytes:
    short = len(items) < _LONG_LIST
    head = bytes([(len(items) if short else _LONG_LIST) << 4 | kind])
    parts = [head if short else head + encode_varint(len(items))]
    if kind in (TRUE, FALSE):
        parts += [bytes([TRUE if item else FALSE]) for item in items]
    else:
        parts += [_encode_value(kind, item) for item in items]
    return b"".join(parts)


def _integer(value: int) -> bytes:
    return encode_varint(value << 1 ^ value >> 63)
