"""What a reader asks of a topic, and makes of the answers, in every revision."""

from typing import TypeVar

import pytest

from logdrive.errors import StorageError, TransientError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.record_walker import torn_batch
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.read.offsets import Point
from logdrive.services.batch_budget import BatchBudget
from logdrive.services.iggy.reader.headers import count_known_messages, read_batch_refs
from logdrive.services.iggy.reader.lines import count_partition, read_topic_lines
from logdrive.services.iggy.reader.polling import (
    PartitionReading,
    partition_states,
)
from logdrive.services.reader import SegmentState
from logdrive.wire.iggy.identifiers import ConsumerKind
from logdrive.wire.iggy.messages.envelope import StoredMessage
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.services.iggy.reader.memory_topic import (
    PARTITION,
    STREAM,
    TOPIC,
    MemoryTopic,
    as_sent,
)
from tests.logdrive.services.pack_batches import no_fault
from tests.support.virtual_time import run

T = TypeVar("T")


@pytest.fixture(params=[Revision.R0, Revision.R1, Revision.R2C, Revision.R3], ids=lambda r: r.name)
def topic(request: pytest.FixtureRequest) -> MemoryTopic:
    return MemoryTopic(request.param)


@pytest.fixture
def segment() -> Segment:
    """Small batches, then large ones, then a gap."""
    segment, at = Segment(), 0
    for turn in range(40):
        at = send(segment, "a", lines("a", turn, 5), at)
    at = send(segment, "b", lines("b", 0, 4000))
    send(segment, "b", lines("b", 1, 4000), at)
    segment.gap("b", 0, 1, "removed")
    return segment


def states(topic: MemoryTopic) -> list[SegmentState]:
    return run(partition_states(topic, STREAM, TOPIC))


def refs(topic: MemoryTopic, most: int | None = None) -> list[BatchRef]:
    (state,) = states(topic)
    return run(
        read_batch_refs(topic, PARTITION, state.start, state.length, BatchBudget(most, None))
    )


def text(topic: MemoryTopic) -> bytes:
    async def main() -> bytes:
        reading = read_topic_lines(
            topic, STREAM, TOPIC, follow=False, sleep=_no_sleep, on_fault=no_fault
        )
        return b"".join([text async for _, text in reading])

    return run(main())


async def _no_sleep(_: float) -> None:
    raise AssertionError("nothing to wait for")


def test_a_topic_that_is_missing_has_no_partitions(topic: MemoryTopic) -> None:
    assert run(partition_states(topic, STREAM, "other")) == []
    assert run(partition_states(topic, "other", TOPIC)) == []


def test_the_bounds_of_each_partition_are_told(topic: MemoryTopic, segment: Segment) -> None:
    topic.partitions = [[], [], []]
    topic.send(as_sent(segment))
    topic.send([StoredMessage(b"one")], 2)
    found = states(topic)
    assert [(one.segment, one.start, one.length) for one in found] == [
        ("logs/app/0", 0, len(topic.partitions[0])),
        ("logs/app/1", 0, 0),
        ("logs/app/2", 0, 1),
    ]
    assert [one.modified_ms for one in found] == [1_700_000_000_123, 0, 1_700_000_000_123]
    topic.first = 3
    assert states(topic)[0].start == 3
    topic.first = len(topic.partitions[0])  # all are gone: offsets go on
    assert (states(topic)[0].start, states(topic)[0].length) == (topic.first, topic.first)


def test_a_reader_stores_no_offset(topic: MemoryTopic, segment: Segment) -> None:
    topic.send(as_sent(segment))
    assert refs(topic)
    assert {(poll.consumer.kind, poll.auto_commit) for poll in topic.polls} == {
        (ConsumerKind.CONSUMER, False)
    }


def test_batches_are_those_of_the_bytes(topic: MemoryTopic, segment: Segment) -> None:
    topic.send(as_sent(segment))
    expected = list(walk_batches(segment.name, 0, bytes(segment.data)))
    found, at = refs(topic), 0
    for ref, same in zip(found, expected, strict=True):
        assert (ref.offset, ref.body, ref.header) == (at, at + 1, same.header)
        assert (ref.crc, ref.payload, ref.size) == (same.crc, same.payload, same.next - same.offset)
        at = ref.next
    assert refs(topic, most=found[0].size + found[1].size) == found[:2]
    assert refs(topic, most=1) == found[:1]
    assert max(poll.count for poll in topic.polls) > 32, "polls grow"


def test_polls_are_small_where_messages_are_large(topic: MemoryTopic) -> None:
    topic.send([StoredMessage(b"x" * 1_000_000)] * 60)
    assert len(refs(topic)) == 60
    assert {poll.count for poll in topic.polls[1:]} == {32, 4}


def test_a_torn_batch_takes_nothing_of_the_next(topic: MemoryTopic, segment: Segment) -> None:
    batches = as_sent(segment)
    (*_, last) = (one for one in walk_batches(segment.name, 0, bytes(segment.data)) if one.header)
    assert last.header is not None
    assert last.header.kind == "gap"
    topic.send([*batches[:-1], *batches])  # the last batch is sent again, with all others
    found = refs(topic)
    (torn,) = (ref for ref in found if ref.torn)
    assert torn == torn_batch(len(batches) - 2, len(batches) - 1, [last.payload])
    whole = [(ref.header, ref.payload) for ref in found if not ref.torn]
    again = list(walk_batches(segment.name, 0, bytes(segment.data)))
    assert whole == [(ref.header, ref.payload) for ref in [*again[:-1], *again]]


