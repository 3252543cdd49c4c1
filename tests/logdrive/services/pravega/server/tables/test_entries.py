"""Format of the entries of a table's log."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.services.pravega.server.tables.entries import (
    TableChange,
    TableLogEntry,
    decode_entries,
    encode_entries,
)

MOST = 1000
CHANGES = st.lists(
    st.builds(
        TableChange,
        st.binary(min_size=1, max_size=9),
        st.none() | st.binary(max_size=20),
        st.none() | st.integers(0, (1 << 63) - 1),
    )
)


def test_known_entries_both_ways() -> None:
    parts, entries = encode_entries(
        [TableChange(b"key", b"val"), TableChange(b"key", None), TableChange(b"k", b"", 7)], 100
    )
    assert b"".join(parts).hex() == (
        "0000000003000000038000000000000000"
        + b"keyval".hex()
        + "0000000003ffffffff8000000000000000"
        + b"key".hex()
        + "0000000001000000000000000000000007"
        + b"k".hex()
    )
    assert entries == [
        TableLogEntry(b"key", 100, 100, 3),
        TableLogEntry(b"key", 123, 123, -1),
        TableLogEntry(b"k", 7, 143, 0),
    ]
    assert decode_entries(b"".join(parts), 100, longest=MOST, most=99) == entries
    assert entries[0].value_at == 120


@given(CHANGES, st.integers(0, 1 << 40), st.data())
def test_complete_changes_are_decoded_as_they_were_encoded(
    changes: list[TableChange], base: int, data: st.DataObject
) -> None:
    parts, entries = encode_entries(changes, base)
    whole = b"".join(parts)
    cut, most = data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, 10))
    expected = [entry for entry in entries if entry.offset + entry.length <= base + cut]
    assert decode_entries(whole[:cut], base, longest=MOST, most=most) == expected[:most]


@pytest.mark.parametrize(
    "head",
    [
        "010000000300000003",
        "000000000000000000",
        "0000000003fffffffe",
        "007fffffff00000000",
        "0000000001000003e8",
        "00fffffffd00000003",
    ],
)
def test_malformed_entries_are_refused_from_their_head(head: str) -> None:
    with pytest.raises(ValueError, match="no table entry at offset 5"):
        decode_entries(bytes.fromhex(head) + bytes(20), 5, longest=MOST, most=99)


@given(st.binary(max_size=100))
def test_garbage_raises_only_value_errors(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode_entries(data, 0, longest=MOST, most=99)
