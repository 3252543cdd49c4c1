"""Answers about segments, their attributes and policies (specification, sections 3 and 0)."""

from uuid import UUID

from logdrive.model.numbers import ABSENT
from logdrive.wire.pravega.control import NoSuchSegment, SegmentIsSealed
from logdrive.wire.pravega.segments import (
    BY_EVENTS,
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    LocateOffset,
    OffsetLocated,
    SegmentAttribute,
    SegmentAttributeUpdated,
    SegmentPolicyUpdated,
    SegmentTruncated,
    StreamSegmentInfo,
    TruncateSegment,
    UpdateSegmentAttribute,
    UpdateSegmentPolicy,
)
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world


@in_world
async def test_info_has_length_and_seal_and_a_missing_segment_is_no_such_segment(
    made: World,
) -> None:
    """Section 0, number 1."""
    peer = await made.peer()
    assert await peer.ask(GetStreamSegmentInfo(1, S)) == NoSuchSegment(1, S, "", -1)
    await made.store.create(S)
    await made.store.append(S, b"abc", writer=W, expected=None, number=1, events=1)
    answer = await peer.ask(GetStreamSegmentInfo(2, S))
    assert isinstance(answer, StreamSegmentInfo)
    assert answer == StreamSegmentInfo(2, S, True, False, False, answer.last_modified, 3, 0)
    assert answer.last_modified > 1_600_000_000_000


@in_world
async def test_attributes_are_compared_and_set_and_writers_are_attributes(made: World) -> None:
    peer, key = await made.peer(), UUID(int=5)
    assert await peer.ask(GetSegmentAttribute(1, S, key)) == NoSuchSegment(1, S, "", -1)
    await made.store.create(S)
    assert await peer.ask(GetSegmentAttribute(2, S, key)) == SegmentAttribute(2, ABSENT)
    assert await peer.ask(UpdateSegmentAttribute(3, S, key, 40, ABSENT)) == SegmentAttributeUpdated(
        3, True
    )
    assert await peer.ask(UpdateSegmentAttribute(4, S, key, 41, 39)) == SegmentAttributeUpdated(
        4, False
    )
    assert await peer.ask(GetSegmentAttribute(5, S, key)) == SegmentAttribute(5, 40)
    await made.store.append(S, b"abc", writer=W, expected=None, number=6, events=1)
    assert await peer.ask(GetSegmentAttribute(6, S, W)) == SegmentAttribute(6, 6)


@in_world
async def test_info_has_the_start_of_a_truncated_segment(made: World) -> None:
    peer = await made.peer()
    await made.store.create(S)
    await made.store.append(S, b"abc", writer=W, expected=None, number=1, events=1)
    assert await peer.ask(TruncateSegment(1, S, 2)) == SegmentTruncated(1, S)
    answer = await peer.ask(GetStreamSegmentInfo(2, S))
    assert isinstance(answer, StreamSegmentInfo)
    assert (answer.start_offset, answer.write_offset) == (2, 3)


@in_world
async def test_the_count_of_events_is_an_attribute(made: World) -> None:
    peer = await made.peer()
    await made.store.create(S)
    await made.store.append(S, b"abc", writer=W, expected=None, number=1, events=7)
    assert await peer.ask(GetSegmentAttribute(1, S, UUID(int=(1 << 127) | 1))) == SegmentAttribute(
        1, 7
    )


@in_world
async def test_a_policy_is_stored_in_the_attributes_that_the_protocol_names(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(UpdateSegmentPolicy(1, S, 100, BY_EVENTS)) == NoSuchSegment(1, S, "", -1)
    await made.store.create(S)
    assert await peer.ask(UpdateSegmentPolicy(2, S, 100, BY_EVENTS)) == SegmentPolicyUpdated(2, S)
    assert await peer.ask(GetSegmentAttribute(3, S, UUID(int=(1 << 127) | 2))) == SegmentAttribute(
        3, BY_EVENTS
    )
    assert await peer.ask(GetSegmentAttribute(4, S, UUID(int=(1 << 127) | 3))) == SegmentAttribute(
        4, 100
    )
    await made.store.seal(S)
    assert await peer.ask(UpdateSegmentPolicy(5, S, 100, BY_EVENTS)) == SegmentIsSealed(
        5, S, "", -1
    )


@in_world
async def test_an_offset_is_located_at_the_next_append_s_beginning_or_the_end(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(LocateOffset(1, S, 1)) == NoSuchSegment(1, S, "", -1)
    await made.store.create(S)
    await made.store.append(S, b"abc", writer=W, expected=None, number=1, events=1)
    await made.store.append(S, b"defg", writer=W, expected=None, number=2, events=1)
    for target, located in ((-1, 0), (0, 0), (1, 3), (3, 3), (4, 7), (7, 7), (8, 7)):
        assert await peer.ask(LocateOffset(2, S, target)) == OffsetLocated(2, S, located)
    await made.store.truncate(S, 4)
    assert await peer.ask(LocateOffset(3, S, 1)) == OffsetLocated(3, S, 4)