def test_lost_messages_are_one_torn_batch(topic: MemoryTopic, segment: Segment) -> None:
    topic.send(as_sent(segment))
    whole = refs(topic)
    first, second = whole[3], whole[4]
    topic.partitions[0][first.offset : second.next] = [None] * (second.next - first.offset)
    found = refs(topic)
    assert found == [*whole[:3], torn_batch(first.offset, second.next, []), *whole[5:]]
    (state,) = states(topic)
    assert run(count_known_messages(topic, PARTITION, found, state)) == len(found)


def test_messages_count_once_and_in_order(topic: MemoryTopic, segment: Segment) -> None:
    topic.send(as_sent(segment))
    whole = refs(topic)
    topic.scrambled = True
    assert refs(topic) == whole


def test_a_message_that_comes_late_is_not_taken_for_lost(
    topic: MemoryTopic, segment: Segment
) -> None:
    """A server may show what was sent behind it before."""
    topic.send(as_sent(segment))
    whole = refs(topic)
    topic.late, topic.late_offset = 2, whole[3].offset
    assert refs(topic) == whole
    assert topic.late == 0


@pytest.mark.parametrize("knows_first", [True, False])
def test_what_was_removed_is_not_taken_for_lost(
    topic: MemoryTopic, segment: Segment, knows_first: bool
) -> None:
    topic.knows_first = knows_first
    topic.send(as_sent(segment))
    whole = refs(topic)
    topic.first = whole[3].offset
    assert refs(topic) == whole[3:]
    with pytest.raises(StorageError, match="were removed before they were read"):
        run(read_batch_refs(topic, PARTITION, 0, whole[-1].next, BatchBudget(None, None)))


def test_messages_that_are_not_there_are_an_outage(topic: MemoryTopic, segment: Segment) -> None:
    topic.send(as_sent(segment))
    end = len(topic.partitions[0])
    with pytest.raises(TransientError, match=f"from {end} to {end + 1} are not there"):
        run(read_batch_refs(topic, PARTITION, 0, end + 1, BatchBudget(None, None)))


def test_headers_are_known_again_by_place_and_content(topic: MemoryTopic, segment: Segment) -> None:
    topic.send(as_sent(segment))
    found, (state,) = refs(topic), states(topic)

    def known(marks: list[BatchRef | Point]) -> int:
        return run(count_known_messages(topic, PARTITION, marks, state))

    assert known([*found]) == len(found)
    assert known([*found[:5], Point(0, found[5].offset, found[5].crc ^ 1)]) == 5
    assert known([*found, Point(0, state.length, 0)]) == len(found)


def test_a_range_is_read_whole_or_refused(topic: MemoryTopic, segment: Segment) -> None:
    messages = as_sent(segment)
    topic.send([*messages[:-1], *messages])
    found = refs(topic)

    async def read(start: int, end: int) -> list[BatchRef]:
        reading, batches = PartitionReading(topic, PARTITION, start), []
        while reading.position < end:
            batches.append((await reading.next_batch(end))[0])
        return batches

    torn = next(ref for ref in found if ref.torn)
    # what tells that it is torn lies behind its range
    assert run(read(torn.offset, torn.next)) == [torn]
    for one in found:
        assert run(read(one.offset, one.next)) == [one]
    with pytest.raises(StorageError, match="no batch ends at"):
        run(read(0, found[1].next - 1))


def test_lines_come_partition_after_partition(topic: MemoryTopic, segment: Segment) -> None:
    other = Segment()
    send(other, "c", lines("c", 0, 3))
    topic.partitions = [[], []]
    topic.send(as_sent(segment))
    topic.send(as_sent(other), 1)
    printed = text(topic)
    assert printed.endswith(lines("c", 0, 3))
    assert printed.startswith(lines("a", 0, 5))
    (first, _) = states(topic)
    counted = run(count_partition(topic, PARTITION, first))
    assert (counted.batches, counted.sources) == (43, 2)


def test_what_is_left_of_a_torn_batch_is_printed(topic: MemoryTopic) -> None:
    segment, event = Segment(), b'{"message":"kept"}'
    segment.foreign("f", [event, b'{"message":"lost"}'])
    sent = as_sent(segment)
    topic.send([*sent[:2], *sent])
    assert text(topic) == b"kept\nkept\nlost\n"


def test_following_reads_what_is_sent_later(topic: MemoryTopic) -> None:
    segment = Segment()
    send(segment, "a", lines("a", 0, 2))
    sent, naps = as_sent(segment), list[float]()

    async def nap(seconds: float) -> None:
        naps.append(seconds)
        topic.send(sent[:1] if len(naps) == 1 else sent[1:])  # half a batch, then the rest

    async def main() -> bytes:
        reading = read_topic_lines(topic, STREAM, TOPIC, follow=True, sleep=nap, on_fault=no_fault)
        return (await anext(reading)).text

    assert run(main()) == lines("a", 0, 2)
    assert len(naps) == 2
