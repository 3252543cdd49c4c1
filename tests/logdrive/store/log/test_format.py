"""The bytes of the log: heads decode to what was encoded; damaged and foreign heads are refused."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.store.log.format import (
    APPEND,
    COPY,
    CREATE,
    ENTRY_HEAD,
    FILE_HEAD,
    VERSION,
    LogEntry,
    NumberChange,
    crc_of,
    decode_changes,
    decode_file_head,
    decode_head,
    encode_changes,
    encode_file_head,
    encode_head,
    seed_of,
)

STORE = UUID("00112233-4455-6677-8899-aabbccddeeff")
SEED = seed_of(STORE)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
POSITION = st.integers(0, (1 << 63) - 1)
U32 = st.integers(0, (1 << 32) - 1)


def entries() -> st.SearchStrategy[LogEntry]:
    parts = st.lists(st.binary(max_size=50), max_size=4)
    fixed = parts.map(lambda parts: (tuple(parts), sum(map(len, parts))))
    return st.builds(
        lambda kind, segment, time, data, events, writer, previous, number: LogEntry(
            kind, segment, time, data[0], data[1], events, writer, previous, number
        ),
        *(
            st.integers(CREATE, COPY),
            U32,
            I64,
            fixed,
            U32,
            st.binary(min_size=16, max_size=16),
            I64,
            I64,
        ),
    )


def test_the_format_is_what_the_log_says_it_is() -> None:
    """Golden bytes: a change here makes every store on disk unreadable."""
    entry = LogEntry(
        APPEND, 3, 1_700_000_000_000, (b"hi", b"!"), 3, 7, UUID(int=1).bytes, -(1 << 63), 66
    )
    head, crc = encode_head(entry, seed=SEED, link=0x01020304, position=0x1000, committed=0x0FC0)
    assert head.hex() == (
        "4c444531"
        + crc.to_bytes(4, "little").hex()
        + "04030201"
        + crc_of([b"hi!"]).to_bytes(4, "little").hex()
        + "03000000"
        "0700000003000000020000000010000000000000c00f0000000000000068e5cf8b010000"
        "0000000000000000000000000000000100000000000000804200000000000000"
    )
    assert (crc, crc_of([b"hi!"])) == (0x4514A999, 0x41D3833A)
    assert encode_file_head(STORE, 256).hex() == (
        "4c4f47445249564503000000f860ad9f00112233445566778899aabbccddeeff0001000000000000"
        + "00" * 24
    )
    changes = [
        NumberChange(UUID(int=1).bytes, -(1 << 63), 5),
        NumberChange(UUID(int=2).bytes, 5, 6),
    ]
    assert encode_changes(changes).hex() == (
        "00000000000000000000000000000001000000000000008005000000000000000000000000000000000000000000000205000000000000000600000000000000"
    )
    assert decode_changes(encode_changes(changes)) == changes
    with pytest.raises(ValueError, match="31 bytes"):
        decode_changes(bytes(31))


@pytest.mark.parametrize(("version", "told"), [(1, "01000000564787a4"), (2, "020000002f733882")])
def test_files_of_older_versions_are_read(version: int, told: str) -> None:
    head = bytes.fromhex(
        f"4c4f474452495645{told}00112233445566778899aabbccddeeff0001000000000000" + "00" * 24
    )
    assert decode_file_head(head, 256) == (STORE, version)


@given(entries(), U32, POSITION, POSITION, st.binary(max_size=20))
def test_a_head_says_what_was_meant(
    entry: LogEntry, link: int, position: int, committed: int, before: bytes
) -> None:
    head, crc = encode_head(entry, seed=SEED, link=link, position=position, committed=committed)
    assert len(head) == ENTRY_HEAD
    found = decode_head(before + head, len(before), seed=SEED, position=position)
    assert found is not None
    assert (found.crc, found.link, found.position, found.committed) == (
        crc,
        link,
        position,
        committed,
    )
    assert found.data_crc == crc_of([b"".join(entry.parts)])
    assert (found.kind, found.segment, found.time_ms, found.length) == (
        entry.kind,
        entry.segment,
        entry.time_ms,
        entry.length,
    )
    assert (found.events, found.writer, found.previous, found.number) == (
        entry.events,
        entry.writer,
        entry.previous,
        entry.number,
    )


@given(entries(), POSITION, st.integers(0, ENTRY_HEAD * 8 - 1), st.integers(0, ENTRY_HEAD - 1))
def test_a_flipped_bit_a_missing_byte_another_place_or_another_store_make_it_none(
    entry: LogEntry, position: int, bit: int, size: int
) -> None:
    head, _ = encode_head(entry, seed=SEED, link=0, position=position, committed=0)
    flipped = bytearray(head)
    flipped[bit // 8] ^= 1 << bit % 8
    assert decode_head(bytes(flipped), 0, seed=SEED, position=position) is None
    assert decode_head(head[:size], 0, seed=SEED, position=position) is None
    assert decode_head(head, 0, seed=SEED, position=position ^ 1) is None
    assert decode_head(head, 0, seed=SEED ^ 1, position=position) is None


@given(st.binary(max_size=200), st.integers(0, 200))
def test_garbage_is_no_head(garbage: bytes, at: int) -> None:
    assert decode_head(garbage, at, seed=SEED, position=at) is None
    assert decode_file_head(garbage, 0) is None


@given(st.uuids(), POSITION, st.integers(0, FILE_HEAD * 8 - 1))
def test_a_file_head_names_the_store_or_nothing(store: UUID, base: int, bit: int) -> None:
    head = encode_file_head(store, base)
    assert len(head) == FILE_HEAD
    assert decode_file_head(head + b"more", base) == (store, VERSION)
    assert decode_file_head(head, base ^ 1) is None
    flipped = bytearray(head)
    flipped[bit // 8] ^= 1 << bit % 8
    assert decode_file_head(bytes(flipped), base) is None
