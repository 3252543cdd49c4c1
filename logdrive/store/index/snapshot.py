"""The index as a file, so that a start reads only the log's end.

`LDINDEX3`, u32 CRC-32 of the rest, then MessagePack of `_Snapshot`; integers in its byte columns
are little-endian. It names the files that have the rest (`logdrive.store.index.pages`). Version 2
had all extents and numbers in itself; it is read, but no longer written.
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
    """The index at *tip*, a former end of the log.

    *names* are the paged files that it needs.
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

    All numbers must be on disk: the file has none.
    """
    segments = [
        _Segment(
            number=s.number,
            name=s.name,
            length=s.length,
            start=s.start,
            sealed=s.sealed,
            modified_ms=s.modified_ms,
            events=s.events,
            cold=s.has_stored_numbers,
            offsets=packed(s.offsets),
            places=packed(s.places),
            chunks=[packed(column) for column in s.chunks.columns()] if s.chunks else [],
        )
        for s in snapshot.index.by_number.values()
    ]
    index, files = snapshot.index, snapshot.index.files
    body = msgspec.msgpack.encode(
        _Snapshot(
            store_id=snapshot.store_id.bytes,
            tip=snapshot.tip,
            files=[(base, files.ends.get(base, 0), files.live[base]) for base in files.bases],
            next_number=index.next_number,
            paged_to=index.paged_to,
            extents=list(index.extents.files.items()),
            runs=index.stored_numbers.runs,
            segments=segments,
        )
    )
    return _HEAD.pack(_MAGIC, crc_of([body])) + body


def decode_snapshot(data: bytes, disk: Disk, directory: str, limits: StoreLimits) -> Snapshot:
    """Return the index in *data*, the file's content, of the store in *directory*.

    Raises ValueError, which says what is wrong with it.
    """
    if len(data) < _HEAD.size or not data.startswith((_MAGIC, _MAGIC_2)):
        raise ValueError("not an index of this version")
    body = memoryview(data)[_HEAD.size :]
    if crc_of([body]) != _HEAD.unpack_from(data)[1]:
        raise ValueError("its checksum is wrong")
    try:
        stored = _decode_body(body, data.startswith(_MAGIC))
        store_id = UUID(bytes=stored.store_id)
        files = LogFiles(
            directory,
            [base for base, _, _ in stored.files],
            {base: end for base, end, _ in stored.files if end},
        )
        files.live.update((base, live) for base, _, live in stored.files)
        index = Index(files, PageFiles(disk, directory, store_id, limits.page), limits)
        if isinstance(stored, _Snapshot):
            index.paged_to = stored.paged_to
            index.extents.files.update(stored.extents)
            index.stored_numbers.runs = stored.runs
        for segment in stored.segments:
            index.add_segment(
                _segment(segment, index)
                if isinstance(segment, _Segment)
                else _segment_2(segment, index)
            )
    except (msgspec.DecodeError, ContradictionError) as error:
        raise ValueError(str(error)) from error
    # numbers of deleted segments are not used again, so it may be larger, but never smaller
    if index.next_number > stored.next_number:
        raise ValueError(f"segments up to {index.next_number}, but {stored.next_number} comes next")
    index.next_number = stored.next_number
    return Snapshot(
        store_id, stored.tip, index, frozenset(file.name for file in index.paged_files())
    )


def _decode_body(body: memoryview, latest: bool) -> _Snapshot | _Snapshot2:
    return (
        msgspec.msgpack.decode(body, type=_Snapshot)
        if latest
        else msgspec.msgpack.decode(body, type=_Snapshot2)
    )


def _segment(stored: _Segment, index: Index) -> SegmentIndex:
    columns = [unpacked(column) for column in stored.chunks]
    chunks = ExtentRuns(columns) if len(columns) == len(ExtentRun._fields) else ExtentRuns()
    offsets, places = unpacked(stored.offsets), unpacked(stored.places)
    if len(offsets) != len(places) or len({len(column) for column in chunks.columns()}) != 1:
        raise ValueError(f"columns of segment {stored.name!r} differ in length")
    if not index.extents.files.keys() >= set(chunks.bases):
        raise ValueError(f"no file for the extents of segment {stored.name!r}")
    return SegmentIndex(
        stored.number,
        stored.name,
        index.extents,
        length=stored.length,
        start=stored.start,
        sealed=stored.sealed,
        modified_ms=stored.modified_ms,
        events=stored.events,
        has_stored_numbers=stored.cold,
        offsets=offsets,
        places=places,
        chunks=chunks,
    )


def _segment_2(stored: _Segment2, index: Index) -> SegmentIndex:
    offsets, places, numbers = (
        unpacked(stored.offsets),
        unpacked(stored.places),
        unpacked(stored.numbers),
    )
    writers = [stored.writers[at : at + 16] for at in range(0, len(stored.writers), 16)]
    if len(offsets) != len(places) or len(writers) != len(numbers):
        raise ValueError(f"columns of segment {stored.name!r} differ in length")
    return SegmentIndex(
        stored.number,
        stored.name,
        index.extents,
        length=stored.length,
        start=stored.start,
        sealed=stored.sealed,
        modified_ms=stored.modified_ms,
        events=stored.events,
        offsets=offsets,
        places=places,
        numbers=dict(zip(writers, numbers, strict=True)),
    )
