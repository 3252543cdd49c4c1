"""Messages of table segments: maps from keys to values, kept in a segment
(docs/protocols/pravega.md#tables).
"""

from dataclasses import dataclass
from typing import Annotated, Final

from logdrive.model.framing import Part
from logdrive.wire.pravega.fields import (
    BYTES,
    I32,
    I64,
    Bool,
    Bytes,
    Kind,
    TailBool,
    TailBytes,
    TailI32,
    TailI64,
    Text,
    kind_of,
    many,
)
from logdrive.wire.pravega.layout import Message, message, record_kind

ANY_VERSION: Final = -(1 << 63)
"""The version of a key that is not compared."""
NOT_THERE: Final = -1
"""The version of a key that must not exist, or was not found."""
ANY_OFFSET: Final = -1
"""The `table_offset` of a change that may be made whatever the length of the table's log."""

_I32: Final[Kind[int]] = kind_of(I32)
_I64: Final[Kind[int]] = kind_of(I64)
_KEY_FIXED: Final = 12  # a key's length field and its version
_VALUE_FIXED: Final = 4


@dataclass(frozen=True, slots=True)
class TableKey:
    """A key, and the version that it has or is expected to have.

    An empty key is encoded without a version.
    """

    key: bytes
    version: int = ANY_VERSION  # grows with each change of the key's value


def _read_key(payload: memoryview, at: int) -> tuple[TableKey, int]:
    total, at = _I32.read(payload, at)
    key, at = BYTES.read(payload, at)
    if total != _KEY_FIXED + len(key):
        raise ValueError(f"a key of {len(key)} bytes in {total}")
    if not key:
        return TableKey(b""), at
    version, at = _I64.read(payload, at)
    return TableKey(key, version), at


def _write_key(key: TableKey, parts: list[Part]) -> None:
    _I32.write(_KEY_FIXED + len(key.key), parts)
    BYTES.write(key.key, parts)
    if key.key:
        _I64.write(key.version, parts)


def _read_value(payload: memoryview, at: int) -> tuple[bytes, int]:
    total, at = _I32.read(payload, at)
    value, at = BYTES.read(payload, at)
    if total != _VALUE_FIXED + len(value):
        raise ValueError(f"a value of {len(value)} bytes in {total}")
    return value, at


def _write_value(value: bytes, parts: list[Part]) -> None:
    _I32.write(_VALUE_FIXED + len(value), parts)
    BYTES.write(value, parts)


_KEY: Final = Kind(_read_key, _write_key)
_Key = Annotated[TableKey, _KEY]
_Value = Annotated[bytes, Kind(_read_value, _write_value)]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A key and its value; the value is b"" if there is no such key."""

    key: _Key
    value: _Value


_Keys = Annotated[tuple[TableKey, ...], many(_KEY)]
_Entries = Annotated[tuple[TableEntry, ...], many(record_kind(TableEntry))]
_Versions = Annotated[tuple[int, ...], many(_I64)]


@message(68)
class GetTableSegmentInfo(Message):
    """Requests the state of a table."""

    request_id: I64
    segment: Text
    token: Text = ""


@message(69)
class TableSegmentInfo(Message):
    """Answers GetTableSegmentInfo.

    *length* is the length of its log; *key_length* is 0 if keys have any length.
    """

    request_id: I64
    segment: Text
    start_offset: I64
    length: I64
    entry_count: I64
    key_length: I32


@message(70)
class CreateTableSegment(Message):
    """Creates a table whose keys have *key_length* bytes (0: any length).

    Answered by SegmentCreated.
    """

    request_id: I64
    segment: Text
    token: Text = ""
    sorted_deprecated: TailBool = False
    key_length: TailI32 = 0
    rollover_size: TailI64 = 0


@message(71)
class DeleteTableSegment(Message):
    """Deletes a table. Answered by SegmentDeleted."""

    request_id: I64
    segment: Text
    must_be_empty: Bool
    token: Text = ""


@message(74)
class UpdateTableEntries(Message):
    """Sets entries, all or none: only if each key that names a version has that version."""

    request_id: I64
    segment: Text
    token: Text
    entries: _Entries
    table_offset: TailI64 = ANY_OFFSET


@message(75)
class TableEntriesUpdated(Message):
    """Answers UpdateTableEntries with the new versions, in the same order."""

    request_id: I64
    versions: _Versions


@message(76)
class RemoveTableKeys(Message):
    """Removes keys, all or none: only if each key that names a version has that version."""

    request_id: I64
    segment: Text
    token: Text
    keys: _Keys
    table_offset: TailI64 = ANY_OFFSET


@message(77)
class TableKeysRemoved(Message):
    """Answers RemoveTableKeys."""

    request_id: I64
    segment: Text


@message(78)
class ReadTable(Message):
    """Requests the values of keys."""

    request_id: I64
    segment: Text
    token: Text
    keys: _Keys


@message(79)
class TableRead(Message):
    """Answers ReadTable, in the same order; a key that does not exist has the version NOT_THERE."""

    request_id: I64
    segment: Text
    entries: _Entries


@message(83)
class ReadTableKeys(Message):
    """Requests about *suggested_count* keys, from the first or from *continuation_token* on."""

    request_id: I64
    segment: Text
    token: Text
    suggested_count: I32
    continuation_token: Bytes = b""
    prefix_filter_deprecated: TailBytes = b""
    from_key: TailBytes = b""
    to_key: TailBytes = b""


@message(84)
class TableKeysRead(Message):
    """Answers ReadTableKeys; without keys if there are no more."""

    request_id: I64
    segment: Text
    keys: _Keys
    continuation_token: Bytes


@message(85)
class ReadTableEntries(Message):
    """Requests about *suggested_count* entries, from the first or from *continuation_token* on."""

    request_id: I64
    segment: Text
    token: Text
    suggested_count: I32
    continuation_token: Bytes = b""
    prefix_filter_deprecated: TailBytes = b""
    from_key: TailBytes = b""
    to_key: TailBytes = b""


@message(86)
class TableEntriesRead(Message):
    """Answers ReadTableEntries; without entries if there are no more."""

    request_id: I64
    segment: Text
    entries: _Entries
    continuation_token: Bytes


@message(88)
class ReadTableEntriesDelta(Message):
    """Requests the entries that about *suggested_count* updates from *from_position* on left."""

    request_id: I64
    segment: Text
    token: Text
    from_position: I64
    suggested_count: I32


@message(87)
class TableEntriesDeltaRead(Message):
    """Answers ReadTableEntriesDelta.

    *last_position* is where the next request goes on; with *should_clear*, all entries that were
    read before are void.
    """

    request_id: I64
    segment: Text
    entries: _Entries
    should_clear: Bool
    reached_end: Bool
    last_position: I64
