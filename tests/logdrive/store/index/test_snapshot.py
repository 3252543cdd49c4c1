"""The index file: it says what the index has, and no other bytes are accepted as one."""

import struct
from random import Random
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.numbers import ABSENT
from logdrive.store.engine import Store
from logdrive.store.index.index import ContradictionError, Index
from logdrive.store.index.pages import PageFiles
from logdrive.store.index.segment import SegmentIndex
from logdrive.store.index.snapshot import Snapshot, decode_snapshot, encode_snapshot
from logdrive.store.index.spill import apply_spill, gather_spill, write_spill
from logdrive.store.limits import StoreLimits
from logdrive.store.log.files import LogFiles
from logdrive.store.log.format import APPEND, SEAL, UPDATE, LogEntry, crc_of
from logdrive.store.log.log import Tip
from logdrive.store.verify.verify import verify
from tests.logdrive.store.harness import OTHER, PATH, SEGMENT, WRITER, running, submit
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

STORE = UUID(int=9)
LIMITS = StoreLimits(log_file=4000, page=100, copy=500)


def _index(disk: MemoryDisk) -> Index:
    """Return an index, part of which is on disk."""
    files = LogFiles(PATH, [0, 4000], {0: 4000})
    random, index = Random(5), Index(files, PageFiles(disk, PATH, STORE, LIMITS.page), LIMITS)
    for number, name in enumerate(("a/b/0", "é", "empty")):
        index.create_segment(number, name, 1000 + number)
    place = 100
    for _ in range(50):
        segment = index.by_number[random.randrange(2)]
        writer = random.randbytes(1) * 16
        previous = index.number(segment, writer)
        length = random.randrange(300)
        kind = random.choice((APPEND, APPEND, UPDATE))
        entry = LogEntry(
            kind,
            segment.number,
            7,
            length=length,
            events=2,
            writer=writer,
            previous=previous,
            number=random.randrange(-9, 99),
        )
        index.apply_entry(entry, place)
        place += length
    index.apply_entry(LogEntry(SEAL, 1, 8), place)
    paging = gather_spill(index, place)
    write_spill(index, paging)
    apply_spill(index, paging)
    return index


def _columns(index: Index) -> list[tuple[object, ...]]:
    return [
        (
            s.number,
            s.name,
            s.info(),
            list(s.extents(s.start)),
            s.offsets,
            s.places,
            s.has_stored_numbers,
        )
        for s in index.by_number.values()
    ]


def test_it_holds_the_whole_index() -> None:
    disk = MemoryDisk([PATH])
    index = _index(disk)
    snapshot = decode_snapshot(
        encode_snapshot(Snapshot(STORE, Tip(5000, 4000, 77), index)), disk, PATH, LIMITS
    )
    assert (snapshot.store_id, snapshot.tip) == (STORE, Tip(5000, 4000, 77))
    assert _columns(snapshot.index) == _columns(index)
    assert snapshot.index.stored_numbers.all_numbers() == index.stored_numbers.all_numbers()
    assert list(snapshot.index.by_name) == list(index.by_name)
    assert any(segment.chunks and segment.offsets for segment in index.by_number.values())
    assert index.stored_numbers.all_numbers()[0]


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    disk = MemoryDisk([PATH])
    data = encode_snapshot(Snapshot(STORE, Tip(5000, 4000, 77), _index(disk)))
    for offset in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[offset] ^= 1 << offset % 8
        with pytest.raises(ValueError, match=r"checksum|version"):
            decode_snapshot(bytes(flipped), disk, PATH, LIMITS)
        with pytest.raises(ValueError, match=r"checksum|version"):
            decode_snapshot(data[:offset], disk, PATH, LIMITS)


@given(st.binary(max_size=300))
def test_garbage_raises_only_value_errors(garbage: bytes) -> None:
    with pytest.raises(ValueError, match="index"):
        decode_snapshot(garbage, MemoryDisk(), PATH, LIMITS)


