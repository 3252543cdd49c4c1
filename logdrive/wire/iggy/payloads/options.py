"""Codecs of options: the fixed fields of R0 to R2C, the blocks of R3.

See docs/protocols/iggy.md#topic-options. A block has entries `kind u8 = 2, length u32, key, kind
u8, length u32, value`, in the order of their keys. In a request it runs to the end; in a reply its
length (u32) precedes it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import (
    HEADER_BYTES,
    NEVER,
    OPTIONS,
    OPTIONS_BYTES,
    U32_MAX,
)
from logdrive.wire.iggy.options import Durability, IggyCompression, TopicOptions
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.fields import U8, U64, choice, or_none
from logdrive.wire.iggy.payloads.quantities import parse_duration, parse_size
from logdrive.wire.iggy.payloads.shapes import FieldCodec, Simple
from logdrive.wire.iggy.revision import Revision

TEXT_KIND: Final = 2
BOOL_KIND: Final = 3
U32_KIND: Final = 11
U64_KIND: Final = 12
_NUMBER_BYTES: Final = {U32_KIND: 4, U64_KIND: 8}
_SECOND: Final = 1_000_000  # µs


@dataclass(frozen=True, slots=True)
class OptionValue:
    """One entry of a block, not yet understood: *kind* is that of a user header."""

    key: str
    kind: int
    value: bytes


@dataclass(frozen=True, slots=True)
class OptionType:
    """How an option's value is read, and written with *kind*."""

    kind: int
    read: Callable[[OptionValue], Any]
    write: Callable[[Any], bytes]


def _integer(option: OptionValue) -> int:
    if len(option.value) != _NUMBER_BYTES.get(option.kind):
        raise ValueError(f"{len(option.value)} bytes of kind {option.kind}")
    return int.from_bytes(option.value, "little")


def _number(kind: int, parse: Callable[[str], int] | None = None) -> OptionType:
    def read(option: OptionValue) -> int:
        if option.kind == TEXT_KIND and parse is not None:
            return parse(str(option.value, "utf-8"))
        value = _integer(option)
        if kind == U32_KIND and value > U32_MAX:
            raise ValueError(f"{value} is over {U32_MAX}")
        return value

    def write(value: int) -> bytes:
        return value.to_bytes(_NUMBER_BYTES[kind], "little")

    return OptionType(kind, read, write)


def _read_bool(option: OptionValue) -> bool:
    if option.kind != BOOL_KIND or option.value not in {b"\0", b"\1"}:
        raise ValueError(f"{option.value!r} of kind {option.kind}")
    return option.value == b"\1"


def _read_compression(option: OptionValue) -> IggyCompression:
    if option.kind != TEXT_KIND or option.value.upper() not in {b"NONE", b"GZIP"}:
        raise ValueError(f"{option.value!r} of kind {option.kind}")
    return IggyCompression[option.value.decode().upper()]


def _read_durability(option: OptionValue) -> Durability:
    if option.kind != TEXT_KIND:
        raise ValueError(f"a value of kind {option.kind}")
    return Durability(str(option.value, "utf-8"))


_BOOL: Final = OptionType(BOOL_KIND, _read_bool, lambda value: b"\1" if value else b"\0")
_COMPRESSION: Final = OptionType(
    TEXT_KIND, _read_compression, lambda value: value.name.lower().encode()
)
_DURABILITY: Final = OptionType(TEXT_KIND, _read_durability, lambda value: value.value.encode())
_U32: Final = _number(U32_KIND)
_U64: Final = _number(U64_KIND)
# key, attribute of TopicOptions and type, in the order in which they are written
_TOPIC_OPTIONS: Final = (
    ("compression_algorithm", "compression", _COMPRESSION),
    ("consumer_offset_durability", "consumer_offset_durability", _DURABILITY),
    ("durability", "durability", _DURABILITY),
    ("enforce_fsync", "enforce_fsync", _BOOL),
    ("max_topic_size", "max_size", _number(U64_KIND, parse_size)),
    ("message_expiry", "expiry_us", _number(U64_KIND, parse_duration)),
    ("messages_required_to_save", "messages_required_to_save", _U32),
    ("preallocate_segments", "preallocate", _BOOL),
    ("segment_size", "segment_size", _number(U64_KIND, parse_size)),
    ("size_of_messages_required_to_save", "size_required_to_save", _U64),
)
_TYPES: Final = {key: (attribute, kind) for key, attribute, kind in _TOPIC_OPTIONS}


def read_entries(reader: PayloadReader) -> Iterator[OptionValue]:
    """Yield the entries up to the payload's end. Raises ValueError, IggyError OPTIONS_TOO_BIG."""
    if reader.left > OPTIONS_BYTES:
        raise IggyError(Reason.OPTIONS_TOO_BIG, f"{reader.left} bytes, over {OPTIONS_BYTES}")
    for count in range(1, OPTIONS + 2):
        if not reader.left:
            return
        if count > OPTIONS:
            raise IggyError(Reason.OPTIONS_TOO_BIG, f"over {OPTIONS} options")
        key_kind, size = reader.u8(), reader.u32()
        if key_kind != TEXT_KIND or not 1 <= size <= HEADER_BYTES:
            raise ValueError(f"an option's key of kind {key_kind} with {size} bytes")
        key = reader.text(size)
        kind, size = reader.u8(), reader.u32()
        if not 1 <= size <= HEADER_BYTES:
            raise ValueError(f"the value of option {key!r} has {size} bytes")
        yield OptionValue(key, kind, reader.take(size))


