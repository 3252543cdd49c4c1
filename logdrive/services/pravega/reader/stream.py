"""Reads a whole stream for a person: what its segments hold, and its lines as they were written."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import orjson

from logdrive.errors import StorageError
from logdrive.model.framing import split_events
from logdrive.model.pieces import UnfinishedEvents, WholeEvent, piece_in_header
from logdrive.model.records import file_bytes
from logdrive.services.pravega.client.client import SegmentClient, SegmentState
from logdrive.services.pravega.reader.segment import SegmentReader
from logdrive.wire.pravega.names import segment_name


@dataclass(frozen=True, slots=True)
class ReadableSegment:
    """A segment, and a client of the segment store that has it."""

    client: SegmentClient
    state: SegmentState


Later = Callable[[AbstractSet[str]], Awaitable[Sequence[ReadableSegment]]]
"""Finds the segments that a stream has beside those named."""


@dataclass(frozen=True, slots=True)
class Contents:
    """One segment's state and what its batches add up to."""

    state: SegmentState
    batches: int
    events: int
    sources: int


async def segments_of(client: SegmentClient, scope: str, stream: str) -> list[SegmentState]:
    """Return the stream's segments, by number."""
    found: list[SegmentState] = []
    while (state := await client.segment_info(segment_name(scope, stream, len(found)))) is not None:
        found.append(state)
    return found


async def contents(client: SegmentClient, state: SegmentState) -> Contents:
    """Count what *state* holds, from headers alone."""
    batches = events = 0
    sources: set[str] = set()
    async for hop in SegmentReader(client, state.segment).hops(state.start, state.length):
        batches += 1
        if hop.header is not None:
            events += hop.header.events
            sources.add(hop.header.source)
    return Contents(state, batches, events, len(sources))


async def lines(
    client: SegmentClient, state: SegmentState, *, follow: bool
) -> AsyncIterator[bytes]:
    """Yield the text of one segment's batches, in order; with *follow* for ever, as more
    arrives.
    """
    place, end = state.start, state.length
    reader, unfinished = SegmentReader(client, state.segment), UnfinishedEvents()
    while True:
        async for hop, records in reader.batches(place, end):
            place = hop.next
            if hop.header is None:
                yield text_of(hop.payload)
            elif (
                hop.header.kind == "foreign" and (piece := piece_in_header(hop.header)) is not None
            ):
                whole = unfinished.add_piece(
                    hop.offset, hop.next, piece.event, piece.start, piece.end, last=piece.last
                )
                if whole is not None:
                    yield foreign_text(await _put_together(client, state.segment, whole, records))
            elif hop.header.kind == "foreign":
                yield b"".join(foreign_text(record) for record in events_of(records))
            elif hop.header.kind == "data":
                yield b"".join(text_of(record) for record in events_of(records))
        if not follow:
            return
        await client.read(state.segment, end, 1)  # waits at the tail
        fresh = await client.segment_info(state.segment)
        if fresh is None or (fresh.sealed and fresh.length == end):
            return
        end = fresh.length


async def _put_together(
    client: SegmentClient, segment: str, whole: WholeEvent, last: bytes
) -> bytes:
    """Return an event in pieces (rule R6): those before the last one are read again, so that one
    event is in memory at a time.
    """
    parts: list[bytes] = []
    for start, end in whole.extents:
        async for _, records in SegmentReader(client, segment).batches(start, end):
            parts += events_of(records)
    return b"".join([*parts, *events_of(last)])


async def merged(segments: Sequence[ReadableSegment]) -> AsyncIterator[bytes]:
    """Yield what `lines` yields, segment after segment."""
    for segment in segments:
        async for text in lines(segment.client, segment.state, follow=False):
            yield text


async def followed(segments: Sequence[ReadableSegment], later: Later) -> AsyncIterator[bytes]:
    """Yield what `lines` yields from all of them as it arrives, for ever; *later* is asked for more
    whenever one takes no more.
    """
    arrived: asyncio.Queue[bytes] = asyncio.Queue(maxsize=16)
    known = {segment.state.segment for segment in segments}

    async def feed(segment: ReadableSegment) -> None:
        async for text in lines(segment.client, segment.state, follow=True):
            await arrived.put(text)
        for one in await later(known):
            if one.state.segment not in known:  # another one's end may have found it meanwhile
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


def foreign_text(record: bytes) -> bytes:
    """Return the line that a foreign record stands for: its message, or what Lumberjack v1 calls
    `line`; else all of it.
    """
    try:
        value = orjson.loads(record)
        if type(value) is dict and "message" not in value and type(value.get("line")) is str:
            return _v1_text(value)
        return file_bytes(value)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        return record + b"\n"


def _v1_text(pairs: dict[str, Any]) -> bytes:
    """Return the bytes of a v1 line; an agent of ours names an odd line end, and bytes that are not
    UTF-8.
    """
    exact, eol = pairs.get("event.original_base64"), pairs.get("log.eol", "\n")
    text: bytes = pairs["line"].encode() if exact is None else b64decode(exact, validate=True)
    return text + str(eol).encode()


def text_of(record: bytes) -> bytes:
    """Return the bytes that *record* stands for in its file; a record without a message is printed
    as it is.
    """
    try:
        return file_bytes(orjson.loads(record))
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        return record + b"\n"
