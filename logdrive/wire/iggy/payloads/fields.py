"""Codecs of the plain fields: numbers, texts, lists."""

from enum import IntEnum
from typing import Any, Final, TypeVar

from logdrive.model.framing import Part
from logdrive.wire.iggy.limits import TEXT_BYTES, U8_MAX
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.shapes import FieldCodec, Simple

E = TypeVar("E", bound=IntEnum)
T = TypeVar("T")


def _read_bool(reader: PayloadReader) -> bool:
    value = reader.u8()
    if value > 1:
        raise ValueError(f"{value} where 0 or 1 is expected")
    return value == 1


def _write_bool(value: bool, writer: PayloadWriter) -> None:
    writer.u8(1 if value else 0)


def _read_text8(reader: PayloadReader) -> str:
    return reader.text(reader.u8())


def _write_text8(value: str, writer: PayloadWriter) -> None:
    data = value.encode()
    if len(data) > U8_MAX:
        raise ValueError(f"a text of {len(data)} bytes; at most {U8_MAX} are possible")
    writer.u8(len(data))
    writer.put(data)


def _read_text32(reader: PayloadReader) -> str:
    size = reader.u32()
    if size > TEXT_BYTES:
        raise ValueError(f"a text of {size} bytes; at most {TEXT_BYTES} are taken")
    return reader.text(size)


def _write_text32(value: str, writer: PayloadWriter) -> None:
    data = value.encode()
    if len(data) > TEXT_BYTES:
        raise ValueError(f"a text of {len(data)} bytes; at most {TEXT_BYTES} are taken")
    writer.u32(len(data))
    writer.put(data)


def _read_bytes8(reader: PayloadReader) -> bytes:
    return reader.take(reader.u8())


def _write_bytes8(value: bytes, writer: PayloadWriter) -> None:
    if len(value) > U8_MAX:
        raise ValueError(f"{len(value)} bytes; at most {U8_MAX} are possible")
    writer.u8(len(value))
    writer.put(value)


def _write_rest(value: Part | tuple[Part, ...], writer: PayloadWriter) -> None:
    if isinstance(value, tuple):
        writer.parts += value
    else:
        writer.put(value)


U8: Final[FieldCodec[int]] = Simple(PayloadReader.u8, lambda value, writer: writer.u8(value))
U32: Final[FieldCodec[int]] = Simple(PayloadReader.u32, lambda value, writer: writer.u32(value))
U64: Final[FieldCodec[int]] = Simple(PayloadReader.u64, lambda value, writer: writer.u64(value))
F32: Final[FieldCodec[float]] = Simple(PayloadReader.f32, lambda value, writer: writer.f32(value))
U16: Final[FieldCodec[int]] = Simple(
    lambda reader: int.from_bytes(reader.view(2), "little"),
    lambda value, writer: writer.put(_u16(value)),
)
BOOL: Final[FieldCodec[bool]] = Simple(_read_bool, _write_bool)
TEXT8: Final[FieldCodec[str]] = Simple(_read_text8, _write_text8)
"""A text behind its length of one byte."""
TEXT32: Final[FieldCodec[str]] = Simple(_read_text32, _write_text32)
"""A text behind its length of four bytes."""
BYTES8: Final[FieldCodec[bytes]] = Simple(_read_bytes8, _write_bytes8)
"""Bytes behind their length of one byte."""
REST: Final[FieldCodec[Any]] = Simple(lambda reader: reader.view(reader.left), _write_rest)
"""Bytes up to the payload's end: read as a view, written as one part or a tuple of them."""


def _u16(value: int) -> bytes:
    try:
        return value.to_bytes(2, "little")
    except OverflowError as error:
        raise ValueError(f"{value} in a field of 2 bytes") from error


def choice(kind: type[E]) -> FieldCodec[E]:
    """Return the codec of an enum in one byte; another value is an error."""
    return Simple(lambda reader: kind(reader.u8()), lambda value, writer: writer.u8(value))


def or_none(codec: FieldCodec[int], none: int = 0) -> FieldCodec[int | None]:
    """Return the codec of a number that stands for None where it is *none*."""

    def read(reader: PayloadReader) -> int | None:
        value = codec.read(reader)
        return None if value == none else value

    def write(value: int | None, writer: PayloadWriter) -> None:
        codec.write(none if value is None else value, writer)

    return Simple(read, write)


def flagged(codec: FieldCodec[T]) -> FieldCodec[T | None]:
    """Return the codec of a byte 1 and the value, or of a byte 0 for None."""

    def read(reader: PayloadReader) -> T | None:
        return codec.read(reader) if _read_bool(reader) else None

    def write(value: T | None, writer: PayloadWriter) -> None:
        _write_bool(value is not None, writer)
        if value is not None:
            codec.write(value, writer)

    return Simple(read, write)


def to_end(item: FieldCodec[T]) -> FieldCodec[tuple[T, ...]]:
    """Return the codec of a list without a count, up to the payload's end."""

    def read(reader: PayloadReader) -> tuple[T, ...]:
        items = []
        while reader.left:
            items.append(item.read(reader))
        return tuple(items)

    def write(values: tuple[T, ...], writer: PayloadWriter) -> None:
        for value in values:
            item.write(value, writer)

    return Simple(read, write)


def counted(item: FieldCodec[T], *, item_bytes: int) -> FieldCodec[tuple[T, ...]]:
    """Return the codec of a list behind its count; an item has at least *item_bytes* > 0.

    So a count is refused that the payload can't hold.
    """

    def read(reader: PayloadReader) -> tuple[T, ...]:
        count = reader.u32()
        if count * item_bytes > reader.left:
            raise ValueError(f"a list of {count} items in {reader.left} bytes")
        return tuple(item.read(reader) for _ in range(count))

    def write(values: tuple[T, ...], writer: PayloadWriter) -> None:
        writer.u32(len(values))
        for value in values:
            item.write(value, writer)

    return Simple(read, write)
