"""Clients can read the store's own segments, and not change them."""

import pytest

from logdrive.store.streams.journal import SEGMENT
from logdrive.wire.pravega.appends import SetupAppend
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import (
    CreateSegment,
    DeleteSegment,
    GetStreamSegmentInfo,
    MergeSegments,
    MergeSegmentsBatch,
    ReadSegment,
    SealSegment,
    SegmentRead,
    StreamSegmentInfo,
    TruncateSegment,
)
from tests.support.pravega_framings import W
from tests.support.pravega_peer import S, World, in_world

CHANGES: list[Message] = [
    SetupAppend(1, W, SEGMENT),
    CreateSegment(1, SEGMENT, 0, 0),
    SealSegment(1, SEGMENT),
    DeleteSegment(1, SEGMENT),
    TruncateSegment(1, SEGMENT, 1),
    MergeSegments(1, S, SEGMENT),
    MergeSegments(1, SEGMENT, S),
    MergeSegmentsBatch(1, S, (SEGMENT,)),
]


@in_world
async def test_a_change_of_the_journal_closes_the_connection_and_a_read_is_answered(
    made: World,
) -> None:
    await made.store.create(SEGMENT)
    await made.store.append(SEGMENT, b"abc", writer=W, expected=None, number=1, events=1)
    await made.store.create(S)
    for change in CHANGES:
        peer = await made.peer()
        with pytest.raises(EOFError):
            await peer.ask(change)
    peer = await made.peer()
    info = await peer.ask(GetStreamSegmentInfo(1, SEGMENT))
    assert isinstance(info, StreamSegmentInfo)
    assert (info.write_offset, info.start_offset, info.is_sealed) == (3, 0, False)
    read = await peer.ask(ReadSegment(SEGMENT, 0, 100, "", 2))
    assert isinstance(read, SegmentRead)
    assert bytes(read.whole) == b"abc"