def write_entry(option: OptionValue, writer: PayloadWriter) -> None:
    """Write one entry. Raises ValueError."""
    key = option.key.encode()
    for part in (key, option.value):
        if not 1 <= len(part) <= HEADER_BYTES:
            raise ValueError(f"{len(part)} bytes in option {option.key!r}")
    writer.u8(TEXT_KIND)
    writer.u32(len(key))
    writer.put(key)
    writer.u8(option.kind)
    writer.u32(len(option.value))
    writer.put(option.value)


def _read_topic_options(reader: PayloadReader, *, strict: bool) -> TopicOptions:
    values: dict[str, Any] = {}
    for option in read_entries(reader):
        known = _TYPES.get(option.key)
        if known is None:
            if strict:
                raise IggyError(Reason.UNKNOWN_OPTION, f"option {option.key!r} of a topic")
            continue
        attribute, kind = known
        if attribute in values:
            raise IggyError(Reason.INVALID_OPTION_VALUE, f"option {option.key!r} is given twice")
        try:
            values[attribute] = kind.read(option)
        except ValueError as error:
            raise IggyError(Reason.INVALID_OPTION_VALUE, f"{option.key!r}: {error}") from error
    return TopicOptions(**values)


def _write_topic_options(options: TopicOptions, writer: PayloadWriter) -> None:
    for key, attribute, kind in _TOPIC_OPTIONS:
        value = getattr(options, attribute)
        if value is not None:
            try:
                data = kind.write(value)
            except OverflowError as error:
                raise ValueError(f"option {key!r} = {value}") from error
            write_entry(OptionValue(key, kind.kind, data), writer)


def _read_told(reader: PayloadReader) -> TopicOptions:
    block = PayloadReader(reader.revision, reader.view(reader.u32()))
    return _read_topic_options(block, strict=False)


def _write_told(options: TopicOptions, writer: PayloadWriter) -> None:
    block = writer.nested()
    _write_topic_options(options, block)
    data = block.joined()
    writer.u32(len(data))
    writer.put(data)


GIVEN_OPTIONS: Final[FieldCodec[TopicOptions]] = Simple(
    lambda reader: _read_topic_options(reader, strict=True), _write_topic_options
)
"""A block in a request of R3; an option that is not known is an error there."""
TOLD_OPTIONS: Final[FieldCodec[TopicOptions]] = Simple(_read_told, _write_told)
"""A block in a reply of R3; a newer server may tell options that are not known here."""


def _refuse_options(reader: PayloadReader) -> None:
    for option in read_entries(reader):
        raise IggyError(Reason.UNKNOWN_OPTION, f"option {option.key!r}: only topics have options")


def _skip_options(reader: PayloadReader) -> None:
    reader.view(reader.u32())


NO_GIVEN_OPTIONS: Final[FieldCodec[None]] = Simple(_refuse_options, lambda _value, _writer: None)
"""The block of a stream or a user in a request of R3: there are no such options."""
NO_TOLD_OPTIONS: Final[FieldCodec[None]] = Simple(
    _skip_options, lambda _value, writer: writer.u32(0)
)
"""The same in a reply."""


def to_seconds(duration_us: int | None) -> int:
    """Return R0's u32 for a time to live: seconds, rounded up; 0 is for ever, and what is longer.

    None, the server's default, is 0, too: R0 has no other.
    """
    seconds = 0 if duration_us in {None, NEVER} else -(-(duration_us or 0) // _SECOND)
    return seconds if seconds <= U32_MAX else 0


def from_seconds(seconds: int) -> int:
    """Return the time to live in µs that R0's number of *seconds* means."""
    return seconds * _SECOND if seconds else NEVER


_COMPRESSION_BYTE: Final = choice(IggyCompression)
_DEFAULT_U64: Final = or_none(U64)
_DEFAULT_U8: Final = or_none(U8)


def _read_fixed(reader: PayloadReader) -> TopicOptions:
    if reader.revision <= Revision.R0B:
        return TopicOptions(expiry_us=from_seconds(reader.u32()))
    return TopicOptions(
        compression=_COMPRESSION_BYTE.read(reader),
        expiry_us=_DEFAULT_U64.read(reader),
        max_size=_DEFAULT_U64.read(reader),
        replication=_DEFAULT_U8.read(reader),
    )


def _write_fixed(options: TopicOptions, writer: PayloadWriter) -> None:
    if writer.revision <= Revision.R0B:
        writer.u32(to_seconds(options.expiry_us))
        return
    _COMPRESSION_BYTE.write(options.compression or IggyCompression.NONE, writer)
    _DEFAULT_U64.write(options.expiry_us, writer)
    _DEFAULT_U64.write(options.max_size, writer)
    _DEFAULT_U8.write(options.replication, writer)


FIXED_OPTIONS: Final[FieldCodec[TopicOptions]] = Simple(_read_fixed, _write_fixed)
"""The options of R0 to R2C, in fields of their own; 0 is the server's default."""
