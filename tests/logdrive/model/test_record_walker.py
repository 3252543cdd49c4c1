"""Batches where offsets count records: framed for the way, and found again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.errors import StorageError
from logdrive.model.framing import frame_event, split_events
from logdrive.model.limits import RUN_RECORDS
from logdrive.model.record_walker import batch_at_record, frame_batch, torn_batch, walk_records
from tests.logdrive.pipeline.segments import SEGMENT, Segment


def header(records: list[bytes], events: int = 0) -> bytes:
    """Return the header that a receiver writes before *records*."""
    segment = Segment()
    segment.foreign("f", records, events)
    return next(split_events(bytes(segment.data)))


batches = st.one_of(
    st.lists(st.binary(max_size=40), max_size=5).map(lambda records: ("batch", records)),
    st.binary(max_size=40).map(lambda payload: ("headless", [payload])),
    st.binary(max_size=40).map(lambda payload: ("command", [payload])),
)


@given(st.integers(0, 2**60), st.lists(batches, max_size=8), st.integers(0, 2000))
def test_what_was_framed_is_found_up_to_where_it_is_cut(
    offset: int, made: list[tuple[str, list[bytes]]], cut: int
) -> None:
    expected, data, ends, place = [], b"", [], offset
    for kind, records in made:
        first = header(records) if kind == "batch" else records[0]
        batch = batch_at_record(place, first, command=kind == "command")
        assert batch.next == place + 1 + (len(records) if kind == "batch" else 0)
        assert (batch.header is not None, batch.command) == (kind == "batch", kind == "command")
        body = records if kind == "batch" else []
        data += frame_batch(batch, body)
        expected.append((batch, body))
        ends.append(len(data))
        place = batch.next
    found = list(walk_records(SEGMENT, offset, data))
    assert [(one.batch, list(split_events(data, one.start, one.end))) for one in found] == expected
    assert [one.end for one in found] == ends
    assert sum(batch.size for batch, _ in expected) == len(data)
    if cut in ends:  # else inside a frame, which no reader yields
        whole = list(walk_records(SEGMENT, offset, data[:cut]))
        assert whole == found[: ends.index(cut) + 1]


def test_a_torn_batch_covers_what_is_lost_and_is_known_by_its_header() -> None:
    first = header([b"one", b"two", b"three"])
    torn = torn_batch(7, 9, [first, b"one"])
    assert (torn.header, torn.torn, torn.next) == (None, True, 9)
    assert torn.payload == first + b"\none"
    assert torn.crc == batch_at_record(7, first).crc
    lost = torn_batch(9, 12, [])
    after = batch_at_record(12, first)
    data = frame_batch(torn, []) + frame_batch(lost, [])
    data += frame_batch(after, [b"one", b"two", b"three"])
    assert [one.batch for one in walk_records(SEGMENT, 7, data)] == [torn, lost, after]
    with pytest.raises(StorageError, match="is damaged"):
        list(walk_records(SEGMENT, 7, b"\xff\xff\xff\xfe\0\0\0\2ab"))


def test_a_batch_without_all_its_records_is_left_out() -> None:
    whole = frame_batch(batch_at_record(7, header([b"one", b"two"])), [b"one", b"two"])
    part = whole[: -len(frame_event(b"two"))]
    assert list(walk_records(SEGMENT, 7, part)) == []
    assert len(list(walk_records(SEGMENT, 7, whole + part))) == 1


@given(st.binary(min_size=1, max_size=60))
def test_garbage_raises_only_storage_errors(data: bytes) -> None:
    try:
        for one in walk_records(SEGMENT, 0, data):
            assert one.end <= len(data)
    except StorageError:
        pass


@pytest.mark.parametrize(
    "data", [b"\0" * 7, b"\0\0\0\1\0\0\0\0", b"\0\0\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\0\0\5abc"]
)
def test_bytes_that_are_no_frames_are_refused(data: bytes) -> None:
    with pytest.raises(StorageError, match="is damaged"):
        list(walk_records(SEGMENT, 0, data))


def test_a_header_that_announces_more_than_a_receiver_writes_is_headless() -> None:
    most = header([b""] * RUN_RECORDS)
    assert batch_at_record(0, most).next == 1 + RUN_RECORDS
    assert batch_at_record(0, header([b""] * (RUN_RECORDS + 1))).header is None
