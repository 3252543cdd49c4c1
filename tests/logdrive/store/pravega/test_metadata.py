"""What the face answers about segments and to those who create and seal them (specification, sections 3 and 0)."""

from uuid import UUID

from logdrive.record import ABSENT
from logdrive.wire.pravega.control import ErrorMessage, NoSuchSegment, SegmentAlreadyExists, SegmentIsSealed
from logdrive.wire.pravega.segments import (
    CreateSegment,
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    SealSegment,
    SegmentAttribute,
    SegmentAttributeUpdated,
    SegmentCreated,
    SegmentSealed,
    StreamSegmentInfo,
    UpdateSegmentAttribute,
)
from tests.support.pravega_framings import W
from tests.support.pravega_peer import S, World, in_world


@in_world
async def test_segments_are_created_once(made: World) -> None:
    peer = await made.peer()
    assert await peer.ask(CreateSegment(1, S)) == SegmentCreated(1, S)
    assert await peer.ask(CreateSegment(2, S)) == SegmentAlreadyExists(2, S)
    assert made.store.segments("") == [S]


@in_world
async def test_a_name_that_cannot_be_is_refused_in_words(made: World) -> None:
    peer = await made.peer()
    for name in ("", "x" * 2000):
        answer = await peer.ask(CreateSegment(1, name))
        assert isinstance(answer, ErrorMessage)
        assert answer.error_code == 0


@in_world
async def test_info_tells_length_and_seal_and_a_missing_segment_is_no_such_segment(made: World) -> None:
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
async def test_attributes_are_compared_and_set_and_writers_are_attributes(made: World) -> None:
    peer, key = await made.peer(), UUID(int=5)
    assert await peer.ask(GetSegmentAttribute(1, S, key)) == NoSuchSegment(1, S, "", -1)
    await made.store.create(S)
    assert await peer.ask(GetSegmentAttribute(2, S, key)) == SegmentAttribute(2, ABSENT)
    assert await peer.ask(UpdateSegmentAttribute(3, S, key, 40, ABSENT)) == SegmentAttributeUpdated(3, True)
    assert await peer.ask(UpdateSegmentAttribute(4, S, key, 41, 39)) == SegmentAttributeUpdated(4, False)
    assert await peer.ask(GetSegmentAttribute(5, S, key)) == SegmentAttribute(5, 40)
    await made.store.append(S, b"abc", writer=W, expected=None, number=6, events=1)
    assert await peer.ask(GetSegmentAttribute(6, S, W)) == SegmentAttribute(6, 6)
