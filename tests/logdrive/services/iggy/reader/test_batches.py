"""Batches cut from the messages of a partition: whole ones, torn ones, and lost messages."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.errors import TransientError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.framing import split_events
from logdrive.model.record_walker import batch_at_record, torn_batch
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.services.iggy.reader.batches import MessageCutter, PartitionMessage
from tests.logdrive.pipeline.segments import Segment

PARTITION = "logs/app/0"


def batch(*records: bytes) -> list[bytes]:
    """Return *records* with the header that a receiver writes before them."""
    segment = Segment()
    segment.foreign("f", records)
    (ref,) = walk_batches(segment.name, 0, bytes(segment.data))
    return [ref.payload, *split_events(bytes(segment.data), ref.body, ref.next)]


def sent(*batches: Sequence[bytes], at: int = 0) -> list[PartitionMessage]:
    """Return *batches* as a sink sends them, from offset *at* on."""
    payloads = [(payload, not i) for one in batches for i, payload in enumerate(one)]
    return [PartitionMessage(at + i, *message) for i, message in enumerate(payloads)]


def cut(
    messages: Sequence[PartitionMessage], at: int = 0, step: int = 1000
) -> list[tuple[BatchRef, list[bytes]]]:
    cutter, found = MessageCutter(PARTITION, at), []
    for begin in range(0, len(messages), step):
        cutter.receive_messages(messages[begin : begin + step])
        while (one := cutter.next_batch()) is not None:
            found.append(one)
            assert cutter.position == one[0].next
    return found


FIRST, SECOND = batch(b"one", b"two", b"three"), batch(b"four")


@given(st.lists(st.lists(st.binary(max_size=20), max_size=6), max_size=8), st.integers(1, 30))
def test_batches_are_the_same_however_they_are_polled(made: list[list[bytes]], step: int) -> None:
    batches = [batch(*records) for records in made]
    found = cut(sent(*batches, at=7), 7, step)
    assert [[ref.payload, *records] for ref, records in found] == batches
    assert all(ref.header is not None and not ref.torn for ref, _ in found)


def test_a_batch_is_returned_once_all_its_records_are_there() -> None:
    messages = sent(FIRST)
    assert cut(messages[:-1]) == []
    assert [ref.next for ref, _ in cut(messages)] == [4]


@pytest.mark.parametrize("left", [1, 2, 3])
def test_a_batch_that_lost_its_end_takes_no_records_of_the_next(left: int) -> None:
    found = cut(sent(FIRST[:left], FIRST, SECOND))
    assert found[0] == (torn_batch(0, left, FIRST[:left]), [])
    assert [[ref.payload, *records] for ref, records in found[1:]] == [FIRST, SECOND]


def test_lost_messages_are_told_and_what_follows_is_read() -> None:
    first, second = sent(FIRST, at=0), sent(SECOND, at=9)
    found = cut([*first, *second])
    assert found[1] == (torn_batch(4, 9, []), [])
    assert found[2][1] == [b"four"]
    found = cut([*first[:2], *second])  # and the end of the batch before
    assert [ref for ref, _ in found[:2]] == [
        torn_batch(0, 2, FIRST[:2]),
        torn_batch(2, 9, []),
    ]
    assert found[2][1] == [b"four"]
    assert [ref for ref, _ in cut(second, 3)[:1]] == [torn_batch(3, 9, [])]


def test_a_header_whose_records_are_others_stands_for_itself() -> None:
    others = [b"not", b"its", b"records"]
    messages = [PartitionMessage(i, payload, begins=False) for i, payload in enumerate(others)]
    header = PartitionMessage(0, FIRST[0], begins=True)
    shifted = [message._replace(offset=message.offset + 1) for message in messages]
    found = cut([header, *shifted])
    assert found[0] == (torn_batch(0, 1, FIRST[:1]), [])
    assert [ref for ref, _ in found[1:]] == [
        batch_at_record(i + 1, payload) for i, payload in enumerate(others)
    ]


def test_unmarked_batches_of_other_writers_are_cut_by_their_headers() -> None:
    plain = [message._replace(begins=False) for message in sent(FIRST, SECOND)]
    assert cut(plain) == cut(sent(FIRST, SECOND))


def test_a_message_from_before_is_an_outage() -> None:
    cutter = MessageCutter(PARTITION, 5)
    with pytest.raises(TransientError, match="polled from 5 on, and got 4"):
        cutter.receive_messages(sent(FIRST, at=4))