@pytest.mark.parametrize("magic", [b"LDINDEX2", b"LDINDEX3"])
@given(st.binary(max_size=300))
def test_garbage_with_a_good_checksum_raises_only_value_errors(
    magic: bytes, garbage: bytes
) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_snapshot(
            magic + struct.pack("<I", crc_of([garbage])) + garbage, MemoryDisk(), PATH, LIMITS
        )


def test_an_index_takes_nothing_that_does_not_follow() -> None:
    index = _index(MemoryDisk([PATH]))
    for change in (
        LogEntry(APPEND, 3, 0),
        LogEntry(APPEND, 1, 0),
        LogEntry(SEAL, 1, 0),
        LogEntry(APPEND, 2, 0, writer=bytes(16), previous=5, number=6),
    ):
        with pytest.raises(ContradictionError):
            index.apply_entry(change, 0)
    for number, name in ((2, "new"), (4, "new"), (3, "empty")):
        with pytest.raises(ContradictionError):
            index.create_segment(number, name, 0)


def _as_version_2(store: Store, tip: Tip) -> bytes:
    """Return what version 2 wrote: all extents and numbers in the one file."""
    index = store._index

    def segment_2(segment: SegmentIndex) -> list[object]:
        extents = list(segment.extents(segment.start))
        numbers = {writer: index.number(segment, writer) for writer in (WRITER.bytes, OTHER.bytes)}
        numbers = {writer: number for writer, number in numbers.items() if number != ABSENT}
        columns = ([offset for offset, _, _ in extents], [place for _, place, _ in extents])
        packed_columns = [struct.pack(f"<{len(column)}q", *column) for column in columns]
        writers = [b"".join(numbers), struct.pack(f"<{len(numbers)}q", *numbers.values())]
        info = segment.info()
        return [
            segment.number,
            segment.name,
            info.length,
            info.start,
            info.sealed,
            info.modified_ms,
            info.events,
            *packed_columns,
            *writers,
        ]

    files = [
        (base, index.files.ends.get(base, 0), index.files.live[base]) for base in index.files.bases
    ]
    body = {
        "store_id": store.store_id.bytes,
        "tip": tip,
        "files": files,
        "next_number": index.next_number,
    }
    data = msgspec.msgpack.encode(
        body | {"segments": [segment_2(segment) for segment in index.by_number.values()]}
    )
    return b"LDINDEX2" + struct.pack("<I", crc_of([data])) + data


def test_a_store_with_an_index_of_version_2_goes_on_though_its_log_begins_later() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with running(disk, LIMITS) as store:
            await store.create("kept")
            await store.create(SEGMENT)
            await submit(store, b"kept", 1, segment="kept", writer=OTHER)
            for number in range(1, 60):
                await submit(store, b"%03d" % number * 100, number)
            await store.truncate(SEGMENT, 30 * 300 + 7)
            for number in range(60, 80):
                await submit(store, b"%03d" % number * 100, number)
        old = disk.killed()
        async with running(disk, LIMITS) as store:
            assert store._index.files.bases[0] > 0
            data = _as_version_2(store, store._log.tip)
            expected = store.read(SEGMENT, 30 * 300 + 7, 30_000)
        for path in old.paths():
            if path.endswith((".a", ".b")) or "/index" in path:
                old.remove(path)
        old.write(f"{PATH}/index", data, durable=True)
        assert verify(old, PATH).intact
        async with running(old, LIMITS) as store:
            assert (store.recovery.index, store.recovery.entries) == ("used", 0)
            assert store.read(SEGMENT, 30 * 300 + 7, 30_000) == expected
            assert store.read("kept", 0, 10) == b"kept"
            for number in range(80, 100):
                await submit(store, bytes(300), number)
        assert old.content(f"{PATH}/index").startswith(b"LDINDEX3")
        assert verify(old, PATH).intact
        async with running(old, LIMITS) as store:
            assert store.recovery.index == "used"
            assert store.read(SEGMENT, 30 * 300 + 7, 30_000) == expected + bytes(6000)
            assert await store.number(SEGMENT, WRITER) == 99
            assert await store.number("kept", OTHER) == 1

    run(main())
