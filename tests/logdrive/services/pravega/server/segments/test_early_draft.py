"""What the protocol's early draft could do, done with the later protocol.

See docs/protocols/pravega-early-draft.md.
"""

import asyncio
import re
import struct
from pathlib import Path
from uuid import UUID

from logdrive.model.framing import frame_event, frame_events
from logdrive.model.numbers import ABSENT
from logdrive.wire.pravega.appends import (
    PADDING,
    PARTIAL_EVENT,
    AppendBlock,
    AppendBlockEnd,
    AppendSetup,
    DataAppended,
    SetupAppend,
)
from logdrive.wire.pravega.codec import encode
from logdrive.wire.pravega.control import KeepAlive
from logdrive.wire.pravega.segments import ReadSegment, SegmentRead
from tests.support.pravega.framings import W
from tests.support.pravega.peer import Peer, S, World, in_world, virtually, world

CAPACITY = 1000
EVENTS = [b"event %d" % n * 10 for n in range(7)]


async def set_up(made: World, segment: str = S, writer: UUID = W) -> Peer:
    await made.store.create(segment)
    peer = await made.peer()
    assert await peer.ask(SetupAppend(1, writer, segment)) == AppendSetup(
        1, segment, writer, ABSENT
    )
    return peer


async def begin_block(peer: Peer, capacity: int) -> None:
    """Announce a block of *capacity* bytes and a sub-frame's head, and none of the bytes."""
    await peer.stream.write([struct.pack("!ii", AppendBlock.code, 16 + capacity + 8), W.bytes])


async def write_event(peer: Peer, event: bytes) -> None:
    """Put one event into the open block; the next comes a second later."""
    await peer.stream.write([frame_event(event)])
    await asyncio.sleep(1)


@in_world
async def test_a_block_begun_before_its_length_is_known_may_end_short(
    made: World,
) -> None:
    peer = await set_up(made)
    await begin_block(peer, CAPACITY)
    for event in EVENTS:
        await write_event(peer, event)
    whole = len(frame_events(EVENTS))
    spare = CAPACITY - whole
    await peer.stream.write([struct.pack("!ii", PADDING, spare), bytes(spare)])
    assert await peer.ask(
        AppendBlockEnd(W, whole, b"", len(EVENTS), len(EVENTS), 2)
    ) == DataAppended(W, 7, ABSENT, 2, whole)
    assert made.store.read(S, 0, 1 << 20) == frame_events(EVENTS)


@in_world
async def test_a_block_ends_longer_than_was_announced_with_its_rest_after_the_end(
    made: World,
) -> None:
    """The draft's own example: many small messages, then a partial one, the end of the block, the
    rest of the partial one.
    """
    peer = await set_up(made)
    whole = frame_events(EVENTS)
    await begin_block(peer, len(whole) + 5)
    for event in EVENTS:
        await write_event(peer, event)
    last = frame_event(b"the last one")
    await peer.stream.write([struct.pack("!ii", PARTIAL_EVENT, 5), last[:5]])
    assert await peer.ask(AppendBlockEnd(W, len(whole), last[5:], 8, 8, 2)) == DataAppended(
        W, 8, ABSENT, 2, len(whole) + len(last)
    )
    assert made.store.read(S, 0, 1 << 20) == whole + last


@in_world
async def test_nothing_else_is_begun_before_a_partial_message_is_complete(made: World) -> None:
    peer = await set_up(made)
    await peer.say(
        AppendBlock(W, struct.pack("!ii", PARTIAL_EVENT, 3) + b"abc"), AppendBlock(W, b"")
    )
    assert await peer.rest() == []
    assert made.store.read(S, 0, 99) == b""


@in_world
async def test_messages_cross_the_wire_in_any_pieces(made: World) -> None:
    peer = await set_up(made)
    for part in encode(AppendBlockEnd(W, 0, frame_event(b"hi"), 1, 1, 2)):
        for place in range(len(part)):
            await peer.stream.write([part[place : place + 1]])
    assert await peer.hear() == DataAppended(W, 1, ABSENT, 2, 10)


@virtually
async def test_one_acknowledgement_covers_all_appends_before_it_counted_in_bytes() -> None:
    async with world(sync_seconds=1.0) as made:
        peer = await set_up(made)
        ends = [len(frame_events(EVENTS[: n + 1])) for n in range(len(EVENTS))]
        for event, end in zip(EVENTS, ends, strict=True):
            await peer.say(AppendBlockEnd(W, 0, frame_event(event), 1, end, end))
            await asyncio.sleep(0.1)  # the first is being made durable while the others come
        assert await peer.hear() == DataAppended(W, ends[0], ABSENT, ends[0], ends[0])
        assert await peer.hear() == DataAppended(W, ends[-1], ends[0], ends[-1], ends[-1])
        assert made.store.attribute(S, W) == ends[-1]


