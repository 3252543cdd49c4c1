"""Answers to requests that create, seal, truncate, merge and delete segments.

Specification, sections 3, 2.11 and 0.
"""

import asyncio
import errno
from uuid import UUID

import pytest

from logdrive.model.numbers import ABSENT
from logdrive.store.limits import StoreLimits
from logdrive.wire.pravega.appends import (
    AppendBlockEnd,
    AppendSetup,
    ConditionalBlockEnd,
    DataAppended,
    SetupAppend,
)
from logdrive.wire.pravega.control import (
    ErrorMessage,
    KeepAlive,
    NoSuchSegment,
    SegmentAlreadyExists,
    SegmentIsSealed,
    SegmentIsTruncated,
)
from logdrive.wire.pravega.names import transient_name
from logdrive.wire.pravega.segments import (
    ACCUMULATE,
    BY_EVENTS,
    BY_KILOBYTES,
    NO_SCALING,
    NO_VALUE,
    REPLACE,
    REPLACE_IF_EQUALS,
    REPLACE_IF_GREATER,
    SET_IF_ABSENT,
    AttributeUpdate,
    CreateSegment,
    CreateTransientSegment,
    DeleteSegment,
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    MergedSource,
    MergeSegments,
    MergeSegmentsBatch,
    ReadSegment,
    SealSegment,
    SegmentAttribute,
    SegmentAttributeUpdated,
    SegmentCreated,
    SegmentDeleted,
    SegmentRead,
    SegmentsBatchMerged,
    SegmentSealed,
    SegmentsMerged,
    SegmentTruncated,
    StreamSegmentInfo,
    TruncateSegment,
)
from tests.support.pravega.framings import W
from tests.support.pravega.peer import Peer, S, World, in_world, virtually, world

SOURCE = f"{S}#transaction.{'0' * 32}"
OTHER = f"{S}#transaction.{'1' * 32}"
KEY = UUID(int=5)
LEFT = transient_name(S, W, UUID(int=0))
"""A transient segment of a process that ended."""


async def filled(made: World, segment: str, data: bytes, number: int = 1) -> None:
    await made.store.create(segment)
    await made.store.append(segment, data, writer=W, expected=None, number=number, events=1)


def content(made: World, segment: str = S) -> bytes:
    return made.store.read(segment, 0, 1 << 20)


