"""Events of plain peers are grouped into batches that fit, in order and without loss (rule R3)."""

import base64
from uuid import UUID

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.model.framing import EVENT_HEAD, event_length
from logdrive.model.limits import EVENT_BYTES, RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.model.units import KIB
from logdrive.wire.lumberjack.frames import JsonRun, KeyValueFrame, json_frames
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameReader
from receiver.dialects.dead_letters import dead_letter_records
from receiver.dialects.events import EventGroup, TooLong, group_events, record_of


@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from([1, 200, 90 * KIB, 300 * KIB, RECORD_BYTES, RECORD_BYTES + 1]), max_size=12
    ),
    st.integers(0, 2500),
)
def test_chunks_hold_all_records_in_order_within_the_limits(sizes: list[int], short: int) -> None:
    payloads = [bytes([number % 251]) * size for number, size in enumerate(sizes)] + [
        b"short"
    ] * short
    found: list[bytes] = []
    for chunk in group_events(_read(payloads)):
        if isinstance(chunk, TooLong):
            assert len(chunk.payload) > RECORD_BYTES
            found.append(chunk.payload)
        else:
            events = b"".join(chunk.parts)
            records = _records(events)
            assert len(events) == chunk.size <= RUN_BYTES
            assert 0 < len(records) == chunk.records <= RUN_RECORDS
            assert max(map(len, records)) <= RECORD_BYTES
            found += records
    assert found == payloads


def _read(payloads: list[bytes]) -> list[JsonRun]:
    """Return the runs that a reader finds in one window of *payloads*."""
    frames = FrameReader(PLAIN_LUMBERJACK, side="reader", dialect="lumberjack").receive_data(
        b"".join(json_frames(1, payloads))
    )
    return [frame for frame in frames if isinstance(frame, JsonRun)]


def _records(framed: bytes) -> list[bytes]:
    records = []
    while framed:
        end = EVENT_HEAD + event_length(framed[:EVENT_HEAD])
        records.append(framed[EVENT_HEAD:end])
        framed = framed[end:]
    return records


def test_a_whole_window_of_beats_size_takes_three_batches() -> None:
    runs = _read([b'{"message":"x"}'] * 2048)
    assert [chunk.records for chunk in group_events(runs) if isinstance(chunk, EventGroup)] == [
        999,
        999,
        50,
    ]


def test_events_that_came_singly_share_a_batch() -> None:
    singles = [JsonRun.of(1, [b"%d" % number]) for number in range(1500)]
    (first, second) = [chunk for chunk in group_events(singles) if isinstance(chunk, EventGroup)]
    assert (first.records, second.records) == (RUN_RECORDS, 1500 - RUN_RECORDS)
    # an object for each would take more memory than it holds
    assert max(len(first.parts), len(second.parts)) < 100
    assert _records(b"".join([*first.parts, *second.parts])) == [
        b"%d" % number for number in range(1500)
    ]


def test_a_v1_event_becomes_json_with_its_keys_as_given() -> None:
    event = KeyValueFrame(1, (("line", 'a "b" \u2028'), ("host.name", "web"), ("offset", "17")))
    assert orjson.loads(record_of(event)) == {
        "line": 'a "b" \u2028',
        "host.name": "web",
        "offset": "17",
    }


def test_a_key_that_comes_twice_keeps_all_its_values() -> None:
    assert orjson.loads(
        record_of(KeyValueFrame(1, (("a", "1"), ("b", "2"), ("a", "3"), ("a", "4"))))
    ) == {
        "a": ["1", "3", "4"],
        "b": "2",
    }


@pytest.mark.parametrize("size", [RECORD_BYTES + 1, 3 * RECORD_BYTES])
def test_the_pieces_of_a_dead_letter_are_records_that_fit_and_give_the_record_back(
    size: int,
) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    records = list(dead_letter_records(payload, UUID(int=5)))
    assert all(len(record) <= RECORD_BYTES for record in records)
    parsed = [orjson.loads(record) for record in records]
    assert b"".join(base64.b64decode(record["original_base64"]) for record in parsed) == payload
    assert {record["dead_letter"]["id"] for record in parsed} == {str(UUID(int=5))}
    assert [record["dead_letter"]["piece"] for record in parsed] == list(range(1, len(records) + 1))
    assert (
        parsed[0]["dead_letter"]["reason"]
        == f"an event of {len(payload)} bytes, over {EVENT_BYTES}"
    )
