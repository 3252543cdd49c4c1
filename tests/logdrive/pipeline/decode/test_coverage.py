"""Rule A2: of a batch just the uncovered part is kept."""

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.model import records as record
from logdrive.pipeline.bronze.rebuild import rebuild
from logdrive.pipeline.bronze.trim_rows import trim_rows
from logdrive.pipeline.decode import coverage
from logdrive.pipeline.decode.coverage import (
    Coverage,
    GrowingUnion,
    intersect,
    subtract,
    total_size,
    union,
)
from logdrive.pipeline.decode.decode import Decoder
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment, file_records

intervals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted).map(lambda two: (two[0], two[1])),
    max_size=12,
)


def bytes_in(parts: list[tuple[int, int]]) -> set[int]:
    return {n for start, end in parts for n in range(start, end)}


@given(intervals)
def test_a2_a_cover_keeps_each_byte_of_a_source_once(batches: list[tuple[int, int]]) -> None:
    cover, seen = Coverage(), set[int]()
    for start, end in batches:
        kept = cover.cover_interval("a", start, end)
        assert kept == union(kept)
        assert bytes_in(kept) == set(range(start, end)) - seen
        seen |= set(range(start, end))
        have = cover.covered_intervals("a")
        assert bytes_in(have) == seen
        assert have == union(have)
    assert cover.covered_intervals("b") == []


@given(intervals, intervals)
def test_interval_arithmetic_is_that_of_sets(
    some: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    assert bytes_in(union(some)) == bytes_in(some)
    assert bytes_in(subtract(union(some), union(others))) == bytes_in(some) - bytes_in(others)
    assert bytes_in(intersect(some, others)) == bytes_in(some) & bytes_in(others)
    assert total_size(union(some)) == len(bytes_in(some))


@given(st.lists(intervals, max_size=8), st.integers(0, 20))
def test_intervals_that_come_bit_by_bit_are_those_that_come_at_once(
    bits: list[list[tuple[int, int]]], join_at: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coverage, "_JOIN_AT", join_at)
        growing, added = GrowingUnion(), list[tuple[int, int]]()
        for bit in bits:
            growing.add(bit)
            added += bit
            assert growing.intervals() == union(added)


def test_many_intervals_that_come_bit_by_bit_are_joined_as_often_as_their_number_doubles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joined, count = 0, 10_000

    def counted(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        nonlocal joined
        parts = list(parts)
        joined += len(parts)
        return union(parts)

    monkeypatch.setattr(coverage, "union", counted)
    monkeypatch.setattr(coverage, "_JOIN_AT", 16)
    growing = GrowingUnion()
    for place in range(0, 2 * count, 2):  # as of a file of which every second line was erased
        growing.add([(place, place + 1)])
    assert len(growing.intervals()) == count
    assert joined < 4 * count


def rows_of_file(data: bytes, start: int = 0) -> pa.Table:
    segment = Segment()
    records, count = file_records(data, start)
    segment.data_batch("a", start, start + len(data), records, count)
    decoder = Decoder(STREAM)
    decoder.decode_batches(SEGMENT, 0, bytes(segment.data))
    return decoder.take_tables()[0]


parts = st.lists(
    st.sampled_from([b"one\n", b"two\r\n", b"\n", "ä€🦫\n".encode(), b"\xff\xfe\n", b"three"]),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=80)
@given(parts, intervals)
def test_a2_rows_across_an_edge_are_cut_to_the_uncovered_bytes(
    lines: list[bytes], some: list[tuple[int, int]]
) -> None:
    data = b"".join(lines)
    kept = intersect(some, [(0, len(data))])
    left = trim_rows(rows_of_file(data), kept)
    assert [(at, text) for at, text in rebuild(left)] == [
        (start, data[start:end]) for start, end in kept
    ]


def test_history_18_a_line_shipped_in_two_cuts_is_two_rows_and_no_byte_twice() -> None:
    cover = Coverage()
    first = trim_rows(rows_of_file(b"abc"), cover.cover_interval("a", 0, 3))
    second = trim_rows(rows_of_file(b"abcdef\n"), cover.cover_interval("a", 0, 7))
    rows = pa.concat_tables([first, second])
    assert rows["message"].to_pylist() == ["abc", "def"]
    assert rows["flag"].to_pylist() == [None, "cut"]
    assert list(rebuild(rows)) == [(0, b"abcdef\n")]


def test_a2_a_row_that_is_not_the_files_bytes_is_kept_whole_and_flagged() -> None:
    segment = Segment()
    segment.data_batch("a", 0, 10, [record.lean_record(0, 10, "redacted")], 1)
    decoder = Decoder(STREAM)
    decoder.decode_batches(SEGMENT, 0, bytes(segment.data))
    table, _ = decoder.take_tables()
    rows = (
        trim_rows(table, [(2, 4), (6, 10)]).select(["start", "end", "message", "flag"]).to_pylist()
    )
    assert rows == [
        {"start": 2, "end": 4, "message": "redacted", "flag": "whole"},
        {"start": 6, "end": 10, "message": "", "flag": "whole"},
    ]


@pytest.mark.parametrize(("kept", "rows"), [([], 0), ([(0, 1)], 1)])
def test_a_row_without_positions_goes_only_with_its_whole_batch(
    kept: list[tuple[int, int]], rows: int
) -> None:
    segment = Segment()
    segment.data_batch("a", 0, 5, [b"no json"], 1)
    decoder = Decoder(STREAM)
    decoder.decode_batches(SEGMENT, 0, bytes(segment.data))
    assert trim_rows(decoder.take_tables()[0], kept).num_rows == rows
