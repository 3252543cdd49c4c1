"""The index file: what it says, and that nothing else passes for it."""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.record import ABSENT
from logdrive.store.entry import APPEND, SEAL, UPDATE, Entry
from logdrive.store.files import LogFiles
from logdrive.store.index import ContradictionError, Index
from logdrive.store.log import Tip
from logdrive.store.snapshot import Snapshot, decode_snapshot, encode_snapshot
from tests.logdrive.store.harness import PATH


def _index() -> Index:
    random, index = Random(5), Index(LogFiles(PATH, [0, 4000], {0: 4000}))
    for number, name in enumerate(("a/b/0", "é", "empty")):
        index.create(number, name, 1000 + number)
    place = 100
    for _ in range(50):
        segment = index.by_number[random.randrange(2)]
        writer = random.randbytes(1) * 16
        previous = segment.numbers.get(writer, ABSENT)
        length = random.randrange(1000)
        kind = random.choice((APPEND, APPEND, UPDATE))
        entry = Entry(kind, segment.number, 7, length=length, events=2, writer=writer, previous=previous, number=random.randrange(-9, 99))
        index.apply(entry, place)
        place += length
    index.apply(Entry(SEAL, 1, 8), place)
    return index


def _columns(index: Index) -> list[tuple[object, ...]]:
    return [(s.number, s.name, s.info(), s.offsets, s.places, s.numbers) for s in index.by_number.values()]


def test_it_holds_the_whole_index() -> None:
    index = _index()
    snapshot = decode_snapshot(encode_snapshot(Snapshot(UUID(int=9), Tip(5000, 4000, 77), index)), PATH)
    assert (snapshot.store_id, snapshot.tip) == (UUID(int=9), Tip(5000, 4000, 77))
    assert _columns(snapshot.index) == _columns(index)
    assert list(snapshot.index.by_name) == list(index.by_name)


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    data = encode_snapshot(Snapshot(UUID(int=9), Tip(5000, 4000, 77), _index()))
    for offset in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[offset] ^= 1 << offset % 8
        with pytest.raises(ValueError, match=r"checksum|version"):
            decode_snapshot(bytes(flipped), PATH)
        with pytest.raises(ValueError, match=r"checksum|version"):
            decode_snapshot(data[:offset], PATH)


@given(st.binary(max_size=300))
def test_garbage_raises_only_value_errors(garbage: bytes) -> None:
    with pytest.raises(ValueError, match="index"):
        decode_snapshot(garbage, PATH)


def test_an_index_takes_nothing_that_does_not_follow() -> None:
    index = _index()
    for change in (
        Entry(APPEND, 3, 0),
        Entry(APPEND, 1, 0),
        Entry(SEAL, 1, 0),
        Entry(APPEND, 2, 0, writer=bytes(16), previous=5, number=6),
    ):
        with pytest.raises(ContradictionError):
            index.apply(change, 0)
    for number, name in ((2, "new"), (4, "new"), (3, "empty")):
        with pytest.raises(ContradictionError):
            index.create(number, name, 0)
