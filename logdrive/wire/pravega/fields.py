"""The field types of messages: each alias is a Python type and how it is encoded.

    @message(28)
    class SealSegment(Message):
        request_id: I64
        segment: Text
        token: Text = ""

Fields are encoded in the order in which they are declared. A `Tail…` field may be missing at the
end of a payload, with all fields after it; it takes its default then. Surplus bytes behind the last
field are ignored. A default on any other type is only a convenience for code that creates messages.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar, cast
from uuid import UUID

from logdrive.model.framing import Part
from logdrive.wire.pravega.limits import PRAVEGA_LIST_ITEMS
from logdrive.wire.pravega.text import decode_text, encode_text

T = TypeVar("T")


class ShortPayloadError(ValueError):
    """The payload ends inside a field."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """The codec of one field.

    *read* takes the payload and the field's offset in it, and returns the value and the offset
    behind the field; it raises ValueError. *write* takes the value and appends its bytes to a list
    of parts; long values are appended as they are, without a copy.
    """

    read: Callable[[memoryview, int], tuple[T, int]]
    write: Callable[[T, list[Part]], None]
    optional: bool = False  # whether it may be missing at the end of a payload

    def as_tail(self) -> "Kind[T]":
        """Return the codec of a field that may be missing at the end of a payload."""
        return Kind(self.read, self.write, optional=True)


def _slice(payload: memoryview, start: int, size: int) -> bytes:
    end = start + size
    if size < 0 or end > len(payload):
        raise ShortPayloadError(f"a field of {size} bytes where {len(payload) - start} are left")
    return bytes(payload[start:end])


def _fixed(layout: str) -> Kind[int]:
    shape = struct.Struct(f"!{layout}")

    def read(payload: memoryview, at: int) -> tuple[int, int]:
        if at + shape.size > len(payload):
            raise ShortPayloadError(
                f"a field of {shape.size} bytes where {len(payload) - at} are left"
            )
        return shape.unpack_from(payload, at)[0], at + shape.size

    def write(value: int, parts: list[Part]) -> None:
        try:
            parts.append(shape.pack(value))
        except struct.error as error:
            raise ValueError(f"{value} in a field of {shape.size} bytes") from error

    return Kind(read, write)


_I8: Final = _fixed("b")
_I32: Final = _fixed("i")
_I64: Final = _fixed("q")
_U16: Final = _fixed("H")


def _read_bool(payload: memoryview, at: int) -> tuple[bool, int]:
    value, end = _I8.read(payload, at)
    return value != 0, end


def _write_bool(value: bool, parts: list[Part]) -> None:
    parts.append(b"\1" if value else b"\0")


def _read_text(payload: memoryview, at: int) -> tuple[str, int]:
    size, start = _U16.read(payload, at)
    return decode_text(_slice(payload, start, size)), start + size


def _write_text(value: str, parts: list[Part]) -> None:
    data = encode_text(value)
    if len(data) > 0xFFFF:
        raise ValueError(f"a string of {len(data)} bytes; its length field allows at most 65535")
    _U16.write(len(data), parts)
    parts.append(data)


def _read_uuid(payload: memoryview, at: int) -> tuple[UUID, int]:
    return UUID(bytes=_slice(payload, at, 16)), at + 16


def _write_uuid(value: UUID, parts: list[Part]) -> None:
    parts.append(value.bytes)


def _read_bytes(payload: memoryview, at: int) -> tuple[bytes, int]:
    size, start = _I32.read(payload, at)
    return _slice(payload, start, size), start + size


def _write_bytes(value: Part, parts: list[Part]) -> None:
    _I32.write(len(value), parts)
    parts.append(value)


def _write_blocks(value: Part | tuple[Part, ...], parts: list[Part]) -> None:
    if isinstance(value, tuple):
        _I32.write(sum(map(len, value)), parts)
        parts.extend(value)
    else:
        _write_bytes(value, parts)


def _read_block(payload: memoryview, at: int) -> tuple[Part, int]:
    size, start = _I32.read(payload, at)
    # a view keeps the whole message in memory
    if 0 <= size <= len(payload) - start and size * 2 >= len(cast("bytes", payload.obj)):
        return payload[start : start + size], start + size
    return _slice(payload, start, size), start + size


def _read_rest(payload: memoryview, at: int) -> tuple[bytes, int]:
    return bytes(payload[at:]), len(payload)


def _write_rest(value: bytes, parts: list[Part]) -> None:
    parts.append(value)


def _read_event(payload: memoryview, at: int) -> tuple[bytes, int]:
    kind, at = _I32.read(payload, at)
    if kind != 0:
        raise ValueError(f"an embedded event of type {kind}")
    return _read_bytes(payload, at)


def _write_event(value: bytes, parts: list[Part]) -> None:
    _I32.write(0, parts)
    _write_bytes(value, parts)


def many(item: Kind[T]) -> Kind[tuple[T, ...]]:
    """Return the codec of a list: the count of its items, then the items."""

    def read(payload: memoryview, at: int) -> tuple[tuple[T, ...], int]:
        count, at = _I32.read(payload, at)
        if not 0 <= count <= PRAVEGA_LIST_ITEMS:
            raise ValueError(f"a list of {count} items; at most {PRAVEGA_LIST_ITEMS} are taken")
        items: list[T] = []
        for _ in range(count):
            value, at = item.read(payload, at)
            items.append(value)
        return tuple(items), at

    def write(values: tuple[T, ...], parts: list[Part]) -> None:
        _I32.write(len(values), parts)
        for value in values:
            item.write(value, parts)

    return Kind(read, write)


def _read_i64s(payload: memoryview, at: int) -> tuple[tuple[int, ...], int]:
    count, at = _I32.read(payload, at)
    if not 0 <= count <= PRAVEGA_LIST_ITEMS:
        raise ValueError(f"a list of {count} items; at most {PRAVEGA_LIST_ITEMS} are taken")
    end = at + 8 * count
    return struct.unpack(f"!{count}q", _slice(payload, at, 8 * count)), end


def _write_i64s(values: tuple[int, ...], parts: list[Part]) -> None:
    _I32.write(len(values), parts)
    parts.append(struct.pack(f"!{len(values)}q", *values))


TEXT: Final = Kind(_read_text, _write_text)
BYTES: Final = Kind(_read_bytes, _write_bytes)

_BOOL: Final = Kind(_read_bool, _write_bool)

I8 = Annotated[int, _I8]
I32 = Annotated[int, _I32]
I64 = Annotated[int, _I64]
Bool = Annotated[bool, _BOOL]
Text = Annotated[str, TEXT]
Uuid = Annotated[UUID, Kind(_read_uuid, _write_uuid)]
Bytes = Annotated[bytes, BYTES]
"""Bytes after their i32 length."""
Block = Annotated[Part, Kind(_read_block, _write_bytes)]
"""The same; read as a view if it is at least half of the message, so that the view keeps at most
twice its size in memory, else as a copy.
"""
BlockParts = Annotated[Part | tuple[Part, ...], Kind(_read_block, _write_blocks)]
"""The same; may be written in parts, without a copy, and is read as one part."""
Rest = Annotated[bytes, Kind(_read_rest, _write_rest)]
"""Bytes up to the end of the frame."""
Event = Annotated[bytes, Kind(_read_event, _write_event)]
"""One event inside a message; the value is its payload without the eight bytes of framing."""
Texts = Annotated[tuple[str, ...], many(TEXT)]
I64s = Annotated[tuple[int, ...], Kind(_read_i64s, _write_i64s)]
"""A list of i64, read and written in one step, however long it is."""
TailI32 = Annotated[int, _I32.as_tail()]
TailI64 = Annotated[int, _I64.as_tail()]
TailBool = Annotated[bool, _BOOL.as_tail()]
TailText = Annotated[str, TEXT.as_tail()]
TailBytes = Annotated[bytes, BYTES.as_tail()]


def kind_of(annotation: Any) -> Kind[Any]:
    """Return the codec in one of the aliases above. Raises TypeError for a plain type."""
    for metadata in getattr(annotation, "__metadata__", ()):
        if isinstance(metadata, Kind):
            return metadata
    raise TypeError(f"{annotation!r} is not one of the field types")
