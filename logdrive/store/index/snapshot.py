"""The index as a file, so that a start reads only the log's end.

`LDINDEX3`, u32 CRC-32 of the rest, then MessagePack of `_Snapshot`; integers in its byte columns
are little-endian. It says which files have the rest (`logdrive.store.index.pages`). Version 2 had
all extents and numbers in itself; it is read, and not written.
"""

import struct
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec

from logdrive.host.disk import Disk
from logdrive.store.index.extents import packed, unpacked
from logdrive.store.index.index import ContradictionError, Index, SegmentIndex
from logdrive.store.index.pages import PagedFile, PageFiles
from logdrive.store.index.runs import ExtentRun, ExtentRuns
from logdrive.store.limits import StoreLimits
from logdrive.store.log.files import LogFiles
from logdrive.store.log.format import crc_of
from logdrive.store.log.log import Tip

_HEAD: Final = struct.Struct("<8sI")
_MAGIC: Final = b"LDINDEX3"
_MAGIC_2: Final = b"LDINDEX2"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The index as of *tip*, an end that the log once had.

    *names* are those of the paged files that it needs, as read.
    """

    store_id: UUID
    tip: Tip
    index: Index
    names: frozenset[str] = frozenset()


class _Segment(msgspec.Struct, array_like=True):
    number: int
    name: str
    length: int
    start: int
    sealed: bool
    modified_ms: int
    events: int
    cold: bool
    offsets: bytes
    places: bytes
    chunks: list[bytes]


class _Snapshot(msgspec.Struct):
    store_id: bytes
    tip: Tip
    files: list[tuple[int, int, int]]  # base, end (0 for the last one), bytes alive
    next_number: int
    paged_to: int
    extents: list[tuple[int, PagedFile]]
    runs: list[PagedFile]
    segments: list[_Segment]


class _Segment2(msgspec.Struct, array_like=True):
    number: int
    name: str
    length: int
    start: int
    sealed: bool
    modified_ms: int
    events: int
    offsets: bytes
    places: bytes
    writers: bytes  # 16 bytes each
    numbers: bytes


class _Snapshot2(msgspec.Struct):
    store_id: bytes
    tip: Tip
    files: list[tuple[int, int, int]]
    next_number: int
    segments: list[_Segment2]


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the file's content.

    No number may have changed since they were put on disk: it has none.
    """
    segments = [
        _Segment(
            *(s.number, s.name, s.length, s.start, s.sealed, s.modified_ms, s.events, s.cold),
            *(
                packed(s.offsets),
                packed(s.places),
                [packed(column) for column in s.chunks.columns()] if s.chunks else [],
            ),
        )
        for s in snapshot.index.by_number.values()
    ]
    index, files = snapshot.index, snapshot.index.files
    rows = [(base, files.ends.get(base, 0), files.live[base]) for base in files.bases]
    paged = index.paged_to, list(index.extents.files.items()), index.cold.runs
    body = msgspec.msgpack.encode(
        _Snapshot(snapshot.store_id.bytes, snapshot.tip, rows, index.next_number, *paged, segments)
    )
    return _HEAD.pack(_MAGIC, crc_of([body])) + body


def decode_snapshot(data: bytes, disk: Disk, directory: str, limits: StoreLimits) -> Snapshot:
    """Return what the file, of the store in *directory*, holds.

    Raises ValueError saying what is wrong with it.
    """
    if len(data) < _HEAD.size or not data.startswith((_MAGIC, _MAGIC_2)):
        raise ValueError("not an index of this version")
    body = memoryview(data)[_HEAD.size :]
    if crc_of([body]) != _HEAD.unpack_from(data)[1]:
        raise ValueError("its checksum is wrong")
    try:
        found = _decoded(body, data.startswith(_MAGIC))
        store_id = UUID(bytes=found.store_id)
        files = LogFiles(
            directory,
            [base for base, _, _ in found.files],
            {base: end for base, end, _ in found.files if end},
        )
        files.live.update((base, live) for base, _, live in found.files)
        index = Index(files, PageFiles(disk, directory, store_id, limits.page), limits)
        if isinstance(found, _Snapshot):
            index.paged_to = found.paged_to
            index.extents.files.update(found.extents)
            index.cold.runs = found.runs
        for segment in found.segments:
            index.add_segment(
                _segment(segment, index)
                if isinstance(segment, _Segment)
                else _segment_2(segment, index)
            )
    except (msgspec.DecodeError, ContradictionError) as error:
        raise ValueError(str(error)) from error
    if index.next_number > found.next_number:
        raise ValueError(f"segments up to {index.next_number}, but {found.next_number} comes next")
    index.next_number = found.next_number
    return Snapshot(
        store_id, found.tip, index, frozenset(file.name for file in index.paged_files())
    )


def _decoded(body: memoryview, latest: bool) -> _Snapshot | _Snapshot2:
    return (
        msgspec.msgpack.decode(body, type=_Snapshot)
        if latest
        else msgspec.msgpack.decode(body, type=_Snapshot2)
    )


def _segment(found: _Segment, index: Index) -> SegmentIndex:
    columns = [unpacked(column) for column in found.chunks]
    chunks = ExtentRuns(columns) if len(columns) == len(ExtentRun._fields) else ExtentRuns()
    offsets, places = unpacked(found.offsets), unpacked(found.places)
    if len(offsets) != len(places) or len({len(column) for column in chunks.columns()}) != 1:
        raise ValueError(f"columns of segment {found.name!r} differ in length")
    if not index.extents.files.keys() >= set(chunks.bases):
        raise ValueError(f"no file for the extents of segment {found.name!r}")
    return SegmentIndex(
        *(
            found.number,
            found.name,
            index.extents,
            found.length,
            found.start,
            found.sealed,
            found.modified_ms,
            found.events,
            found.cold,
        ),
        *(offsets, places, chunks),
    )


def _segment_2(found: _Segment2, index: Index) -> SegmentIndex:
    offsets, places, numbers = (
        unpacked(found.offsets),
        unpacked(found.places),
        unpacked(found.numbers),
    )
    writers = [found.writers[at : at + 16] for at in range(0, len(found.writers), 16)]
    if len(offsets) != len(places) or len(writers) != len(numbers):
        raise ValueError(f"columns of segment {found.name!r} differ in length")
    return SegmentIndex(
        *(
            found.number,
            found.name,
            index.extents,
            found.length,
            found.start,
            found.sealed,
            found.modified_ms,
            found.events,
            False,
        ),
        *(offsets, places, ExtentRuns(), dict(zip(writers, numbers, strict=True))),
    )
