"""Codecs of what requests name things by. See docs/protocols/iggy.md#shared-types."""

import re
from typing import Final

from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    Identifier,
    Partitioning,
    PollingKind,
    PollingStrategy,
    ToPartition,
)
from logdrive.wire.iggy.limits import NAME_BYTES
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.fields import TEXT8, U32, U64, choice
from logdrive.wire.iggy.payloads.shapes import FieldCodec, Shape, Simple, at
from logdrive.wire.iggy.revision import Revision, first_partition

_NUMBER: Final = 1
_NAME: Final = 2
_NUMBER_BYTES: Final = 4
_BALANCED, _TO_PARTITION, _BY_KEY = 1, 2, 3
_R0_NAME: Final = re.compile(r"[\w.\s-]+")
_SPACES: Final = re.compile(r"\s+")


def _read_identifier(reader: PayloadReader) -> Identifier:
    kind, size = reader.u8(), reader.u8()
    if kind == _NUMBER and size == _NUMBER_BYTES:
        return reader.u32()
    if kind == _NAME and size:
        return reader.text(size)
    raise ValueError(f"an identifier of kind {kind} with {size} bytes")


def _write_identifier(value: Identifier, writer: PayloadWriter) -> None:
    if isinstance(value, int):
        writer.put(bytes((_NUMBER, _NUMBER_BYTES)))
        writer.u32(value)
        return
    data = value.encode()
    if not 1 <= len(data) <= NAME_BYTES:
        raise ValueError(f"a name of {len(data)} bytes; 1 to {NAME_BYTES} are possible")
    writer.put(bytes((_NAME, len(data))))
    writer.put(data)


IDENTIFIER: Final[FieldCodec[Identifier]] = Simple(_read_identifier, _write_identifier)


def _read_by_number(reader: PayloadReader) -> Identifier:
    return reader.u32() if reader.revision is Revision.R0 else _read_identifier(reader)


def _write_by_number(value: Identifier, writer: PayloadWriter) -> None:
    if writer.revision is not Revision.R0:
        _write_identifier(value, writer)
    elif isinstance(value, int):
        writer.u32(value)
    else:
        raise ValueError(f"{value!r}: R0 knows consumers and groups by number only")


CONSUMER_ID: Final[FieldCodec[Identifier]] = Simple(_read_by_number, _write_by_number)
"""A consumer's id, or a group's: a number in R0, which knows no names of them."""
CONSUMER: Final = Shape(Consumer, at("kind", choice(ConsumerKind)), at("id", CONSUMER_ID))
STRATEGY: Final = Shape(PollingStrategy, at("kind", choice(PollingKind)), at("value", U64))


def _read_partition(reader: PayloadReader) -> int:
    return reader.u32() - first_partition(reader.revision)


def _write_partition(value: int, writer: PayloadWriter) -> None:
    writer.u32(value + first_partition(writer.revision))


def _read_optional_partition(reader: PayloadReader) -> int | None:
    if reader.revision <= Revision.R2A:
        number = reader.u32()
        return number - 1 if number else None
    flag, number = reader.u8(), reader.u32()
    if flag > 1:
        raise ValueError(f"{flag} where 0 or 1 is expected")
    return number if flag else None


def _write_optional_partition(value: int | None, writer: PayloadWriter) -> None:
    if writer.revision <= Revision.R2A:
        writer.u32(0 if value is None else value + 1)
        return
    writer.u8(0 if value is None else 1)
    writer.u32(value or 0)


PARTITION: Final[FieldCodec[int]] = Simple(_read_partition, _write_partition)
"""A partition, from 0; -1 is the number 0 of a revision that counts from 1."""
OPTIONAL_PARTITION: Final[FieldCodec[int | None]] = Simple(
    _read_optional_partition, _write_optional_partition
)
"""A partition, from 0, or None."""


def _read_partitioning(reader: PayloadReader) -> Partitioning:
    kind, size = reader.u8(), reader.u8()
    if kind == _BALANCED and size == 0:
        return Balanced()
    if kind == _TO_PARTITION and size == _NUMBER_BYTES:
        return ToPartition(_read_partition(reader))
    if kind == _BY_KEY and size:
        return ByKey(reader.take(size))
    raise ValueError(f"a partitioning of kind {kind} with {size} bytes")


def _write_partitioning(value: Partitioning, writer: PayloadWriter) -> None:
    if isinstance(value, ByKey):
        if not 1 <= len(value.key) <= NAME_BYTES:
            raise ValueError(f"a key of {len(value.key)} bytes; 1 to {NAME_BYTES} are possible")
        writer.put(bytes((_BY_KEY, len(value.key))))
        writer.put(value.key)
    elif isinstance(value, ToPartition):
        writer.put(bytes((_TO_PARTITION, _NUMBER_BYTES)))
        _write_partition(value.index, writer)
    else:
        writer.put(bytes((_BALANCED, 0)))


PARTITIONING: Final[FieldCodec[Partitioning]] = Simple(_read_partitioning, _write_partitioning)


def new_name(invalid: Reason) -> FieldCodec[str]:
    """Return the codec of a name that a request gives; *invalid* tells that it is none.

    R0 and R0B take letters, digits, "_", "-", "." and spaces only; they keep a name in lower case,
    with a dot for each run of spaces. That is the name which a request of theirs is read with.
    """

    def read(reader: PayloadReader) -> str:
        name = TEXT8.read(reader)
        if not name:
            raise IggyError(invalid, "a name has at least one byte")
        if reader.revision > Revision.R0B:
            return name
        if not _R0_NAME.fullmatch(name):
            raise IggyError(invalid, f"{name!r}: only letters, digits, '_', '-', '.' and spaces")
        return _SPACES.sub(".", name.lower())

    return Simple(read, TEXT8.write)


def chosen_id(invalid: Reason) -> FieldCodec[int | None]:
    """Return the codec of an id that the client may choose; *invalid* tells that it is none.

    0, or None, leaves the choice to the server, which R0 and R0B do not know.
    """

    def read(reader: PayloadReader) -> int | None:
        number = U32.read(reader)
        if number == 0 and reader.revision <= Revision.R0B:
            raise IggyError(invalid, "an id is at least 1")
        return number or None

    def write(value: int | None, writer: PayloadWriter) -> None:
        if value is None and writer.revision <= Revision.R0B:
            raise ValueError("R0 and R0B want an id that the client chooses")
        U32.write(value or 0, writer)

    return Simple(read, write)
