"""Reads a stream for a person: counts of its segments, and its lines as they were written."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from logdrive.errors import StorageError
from logdrive.model.framing import split_events
from logdrive.model.pieces import UnfinishedEvents, WholeEvent, piece_in_header
from logdrive.services.lines import SegmentContents, foreign_text, record_text
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.reader.segment import SegmentReader
from logdrive.services.reader import SegmentState
from logdrive.wire.pravega.names import segment_name


@dataclass(frozen=True, slots=True)
class ReadableSegment:
    """A segment's state, and a client of the segment store that has it."""

    client: SegmentClient
    state: SegmentState


FindNewSegments = Callable[[AbstractSet[str]], Awaitable[Sequence[ReadableSegment]]]
"""Returns the segments of a stream, given the full names of those that are known already."""


async def list_first_segments(client: SegmentClient, scope: str, stream: str) -> list[SegmentState]:
    """Return the states of the stream's segments 0, 1, 2 … of epoch 0, up to a missing one."""
    states: list[SegmentState] = []
    while (
        state := await client.segment_info(segment_name(scope, stream, len(states)))
    ) is not None:
        states.append(state)
    return states


async def count_contents(client: SegmentClient, state: SegmentState) -> SegmentContents:
    """Count batches, events and sources of a segment; reads headers only."""
    batches = events = 0
    sources: set[str] = set()
    async for batch in SegmentReader(client, state.segment).read_batch_refs(
        state.start, state.length
    ):
        batches += 1
        if batch.header is not None:
            events += batch.header.events
            sources.add(batch.header.source)
    return SegmentContents(state, batches, events, len(sources))


async def read_lines(
    client: SegmentClient, state: SegmentState, *, follow: bool
) -> AsyncIterator[bytes]:
    """Yield the lines of one segment, in chunks of a batch, in order.

    With *follow* it goes on when batches are appended, until the segment is sealed or deleted.
    """
    place, end = state.start, state.length
    reader, unfinished = SegmentReader(client, state.segment), UnfinishedEvents()
    while True:
        async for batch, records in reader.read_batches(place, end):
            place = batch.next
            if batch.header is None:  # a record of another program
                yield record_text(batch.payload)
            elif (
                batch.header.kind == "foreign"
                and (piece := piece_in_header(batch.header)) is not None
            ):
                whole = unfinished.add_piece(
                    batch.offset, batch.next, piece.event, piece.start, piece.end, last=piece.last
                )
                if whole is not None:
                    yield foreign_text(await _put_together(client, state.segment, whole, records))
            elif batch.header.kind == "foreign":
                yield b"".join(foreign_text(record) for record in events_of(records))
            elif batch.header.kind == "data":
                yield b"".join(record_text(record) for record in events_of(records))
        if not follow:
            return

        # the service answers once there is more, or after some seconds
        await client.read_segment(state.segment, end, 1)
        fresh = await client.segment_info(state.segment)
        if fresh is None or (fresh.sealed and fresh.length == end):
            return
        end = fresh.length


async def _put_together(
    client: SegmentClient, segment: str, whole: WholeEvent, last: bytes
) -> bytes:
    """Return an event that was stored in pieces (rule R6), read again but for the last piece.

    So only one event is in memory at a time.
    """
    parts: list[bytes] = []
    for start, end in whole.extents:
        async for _, records in SegmentReader(client, segment).read_batches(start, end):
            parts += events_of(records)
    return b"".join([*parts, *events_of(last)])


async def read_all_lines(segments: Sequence[ReadableSegment]) -> AsyncIterator[bytes]:
    """Yield what `read_lines` yields for each of *segments*, one after the other."""
    for segment in segments:
        async for text in read_lines(segment.client, segment.state, follow=False):
            yield text


async def follow_lines(
    segments: Sequence[ReadableSegment], later: FindNewSegments
) -> AsyncIterator[bytes]:
    """Yield what `read_lines` yields for all of *segments* as it arrives, for ever.

    Whenever a segment ends, *later* is asked for the stream's other segments.
    """
    arrived: asyncio.Queue[bytes] = asyncio.Queue(maxsize=16)
    known = {segment.state.segment for segment in segments}

    async def feed(segment: ReadableSegment) -> None:
        async for text in read_lines(segment.client, segment.state, follow=True):
            await arrived.put(text)
        # The segment was sealed: follow its successors, unless another one's end has found them.
        for one in await later(known):
            if one.state.segment not in known:
                known.add(one.state.segment)
                group.create_task(feed(one))

    async with asyncio.TaskGroup() as group:
        for segment in segments:
            group.create_task(feed(segment))
        while True:
            yield await arrived.get()


def events_of(records: bytes) -> Iterator[bytes]:
    """Yield the payloads of the events in *records*. Raises `StorageError` if one is cut off."""
    try:
        yield from split_events(records)
    except ValueError as error:
        raise StorageError(f"a batch of {len(records)} bytes is damaged: {error}") from error
