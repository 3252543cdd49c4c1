"""`logdrive.wire.s2.sse`: events and where to go on."""

import json

import pytest
from hypothesis import given

from logdrive.wire.s2.errors import RangeNotSatisfiableError, unavailable
from logdrive.wire.s2.json import Format, decode_read_batch
from logdrive.wire.s2.records import ReadBatch, SequencedRecord, StreamPosition
from logdrive.wire.s2.sse import (
    DONE,
    LastEventId,
    encode_batch,
    encode_error,
    encode_ping,
    parse_last_event_id,
)
from tests.logdrive.wire.s2.samples import batches, refusal, u64s


@given(batches, u64s)
def test_a_batch_is_one_event_with_its_place(batch: ReadBatch, number: int) -> None:
    place = LastEventId(number, 3, 50)
    event = encode_batch(batch, place, Format.BASE64)
    lines = event.split(b"\n")
    assert lines[0] == b"event: batch"
    assert parse_last_event_id(lines[1].removeprefix(b"id: ").decode()) == place
    assert decode_read_batch(lines[2].removeprefix(b"data: "), Format.BASE64) == batch
    assert lines[3:] == [b"", b""]


def test_line_breaks_of_a_record_do_not_break_its_event() -> None:
    batch = ReadBatch((SequencedRecord(0, 0, (), b"a\n\r\n\ndata: [DONE]\n\n"),))
    event = encode_batch(batch, LastEventId(0, 1, 20), Format.RAW)
    assert event.count(b"\n") == 4
    assert b"\r" not in event


def test_a_heartbeat_has_the_time_and_the_tail() -> None:
    assert encode_ping(9, StreamPosition(5, 7)) == (
        b'event: ping\ndata: {"timestamp":9,"tail":{"seq_num":5,"timestamp":7}}\n\n'
    )


def test_the_ends_are_told_apart() -> None:
    assert DONE == b"data: [DONE]\n\n"
    event = encode_error(unavailable("gone"))
    assert event.startswith(b"event: error\ndata: ")
    assert json.loads(event.split(b"data: ")[1])["code"] == "unavailable"
    tail = StreamPosition(1, 2)
    assert RangeNotSatisfiableError(tail).body() in encode_error(RangeNotSatisfiableError(tail))


@pytest.mark.parametrize(
    "text",
    ["", "1", "1,2", "1,2,3,4", "a,2,3", "1,-2,3", "1,2,", "1, 2,3", "1,2,18446744073709551616"],
)
def test_another_last_event_id_is_refused(text: str) -> None:
    assert refusal(parse_last_event_id, text) == (400, "bad_header")
