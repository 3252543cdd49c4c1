"""Batches cut from the messages of a partition: whole ones, torn ones, and lost messages."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.errors import TransientError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.framing import frame_event, split_events
from logdrive.model.record_walker import batch_at_record, torn_batch
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.services.iggy.batches import PendingSend
from logdrive.services.iggy.reader.batches import MessageCutter, MessageRun, is_marked
from logdrive.wire.iggy.messages.envelope import decode_message
from tests.logdrive.pipeline.segments import Segment

PARTITION = "logs/app/0"


def batch(*records: bytes) -> list[bytes]:
    """Return *records* with the header that a receiver writes before them."""
    segment = Segment()
    segment.foreign("f", records)
    (ref,) = walk_batches(segment.name, 0, bytes(segment.data))
    return [ref.payload, *split_events(bytes(segment.data), ref.body, ref.next)]


@dataclass(frozen=True)
class Message:
    """A message that was polled; *begins* is a sink's mark."""

    offset: int
    payload: bytes
    begins: bool


def sent(*batches: Sequence[bytes], at: int = 0) -> list[Message]:
    """Return *batches* as a sink sends them, from offset *at* on."""
    payloads = [(payload, not i) for one in batches for i, payload in enumerate(one)]
    return [Message(at + i, *message) for i, message in enumerate(payloads)]


def runs(messages: Sequence[Message], step: int) -> Iterator[MessageRun]:
    """Yield *messages* in runs of at most *step*, which end where one is lost."""
    at = 0
    while at < len(messages):
        end = at + 1
        while end < len(messages) and end < at + step:
            if messages[end].offset != messages[end - 1].offset + 1:
                break
            end += 1
        part = messages[at:end]
        marked = frozenset(one.offset for one in part if one.begins)
        yield MessageRun(part[0].offset, [one.payload for one in part], partial(frozenset, marked))
        at = end


def cut(
    messages: Sequence[Message], at: int = 0, step: int = 1000
) -> list[tuple[BatchRef, list[bytes]]]:
    cutter, found = MessageCutter(PARTITION, at), []
    for run in runs(messages, step):
        cutter.receive_run(run)
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
    messages = [Message(i, payload, begins=False) for i, payload in enumerate(others)]
    header = Message(0, FIRST[0], begins=True)
    shifted = [replace(message, offset=message.offset + 1) for message in messages]
    found = cut([header, *shifted])
    assert found[0] == (torn_batch(0, 1, FIRST[:1]), [])
    assert [ref for ref, _ in found[1:]] == [
        batch_at_record(i + 1, payload) for i, payload in enumerate(others)
    ]


def test_unmarked_batches_of_other_writers_are_cut_by_their_headers() -> None:
    plain = [replace(message, begins=False) for message in sent(FIRST, SECOND)]
    assert cut(plain) == cut(sent(FIRST, SECOND))


def test_a_message_from_before_is_an_outage() -> None:
    cutter = MessageCutter(PARTITION, 5)
    with pytest.raises(TransientError, match="polled from 5 on, and got 4"):
        cutter.receive_run(next(runs(sent(FIRST, at=4), 9)))


@given(st.lists(st.integers(0, 5), max_size=12), st.sets(st.integers(0, 40)), st.integers(1, 9))
def test_whatever_is_lost_each_batch_is_whole_or_torn(
    sizes: list[int], lost: set[int], step: int
) -> None:
    batches = [batch(*[b"%d %d" % (i, j) for j in range(size)]) for i, size in enumerate(sizes)]
    kept = [one for one in sent(*batches) if one.offset not in lost]
    expected = {(b[0], tuple(b[1:])) for b in batches}
    found, at = cut(kept, step=step), 0
    for ref, records in found:
        assert ref.offset == at
        at = ref.next
        assert ref.torn or (ref.header is not None) == ((ref.payload, tuple(records)) in expected)
    whole, at = set(), 0
    for one in batches:
        if lost.isdisjoint(range(at, at + len(one))):
            whole.add((one[0], tuple(one[1:])))
        at += len(one)
    assert whole == {(ref.payload, tuple(rest)) for ref, rest in found if ref.header is not None}


def test_a_record_that_looks_like_a_header_is_data_unless_a_sink_marked_it() -> None:
    odd = batch(SECOND[0], b"other")
    found = cut(sent(odd, SECOND))
    assert [records for _, records in found] == [odd[1:], SECOND[1:]]


def test_what_a_sink_sends_is_marked() -> None:
    async def main() -> bytes:
        events = [frame_event(payload) for payload in FIRST]
        return PendingSend(events, len(FIRST), UUID(int=1), 7, 0, Random(1)).events

    first, *others = map(decode_message, split_events(asyncio.run(main())))
    assert is_marked(first.headers)
    assert [first.payload, *(other.payload for other in others)] == FIRST
    assert not any(is_marked(other.headers) for other in others)