@virtually
async def test_acknowledgements_come_while_a_block_is_open() -> None:
    async with world(sync_seconds=5.0) as made:
        peer = await set_up(made)
        await peer.say(AppendBlockEnd(W, 0, frame_event(b"one"), 1, 1, 2))
        await begin_block(peer, CAPACITY)
        await write_event(peer, b"two")
        assert await peer.hear() == DataAppended(W, 1, ABSENT, 2, 11)


@in_world
async def test_after_a_cut_the_level_acknowledged_last_is_told_and_the_rest_is_sent_again(
    made: World,
) -> None:
    peer = await set_up(made)
    events = frame_events(EVENTS)
    await peer.ask(AppendBlockEnd(W, 0, events[:50], 1, 50, 2))
    # cut inside a message
    await peer.stream.write(
        [b"".join(encode(AppendBlockEnd(W, 0, events[50:], 1, len(events), 3)))[:-4]]
    )
    await peer.stream.close()
    peer = await made.peer()
    assert await peer.ask(SetupAppend(1, W, S)) == AppendSetup(1, S, W, 50)
    assert await peer.ask(AppendBlockEnd(W, 0, events[50:], 1, len(events), 2)) == DataAppended(
        W, len(events), 50, 2, len(events)
    )
    assert made.store.read(S, 0, 1 << 20) == events


@in_world
async def test_many_segments_and_writers_share_one_connection(made: World) -> None:
    peer = await made.peer()
    segments, writers = (
        [f"logs/app/{n}.#epoch.0" for n in range(20)],
        [UUID(int=n) for n in range(40)],
    )
    for segment in segments:
        await made.store.create(segment)
    for number, writer in enumerate(writers):
        segment = segments[number % 20]
        assert await peer.ask(SetupAppend(number, writer, segment)) == AppendSetup(
            number, segment, writer, ABSENT
        )
    await peer.say(
        *(
            AppendBlockEnd(writer, 0, frame_event(writer.bytes), 1, 1, n)
            for n, writer in enumerate(writers)
        )
    )
    answers = [await peer.hear() for _ in writers]
    assert [answer.writer for answer in answers if isinstance(answer, DataAppended)] == writers
    for number, segment in enumerate(segments):
        assert made.store.read(segment, 0, 99) == frame_events(
            [writers[number].bytes, writers[number + 20].bytes]
        )


@in_world
async def test_reading_and_appending_share_one_connection_and_read_at_tail_holds_nothing_up(
    made: World,
) -> None:
    peer = await set_up(made)
    await peer.say(ReadSegment(S, 0, 100, "", 5))
    await peer.say(AppendBlockEnd(W, 0, frame_event(b"hi"), 1, 1, 2))
    answers = {type(answer): answer for answer in (await peer.hear(), await peer.hear())}
    assert answers[SegmentRead] == SegmentRead(S, 0, True, False, frame_event(b"hi"), 5)
    assert answers[DataAppended] == DataAppended(W, 1, ABSENT, 2, 10)


@in_world
async def test_a_reader_that_asks_ahead_gets_its_replies_one_after_the_other(made: World) -> None:
    peer = await set_up(made)
    events = frame_events(EVENTS)
    await peer.ask(AppendBlockEnd(W, 0, events, 7, 7, 2))
    places = range(0, len(events), 64)
    await peer.say(*(ReadSegment(S, place, 64, "", place) for place in places))
    answers = [await peer.hear() for _ in places]
    assert b"".join(answer.whole for answer in answers if isinstance(answer, SegmentRead)) == events


@in_world
async def test_a_keep_alive_is_echoed_whatever_it_carries_and_wherever_it_comes(
    made: World,
) -> None:
    peer = await set_up(made)
    await peer.stream.write([struct.pack("!ii", KeepAlive.code, 5), b"hello"])
    assert await peer.hear() == KeepAlive()
    assert await peer.ask(AppendBlock(W, frame_event(b"hi")), KeepAlive()) == KeepAlive()
    assert await peer.ask(AppendBlockEnd(W, 10, b"", 1, 1, 2)) == DataAppended(W, 1, ABSENT, 2, 10)


def test_the_page_names_tests_that_there_are() -> None:
    root = Path(__file__).parents[6]
    page = (root / "docs/protocols/pravega-early-draft.md").read_text()
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    named = re.findall(r"\btest_\w+(?!\w|\.py)", page)
    assert len(named) > 10
    assert [name for name in named if f"def {name}" not in tests] == []