@in_world
async def test_segments_are_created_once(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(CreateSegment(1, S)) == SegmentCreated(1, S)
    assert await peer.ask(CreateSegment(2, S)) == SegmentAlreadyExists(2, S)
    assert made.store.segments("") == [S]


async def policy_of(peer: Peer) -> list[int]:
    """Return what the attributes say of *S*'s scale type, rate and rollover."""
    answers = [
        await peer.ask(GetSegmentAttribute(0, S, UUID(int=(1 << 127) | number)))
        for number in (2, 3, 4)
    ]
    return [answer.value for answer in answers if isinstance(answer, SegmentAttribute)]


@pytest.mark.parametrize("policy", [(100, BY_EVENTS, 1 << 40), (0, NO_SCALING, 0)])
def test_a_segment_keeps_the_policy_that_it_is_created_with(policy: tuple[int, int, int]) -> None:
    rate, scale_type, rollover = policy

    @in_world
    async def kept(made: World) -> None:
        peer = await made.peer()
        assert await peer.ask(
            CreateSegment(1, S, rate, scale_type, "", rollover)
        ) == SegmentCreated(1, S)
        assert await policy_of(peer) == [scale_type, rate, rollover]
        assert await peer.ask(CreateSegment(2, S, 7, BY_KILOBYTES, "", 7)) == SegmentAlreadyExists(
            2, S
        )
        assert await policy_of(peer) == [scale_type, rate, rollover]
        await made.store.seal(S)
        assert await peer.ask(CreateSegment(3, S, 7, BY_KILOBYTES)) == SegmentAlreadyExists(3, S)
        assert await peer.ask(DeleteSegment(4, S)) == SegmentDeleted(4, S)
        assert await peer.ask(CreateSegment(5, S, 7, BY_KILOBYTES)) == SegmentCreated(5, S)
        assert await policy_of(peer) == [BY_KILOBYTES, 7, 0]

    kept()


@in_world
async def test_a_policy_lost_in_a_crash_is_set_by_the_repeated_request(
    made: World,
) -> None:
    """Segment and attributes are separate entries of the log: a crash may leave the first
    alone.
    """
    await made.store.create(S)
    peer = await made.peer()
    assert await peer.ask(CreateSegment(1, S, 100, BY_EVENTS)) == SegmentAlreadyExists(1, S)
    assert await policy_of(peer) == [BY_EVENTS, 100, 0]


@virtually
async def test_a_full_queue_does_not_make_a_created_segment_look_existing() -> None:
    async with world(limits=StoreLimits(pending=6_000), sync_seconds=1.0) as made:
        await made.store.create(OTHER)
        made.store.append(OTHER, bytes(3_500), writer=W, expected=None, number=1, events=1)
        peer = await made.peer()
        assert await peer.ask(CreateSegment(1, S, 100, BY_EVENTS)) == SegmentCreated(1, S)
        assert await policy_of(peer) == [BY_EVENTS, 100, 0]


@in_world
async def test_an_invalid_name_is_refused_with_a_message(made: World) -> None:
    peer = await made.peer()
    for name in ("", "x" * 2000):
        answer = await peer.ask(CreateSegment(1, name))
        assert isinstance(answer, ErrorMessage)
        assert answer.error_code == 0


@in_world
async def test_a_segment_is_sealed_once(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(SealSegment(1, S)) == NoSuchSegment(1, S, "", -1)
    await made.store.create(S)
    assert await peer.ask(SealSegment(2, S)) == SegmentSealed(2, S)
    assert await peer.ask(SealSegment(3, S)) == SegmentIsSealed(3, S, "", -1)
    answer = await peer.ask(GetStreamSegmentInfo(4, S))
    assert isinstance(answer, StreamSegmentInfo)
    assert answer.is_sealed


@in_world
async def test_a_segment_is_truncated_within_its_bounds_sealed_or_not(made: World) -> None:
    peer = await made.peer()
    for offset in (0, 5):
        assert await peer.ask(TruncateSegment(1, S, offset)) == NoSuchSegment(1, S, "", offset)
    await filled(made, S, b"0123456789")
    assert await peer.ask(TruncateSegment(2, S, 4)) == SegmentTruncated(2, S)
    assert await peer.ask(TruncateSegment(3, S, 4)) == SegmentTruncated(3, S)
    assert await peer.ask(TruncateSegment(4, S, 3)) == SegmentIsTruncated(4, S, 4, "", 3)
    assert await peer.ask(TruncateSegment(5, S, 11)) == SegmentIsTruncated(5, S, 4, "", 11)
    assert await peer.ask(TruncateSegment(6, S, -1)) == SegmentIsTruncated(6, S, 4, "", -1)
    await made.store.seal(S)
    assert await peer.ask(TruncateSegment(7, S, 10)) == SegmentTruncated(7, S)


@in_world
async def test_a_read_before_the_start_is_answered_with_the_start(made: World) -> None:
    await filled(made, S, b"0123456789")
    peer = await made.peer()
    await peer.ask(TruncateSegment(1, S, 4))
    assert await peer.ask(ReadSegment(S, 3, 100, "", 2)) == SegmentIsTruncated(2, S, 4, "", 3)
    assert await peer.ask(ReadSegment(S, 4, 100, "", 3)) == SegmentRead(
        S, 4, True, False, b"456789", 3
    )


@in_world
async def test_a_deleted_segment_is_gone_for_waiting_reads_and_writers_and_its_name_is_free(
    made: World,
) -> None:
    peer, other = await made.peer(), await made.peer()
    assert await peer.ask(DeleteSegment(1, S)) == NoSuchSegment(1, S, "", -1)
    await made.store.create(S)
    await peer.ask(SetupAppend(2, W, S))
    await peer.say(ReadSegment(S, 0, 100, "", 3))
    await peer.ask(KeepAlive())
    assert await other.ask(DeleteSegment(4, S)) == SegmentDeleted(4, S)
    assert await peer.hear() == NoSuchSegment(3, S, "", 0)
    assert await peer.ask(AppendBlockEnd(W, 1, b"x", 1, 1, 5)) == NoSuchSegment(5, S, "", -1)
    assert await peer.ask(CreateSegment(6, S)) == SegmentCreated(6, S)
    assert await peer.ask(SetupAppend(7, W, S)) == AppendSetup(7, S, W, ABSENT)


@in_world
async def test_a_source_is_appended_to_its_target_and_a_repeated_merge_is_answered_again(
    made: World,
) -> None:
    peer = await made.peer()
    await filled(made, S, b"abc")
    await filled(made, SOURCE, b"de")
    assert await peer.ask(MergeSegments(1, S, SOURCE)) == SegmentsMerged(1, S, SOURCE, 5)
    assert content(made) == b"abcde"
    assert await peer.ask(GetStreamSegmentInfo(2, SOURCE)) == NoSuchSegment(2, SOURCE, "", -1)
    await filled(made, S, b"f", 2)
    assert await peer.ask(MergeSegments(3, S, SOURCE)) == SegmentsMerged(3, S, SOURCE, 6)
    assert await peer.ask(CreateSegment(4, SOURCE)) == SegmentCreated(4, SOURCE)
    assert await peer.ask(DeleteSegment(5, SOURCE)) == SegmentDeleted(5, SOURCE)
    assert await peer.ask(MergeSegments(6, S, SOURCE)) == NoSuchSegment(6, SOURCE, "", -1)


@in_world
async def test_invalid_merges_are_refused(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(MergeSegments(1, S, SOURCE)) == NoSuchSegment(1, S, "", -1)
    await filled(made, S, b"abc")
    assert await peer.ask(MergeSegments(2, S, SOURCE)) == NoSuchSegment(2, SOURCE, "", -1)
    answer = await peer.ask(MergeSegments(3, S, S))
    assert isinstance(answer, ErrorMessage)
    await filled(made, SOURCE, b"de")
    await made.store.seal(SOURCE)
    await made.store.seal(S)
    assert await peer.ask(MergeSegments(4, S, SOURCE)) == SegmentIsSealed(4, S, "", -1)
    assert content(made) == b"abc"


@pytest.mark.parametrize(
    "request_", [MergeSegments(1, S, SOURCE), MergeSegmentsBatch(1, S, (SOURCE,))]
)
def test_a_truncated_source_closes_the_connection(request_: MergeSegments) -> None:
    """Section 0, number 9."""

    @in_world
    async def closed(made: World) -> None:
        await filled(made, S, b"abc")
        await filled(made, SOURCE, b"de")
        await made.store.truncate(SOURCE, 1)
        peer = await made.peer()
        await peer.say(request_)
        assert await peer.rest() == []
        assert content(made) == b"abc"

    closed()


@in_world
async def test_several_sources_merge_in_order_and_a_missing_one_counts_as_merged(
    made: World,
) -> None:
    peer = await made.peer()
    assert await peer.ask(MergeSegmentsBatch(1, S, (SOURCE,))) == NoSuchSegment(1, S, "", -1)
    await filled(made, S, b"abc")
    await filled(made, SOURCE, b"de")
    await filled(made, OTHER, b"f")
    merged = (MergedSource(OTHER, 4), MergedSource("gone", 4), MergedSource(SOURCE, 6))
    assert await peer.ask(MergeSegmentsBatch(2, S, (OTHER, "gone", SOURCE))) == SegmentsBatchMerged(
        2, S, merged
    )
    assert content(made) == b"abcfde"
    await made.store.seal(S)
    assert await peer.ask(MergeSegmentsBatch(3, S, ("gone",))) == SegmentIsSealed(3, S, "", -1)


@virtually
async def test_several_sources_are_merged_where_there_is_room_for_one_only__D2() -> None:
    """No source counts as merged because a former attempt submitted it: that is not durable."""
    async with world(limits=StoreLimits(pending=600), sync_seconds=1.0) as made:
        await filled(made, S, b"abc")
        await filled(made, SOURCE, b"de")
        await filled(made, OTHER, b"f")
        peer = await made.peer()
        merged = (MergedSource(OTHER, 4), MergedSource(SOURCE, 6))
        answer = await peer.ask(MergeSegmentsBatch(2, S, (OTHER, SOURCE)))
        assert answer == SegmentsBatchMerged(2, S, merged)
        assert content(made) == b"abcfde"


CONDITIONS = [
    (SET_IF_ABSENT, 8, 0, None, 8),
    (SET_IF_ABSENT, 8, 0, 5, None),
    (REPLACE, 8, 0, None, 8),
    (REPLACE, 8, 0, 5, 8),
    (REPLACE_IF_GREATER, 8, 0, 5, 8),
    (REPLACE_IF_GREATER, 5, 0, 5, None),
    (REPLACE_IF_GREATER, 5, 0, None, 5),
    (ACCUMULATE, 8, 0, 5, 13),
    (ACCUMULATE, 8, 0, None, 8),
    (REPLACE_IF_EQUALS, 8, 5, 5, 8),
    (REPLACE_IF_EQUALS, 8, 6, 5, None),
    (REPLACE_IF_EQUALS, 8, NO_VALUE, None, 8),
]


@pytest.mark.parametrize(("kind", "new", "old", "before", "after"), CONDITIONS)
def test_a_merge_changes_attributes_and_does_nothing_where_a_condition_fails(
    kind: int, new: int, old: int, before: int | None, after: int | None
) -> None:
    @in_world
    async def merged(made: World) -> None:
        await filled(made, S, b"abc")
        await filled(made, SOURCE, b"de")
        if before is not None:
            await made.store.update(S, KEY, None, before)
        peer = await made.peer()
        answer = await peer.ask(
            MergeSegments(1, S, SOURCE, "", (AttributeUpdate(KEY, kind, new, old),))
        )
        if after is None:
            assert answer == SegmentAttributeUpdated(1, False)
            assert content(made) == b"abc"
            assert made.store.attribute(S, KEY) == before
        else:
            assert answer == SegmentsMerged(1, S, SOURCE, 5)
            assert made.store.attribute(S, KEY) == after

    merged()


@in_world
async def test_several_changes_of_one_attribute_are_applied_in_order(made: World) -> None:
    await filled(made, S, b"abc")
    await filled(made, SOURCE, b"de")
    peer = await made.peer()
    changes = (
        AttributeUpdate(KEY, SET_IF_ABSENT, 5, 0),
        AttributeUpdate(KEY, REPLACE_IF_EQUALS, 6, 5),
        AttributeUpdate(KEY, ACCUMULATE, 2, 0),
    )
    assert await peer.ask(MergeSegments(1, S, SOURCE, "", changes)) == SegmentsMerged(
        1, S, SOURCE, 5
    )
    assert made.store.attribute(S, KEY) == 8


@pytest.mark.parametrize(
    "update", [AttributeUpdate(KEY, 9, 1, 1), AttributeUpdate(KEY, ACCUMULATE, (1 << 63) - 1, 0)]
)
def test_an_invalid_change_is_refused_before_the_merge(
    update: AttributeUpdate,
) -> None:
    @in_world
    async def refused(made: World) -> None:
        await filled(made, S, b"abc")
        await filled(made, SOURCE, b"de")
        await made.store.update(S, KEY, None, 1)
        answer = await (await made.peer()).ask(MergeSegments(1, S, SOURCE, "", (update,)))
        assert isinstance(answer, ErrorMessage)
        assert content(made) == b"abc"

    refused()


@in_world
async def test_a_large_event_goes_through_a_transient_segment(made: World) -> None:
    """Section 2.11; readers see it at once or not at all."""
    await made.store.create(S)
    peer, chunk = await made.peer(), bytes(range(256)) * 4096 * 8
    created = await peer.ask(CreateTransientSegment(1, W, S))
    assert isinstance(created, SegmentCreated)
    assert created.segment.startswith(f"{S}#transient.{W.hex}.")
    assert await peer.ask(SetupAppend(2, W, created.segment)) == AppendSetup(
        2, created.segment, W, ABSENT
    )
    for number in range(3):
        offset = number * len(chunk)
        answer = await peer.ask(ConditionalBlockEnd(W, number, offset, chunk, 3))
        assert answer == DataAppended(
            W, number, number - 1 if number else ABSENT, 3, offset + len(chunk)
        )
    assert content(made) == b""
    assert await peer.ask(MergeSegments(4, S, created.segment)) == SegmentsMerged(
        4, S, created.segment, 3 * len(chunk)
    )
    assert made.store.read(S, 0, 1 << 30) == chunk * 3


@in_world
async def test_a_transient_segment_that_was_not_merged_is_deleted_after_its_connection(
    made: World,
) -> None:
    first = await made.peer()
    one, two = (
        await first.ask(CreateTransientSegment(1, W, S)),
        await first.ask(CreateTransientSegment(2, W, S)),
    )
    assert isinstance(one, SegmentCreated)
    assert isinstance(two, SegmentCreated)
    assert one.segment != two.segment
    await first.stream.close()
    await asyncio.sleep(10)
    second = await made.peer()
    assert isinstance(await second.ask(GetStreamSegmentInfo(3, one.segment)), StreamSegmentInfo)
    await asyncio.sleep(60)
    third = await made.peer()
    await third.ask(KeepAlive())
    await asyncio.sleep(1)
    assert made.store.segments() == []


@in_world
async def test_a_transient_segment_of_a_former_process_is_deleted_at_the_first_connection(
    made: World,
) -> None:
    await filled(made, LEFT, b"abc")
    await filled(made, S, b"abc")
    await (await made.peer()).ask(KeepAlive())
    await asyncio.sleep(1)
    assert made.store.segments() == [S]


@in_world
async def test_a_transient_segment_is_deleted_later_if_the_disk_was_full(made: World) -> None:
    await filled(made, LEFT, b"abc")
    made.disk.fail_write(errno.ENOSPC)
    await (await made.peer()).ask(KeepAlive())
    await asyncio.sleep(100)
    assert made.store.segments() != []
    await (await made.peer()).ask(KeepAlive())
    await asyncio.sleep(1)
    assert made.store.segments() == []


@in_world
async def test_a_failed_merge_is_not_remembered_as_done(made: World) -> None:
    peer = await made.peer()
    await filled(made, S, b"abc")
    await filled(made, SOURCE, b"de")
    made.disk.fail_write(errno.ENOSPC)
    assert isinstance(await peer.ask(MergeSegments(1, S, SOURCE)), ErrorMessage)
    assert await peer.ask(MergeSegments(2, S, SOURCE)) == SegmentsMerged(2, S, SOURCE, 5)
    assert content(made) == b"abcde"
