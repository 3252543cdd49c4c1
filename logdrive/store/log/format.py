"""Encoding of the log's entries and of its files' heads; no I/O.

`logdrive.store.log.log` describes the format.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

# zlib's CRC-32 at four times zlib's speed; releases the GIL
from isal.isal_zlib import crc32 as _crc32

from logdrive.model.framing import Part

CREATE, APPEND, UPDATE, SEAL, TRUNCATE, DELETE, MERGE, COPY = 1, 2, 3, 4, 5, 6, 7, 8
"""Kinds of entry."""
_KINDS: Final = range(CREATE, COPY + 1)

ENTRY_MAGIC: Final = b"LDE1"
_MARK: Final = struct.Struct("<4sI")  # magic, CRC of what follows in the head
_ENTRY: Final = struct.Struct("<IIIIIIqqq16sqq")
ENTRY_HEAD: Final = _MARK.size + _ENTRY.size

_FILE_MAGIC: Final = b"LOGDRIVE"
VERSION: Final = 3
_OLDEST_VERSION: Final = 1
_FILE: Final = struct.Struct("<8sII16sq24x")
FILE_HEAD: Final = _FILE.size

NO_WRITER: Final = bytes(16)

_CHANGE: Final = struct.Struct("<16sqq")


class FileHead(NamedTuple):
    """The head of a log file."""

    store_id: UUID
    version: int


class EntryHead(NamedTuple):
    """The head of an entry; the next entry's *link* repeats its *crc*."""

    crc: int
    link: int
    data_crc: int
    length: int
    events: int
    segment: int
    kind: int
    position: int
    committed: int
    time_ms: int
    writer: bytes
    previous: int
    number: int


@dataclass(slots=True, eq=False)
class LogEntry:
    """A change on its way into the log; *parts* are its data, until nothing needs it any more.

    *place* is the position of the data in the log, once it is written.
    """

    kind: int
    segment: int
    time_ms: int
    parts: Sequence[Part] = ()
    length: int = 0
    events: int = 0
    writer: bytes = NO_WRITER
    previous: int = 0
    number: int = 0
    place: int = -1


class NumberChange(NamedTuple):
    """A change of an attribute, such as a writer's number, from *previous* to *number*."""

    writer: bytes
    previous: int
    number: int


def encode_changes(changes: Sequence[NumberChange]) -> bytes:
    """Return the data of a MERGE with *changes*."""
    return b"".join(_CHANGE.pack(*change) for change in changes)


def decode_changes(data: bytes | memoryview) -> list[NumberChange]:
    """Return the changes in the *data* of a MERGE.

    Raises ValueError if they are not whole.
    """
    if len(data) % _CHANGE.size:
        raise ValueError(f"{len(data)} bytes of changes")
    return [NumberChange(*fields) for fields in _CHANGE.iter_unpack(data)]


def crc_of(parts: Sequence[bytes | memoryview]) -> int:
    """Return the CRC-32 of all *parts* together."""
    crc = 0
    for part in parts:
        crc = _crc32(part, crc)
    return crc


def seed_of(store_id: UUID) -> int:
    """Return the CRC that the CRC of every entry's head is seeded with.

    So an entry of another store is never accepted.
    """
    return crc_of([store_id.bytes])


def encode_head(
    entry: LogEntry, *, seed: int, link: int, position: int, committed: int
) -> tuple[bytes, int]:
    """Return the head of *entry* at *position*, and its CRC; computes a CRC over the data."""
    data_crc = crc_of(entry.parts)
    rest = _ENTRY.pack(
        link,
        data_crc,
        entry.length,
        entry.events,
        entry.segment,
        entry.kind,
        position,
        committed,
        entry.time_ms,
        entry.writer,
        entry.previous,
        entry.number,
    )
    crc = _crc32(rest, seed)
    return _MARK.pack(ENTRY_MAGIC, crc) + rest, crc


def decode_head(buffer: bytes, at: int, *, seed: int, position: int) -> EntryHead | None:
    """Return the head at *at* of *buffer*; None if it is damaged or does not belong there.

    It must be of the store of *seed* and be written for *position* of the log.
    """
    if len(buffer) - at < ENTRY_HEAD:
        return None
    magic, crc = _MARK.unpack_from(buffer, at)
    if magic != ENTRY_MAGIC or crc != _crc32(
        memoryview(buffer)[at + _MARK.size : at + ENTRY_HEAD], seed
    ):
        return None
    head = EntryHead(crc, *_ENTRY.unpack_from(buffer, at + _MARK.size))
    return head if head.position == position and head.kind in _KINDS else None


def encode_file_head(store_id: UUID, base: int) -> bytes:
    """Return the head of the log file that begins at *base* of the log."""
    head = _FILE.pack(_FILE_MAGIC, VERSION, 0, store_id.bytes, base)
    return _FILE.pack(_FILE_MAGIC, VERSION, crc_of([head]), store_id.bytes, base)


def decode_file_head(data: bytes, base: int) -> FileHead | None:
    """Return the head of the file at *base* in *data*; None if it is damaged.

    Raises ValueError for an unknown version.
    """
    if len(data) < FILE_HEAD:
        return None
    magic, version, crc, store_id, stored_base = _FILE.unpack_from(data)
    if (
        magic != _FILE_MAGIC
        or stored_base != base
        or crc != crc_of([data[:12], bytes(4), data[16:FILE_HEAD]])
    ):
        return None
    if not _OLDEST_VERSION <= version <= VERSION:
        raise ValueError(
            f"log format {version} is not known to this version, which writes {VERSION}"
        )
    return FileHead(UUID(bytes=store_id), version)
