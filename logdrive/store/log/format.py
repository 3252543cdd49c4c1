"""Entries of the commit log, and the head of its files, sans I/O.

The format is told in `logdrive.store.log.log`.
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
    """What a log file says of itself."""

    store_id: UUID
    version: int


class EntryHead(NamedTuple):
    """What an entry says of itself. *crc* names it to its successor, whose *link* repeats it."""

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
    """One change on its way into the log; *parts* are its data.

    *place* is where in the log the data lies, once written.
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
    """An attribute's value goes from *previous* to *number*, as a writer's number does in an
    UPDATE.
    """

    writer: bytes
    previous: int
    number: int


def encode_changes(changes: Sequence[NumberChange]) -> bytes:
    """Return the data of a MERGE that comes with *changes*."""
    return b"".join(_CHANGE.pack(*change) for change in changes)


def decode_changes(data: bytes | memoryview) -> list[NumberChange]:
    """Return the changes that a MERGE with *data* comes with.

    Raises ValueError where they are not whole.
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
    """Return the CRC that every entry's head begins with, so that no other store's entry passes for
    one of this store.
    """
    return crc_of([store_id.bytes])


def encode_head(
    entry: LogEntry, *, seed: int, link: int, position: int, committed: int
) -> tuple[bytes, int]:
    """Return the head of *entry* as it stands at *position*, and its CRC; costs one CRC over the
    data.
    """
    data_crc = crc_of(entry.parts)
    rest = _ENTRY.pack(
        *(
            link,
            data_crc,
            entry.length,
            entry.events,
            entry.segment,
            entry.kind,
            position,
            committed,
            entry.time_ms,
        ),
        *(entry.writer, entry.previous, entry.number),
    )
    crc = _crc32(rest, seed)
    return _MARK.pack(ENTRY_MAGIC, crc) + rest, crc


def decode_head(buffer: bytes, at: int, *, seed: int, position: int) -> EntryHead | None:
    """Return the head at *at* if it is whole, of this store, and belongs at *position* of the log;
    else None.
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
    """Return the head of the log file whose first byte is at *base* of the log."""
    head = _FILE.pack(_FILE_MAGIC, VERSION, 0, store_id.bytes, base)
    return _FILE.pack(_FILE_MAGIC, VERSION, crc_of([head]), store_id.bytes, base)


def decode_file_head(data: bytes, base: int) -> FileHead | None:
    """Return what *data* says if it is the head of the file at *base*; None where it is damaged.

    Raises ValueError for a whole head of a version that is not known.
    """
    if len(data) < FILE_HEAD:
        return None
    magic, version, crc, store_id, found = _FILE.unpack_from(data)
    if (
        magic != _FILE_MAGIC
        or found != base
        or crc != crc_of([data[:12], bytes(4), data[16:FILE_HEAD]])
    ):
        return None
    if not _OLDEST_VERSION <= version <= VERSION:
        raise ValueError(
            f"log format {version} is not known to this version, which writes {VERSION}"
        )
    return FileHead(UUID(bytes=store_id), version)
