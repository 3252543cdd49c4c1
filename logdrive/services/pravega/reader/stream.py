"""Reads a stream for a person: counts of its segments, and its lines as they were written."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from logdrive.errors import StorageError
from logdrive.model.batch_walker import BatchRef
from logdrive.model.framing import split_events
from logdrive.services.lines import SegmentContents
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.reader.segment import SegmentReader
from logdrive.services.reader import SegmentState
from logdrive.services.record_lines import BatchLines, OnFault, count_batches
from logdrive.services.whole_lines import SourceText
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
    refs = SegmentReader(client, state.segment).read_batch_refs(state.start, state.length)
    return await count_batches(refs, state)


async def read_lines(
    client: SegmentClient, state: SegmentState, *, follow: bool, on_fault: OnFault
) -> AsyncIterator[SourceText]:
    """Yield the lines of one segment, in chunks of a batch, in order.

    With *follow* it goes on when batches are appended, until the segment is sealed or deleted.
    """
    place, end = state.start, state.length
    lines = BatchLines(
        state.segment, partial(_read_records, client, state.segment), "bytes", on_fault
    )
    while True:
        async for batch, records in _read_records(client, state.segment, place, end):
            place = batch.next
            for text in await lines.texts_of(batch, records):
                yield text
        if not follow:
            return

        # the service answers once there is more, or after some seconds
        await client.read_segment(state.segment, end, 1)
        fresh = await client.segment_info(state.segment)
        if fresh is None or (fresh.sealed and fresh.length == end):
            return
        end = fresh.length


async def _read_records(
    client: SegmentClient, segment: str, start: int, end: int
) -> AsyncIterator[tuple[BatchRef, list[bytes]]]:
    """Yield the batches in [*start*, *end*), each with its records."""
    async for batch, records in SegmentReader(client, segment).read_batches(start, end):
        yield batch, list(events_of(records))


async def read_all_lines(
    segments: Sequence[ReadableSegment], on_fault: OnFault
) -> AsyncIterator[SourceText]:
    """Yield what `read_lines` yields for each of *segments*, one after the other."""
    for segment in segments:
        async for text in read_lines(
            segment.client, segment.state, follow=False, on_fault=on_fault
        ):
            yield text


async def follow_lines(
    segments: Sequence[ReadableSegment], later: FindNewSegments, on_fault: OnFault
) -> AsyncIterator[SourceText]:
    """Yield what `read_lines` yields for all of *segments* as it arrives, for ever.

    Whenever a segment ends, *later* is asked for the stream's other segments.
    """
    # a text may be 4 MiB, or 16 for an event of a foreign peer
    arrived: asyncio.Queue[SourceText] = asyncio.Queue(maxsize=2)
    known = {segment.state.segment for segment in segments}

    async def feed(segment: ReadableSegment) -> None:
        async for text in read_lines(segment.client, segment.state, follow=True, on_fault=on_fault):
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
